"""`manage.py doctor`: a table, JSON, and an exit code that means something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from statecore.operations.doctor import CHECKS

ROOT = Path(__file__).parents[2]


def run_doctor(*words: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("doctor", *words, stdout=out)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


@pytest.mark.django_db
def test_an_error_suggests_an_action_and_exits_with_2() -> None:
    code, text = run_doctor("--only", "operators")

    assert code == 2
    assert text.splitlines() == [
        "ERROR    operators  no user can log in",
        "                    → manage.py createsuperuser",
        "1 errors, 0 warnings",
    ]


@pytest.mark.django_db
def test_a_healthy_installation_exits_with_0() -> None:
    User.objects.create_superuser("ada", password="a-long-enough-one")
    code, text = run_doctor("--only", "operators", "--only", "python")

    assert code == 0
    assert "0 errors, 0 warnings" in text


@pytest.mark.django_db
def test_a_warning_exits_with_1(settings) -> None:
    settings.STATECORE_GATE_COMMANDS = ("bash",)
    code, text = run_doctor("--json", "--only", "gates")

    assert code == 1
    assert json.loads(text)["status"] == "warning"
    assert {"check", "level", "message", "action"} == set(json.loads(text)["findings"][0])


@pytest.mark.django_db(transaction=True)
def test_every_check_runs_by_default() -> None:
    _code, text = run_doctor("--json")
    assert {finding["check"] for finding in json.loads(text)["findings"]} == set(CHECKS)


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(CommandError, match="invalid choice"):
        call_command("doctor", "--only", "the weather")


@pytest.mark.postgres
def test_an_unreachable_database_is_reported_once_without_a_traceback(tmp_path: Path) -> None:
    environ = {**os.environ, "DATABASE_URL": "postgres://ann:secret@127.0.0.1:1/name", "STATECORE_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "manage.py", "doctor"], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120
    )

    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "secret" not in ended.stdout
    assert ended.stdout.count("ERROR    database") == 1
    assert "migrations" not in ended.stdout
