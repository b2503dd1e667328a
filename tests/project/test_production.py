"""The settings shipped for production pass Django's deployment checks."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client

from tests.deploy import units
from tests.support.site import ROOT


def test_the_shipped_settings_pass_the_checks_for_deployment(tmp_path: Path) -> None:
    given = {
        **os.environ,
        **units.variables(),
        "STATECORE_HOME": str(tmp_path),
        "STATECORE_SECRET_KEY": secrets.token_urlsafe(50),
    }
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    ended = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=120)

    assert ended.returncode == 0, ended.stderr
    assert "no issues" in ended.stdout


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "status"), [("/login/", 301), ("/api/v1/tasks/", 301), ("/healthz", 200)])
def test_behind_tls_only_health_checks_answer_without_it(client: Client, settings, path: str, status: int) -> None:
    settings.SECURE_SSL_REDIRECT = True

    assert client.get(path).status_code == status
    assert client.get(path, secure=True).status_code != 301
