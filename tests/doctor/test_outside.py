"""The machine, the settings, Redis and who works by it."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from statecore.doctor import sweeps
from statecore.doctor.machine import _room
from tests.doctor.asking import complaint, is_content_with, levels


@pytest.fixture
def broker(redis_server: str, settings) -> Iterator[Redis]:
    settings.REDIS_URL = redis_server
    with Redis.from_url(redis_server) as redis:
        redis.flushall()
        yield redis
        redis.flushall()


def test_this_python_is_new_enough() -> None:
    assert is_content_with("python")


def test_the_packages_are_those_of_the_lock() -> None:
    assert is_content_with("packages")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("django==1.0 \\", "django 5."),
        ("no-such-package==1.0", "no-such-package missing"),
    ],
)
def test_another_package_than_the_locked_one_is_named(tmp_path: Path, settings, line: str, said: str) -> None:
    settings.ROOT = tmp_path
    (tmp_path / "requirements.lock").write_text(f"{line}\n    --hash=sha256:00\nnot-here==1 ; sys_platform == 'vms'\n")

    level, says = complaint("packages")

    assert (level, said in says) == ("warning", True), says


def test_a_home_that_others_may_read_is_a_warning(home: Path) -> None:
    home.chmod(0o755)
    assert complaint("home")[0] == "warning"
    home.chmod(stat.S_IRWXU)
    assert is_content_with("home")


def test_a_home_that_is_not_there_is_an_error(settings) -> None:
    settings.STATECORE_HOME = Path("/nowhere/at/all")
    assert complaint("home")[0] == "error"


def test_room_is_judged_by_what_is_left() -> None:
    assert [_room("home", mebi << 20).level for mebi in (100, 1_000, 100_000)] == ["error", "warning", "ok"]
    assert levels("disk")


def test_what_only_this_machine_reaches_need_not_be_hardened(settings) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
    assert is_content_with("settings")


def test_what_others_reach_without_tls_is_told(settings) -> None:
    settings.ALLOWED_HOSTS = ["statecore.example.org"]
    assert "warning" in levels("settings")


@pytest.mark.parametrize(("name", "value"), [("DEBUG", True), ("ALLOWED_HOSTS", ["*"])])
def test_what_lets_everybody_in_is_an_error(settings, name: str, value: object) -> None:
    setattr(settings, name, value)
    assert "error" in levels("settings")


@pytest.mark.parametrize(("command", "level"), [("/bin/sh", "warning"), ("no-such-program", "warning"), ("git", "ok")])
def test_a_command_that_can_do_anything_or_is_not_there_is_told(settings, command: str, level: str) -> None:
    settings.STATECORE_GATE_COMMANDS = (command,)
    assert level in levels("gates")
    assert ("warning" in levels("gates")) == (level == "warning")


def test_redis_answers(broker: Redis) -> None:
    assert is_content_with("redis")


def test_redis_that_does_not_answer_is_an_error_everywhere(settings) -> None:
    settings.REDIS_URL = "redis://:secret@127.0.0.1:1/0"

    level, says = complaint("redis")

    assert level == "error"
    assert "secret" not in says
    assert complaint("beat")[0] == "error"


def test_messages_that_nobody_takes_are_told(broker: Redis) -> None:
    broker.rpush("celery", *(["{}"] * 1_001))
    assert complaint("redis") == ("warning", "1001 messages wait in celery")


def test_without_a_worker_there_is_no_worker(broker: Redis, settings) -> None:
    assert complaint("worker")[0] == "error"


def test_beat_is_known_by_its_sweeps(broker: Redis) -> None:
    assert complaint("beat")[0] == "error"
    sweeps.note("sweep_tasks")
    sweeps.note("no_sweep_at_all")
    assert is_content_with("beat")
    assert set(sweeps.last()) == {"sweep_tasks"}


def test_a_sweep_that_is_late_is_named(broker: Redis) -> None:
    sweeps.note("sweep_tasks")
    broker.hset(sweeps.KEY, "look_around", time.time() - 600)
    assert complaint("beat") == ("warning", "late: look_around")
