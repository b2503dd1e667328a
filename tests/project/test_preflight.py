"""What must be true before anything starts."""

from pathlib import Path

import pytest
from django.db import connection

from statecore.project import preflight
from statecore.project.refusal import Refused


def install(directory: Path, name: str) -> None:
    information = directory / f"{name.replace('-', '_')}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")


def test_the_installed_django_fsm_does_not_raise() -> None:
    preflight.check_distribution()


def test_the_other_django_fsm_is_refused_even_beside_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "django-fsm")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(Refused, match="`django-fsm` is installed"):
        preflight.check_distribution()


def test_no_django_fsm_at_all_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])

    with pytest.raises(Refused, match="`django-fsm-2` is not installed"):
        preflight.check_distribution()


@pytest.mark.django_db
def test_a_reachable_database_does_not_raise() -> None:
    preflight.check_database()


@pytest.mark.django_db
def test_an_unreachable_database_is_refused_with_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", "/nowhere/at_all")

    with pytest.raises(Refused, match=r"the database /nowhere/at_all.* cannot be reached"):
        preflight.check_database()


def test_an_unreachable_broker_is_refused_without_its_password(settings) -> None:
    settings.REDIS_URL = "redis://:hunter2@127.0.0.1:1/0"

    with pytest.raises(Refused, match=r"Redis at redis://127\.0\.0\.1:1/0 cannot") as refusal:
        preflight.check_broker()

    assert "hunter2" not in refusal.value.sentence


def test_a_reachable_broker_does_not_raise(redis_server: str) -> None:
    preflight.check_broker()
