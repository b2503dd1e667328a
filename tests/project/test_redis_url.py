"""REDIS_URL."""

from pathlib import Path

import pytest

from statecore.project import redis_url

URLS = ["redis://host", "redis://:word@host:6379/2", "rediss://host/0", "unix:///run/r.sock?db=1"]


@pytest.mark.parametrize("url", URLS)
def test_a_good_url_is_kept(url: str) -> None:
    assert redis_url.check(url) == url


@pytest.mark.parametrize("url", ["host:6379", "redis://", "redis://host:port", "unix://host/path", "http://host"])
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="it should be redis://"):
        redis_url.check(url)


def test_the_embedded_socket_lies_in_the_home() -> None:
    assert redis_url.embedded(Path("/srv/home")) == "unix:///srv/home/redis.sock"


def test_a_home_too_deep_for_a_socket_gets_a_short_one_that_is_always_the_same() -> None:
    deep = Path("/" + "d" * 120)

    path = redis_url.socket_path(deep)

    assert len(str(path)) <= redis_url.LONGEST_SOCKET_PATH
    assert path == redis_url.socket_path(deep)
    assert path != redis_url.socket_path(deep / "other")


@pytest.mark.parametrize(
    ("url", "celery"),
    [
        ("redis://host:6379/2", "redis://host:6379/2"),
        ("unix:///run/r.sock", "redis+socket:///run/r.sock?virtual_host=0"),
        ("unix:///run/r.sock?db=3", "redis+socket:///run/r.sock?virtual_host=3"),
    ],
)
def test_celery_gets_its_own_spelling(url: str, celery: str) -> None:
    assert redis_url.for_celery(url) == celery
