"""Checks of the host, the settings, Redis, and the processes that use it."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from statecore.executors import sandbox
from statecore.operations.doctor import host, services
from statecore.operations.doctor.host import rate_free_space
from tests.doctor.results import get_problem, levels, passes
from tests.executors.support import needs_bubblewrap


@pytest.fixture
def broker(redis_server: str, settings) -> Iterator[Redis]:
    settings.REDIS_URL = redis_server
    with Redis.from_url(redis_server) as redis:
        redis.flushall()
        yield redis
        redis.flushall()


def test_this_python_is_new_enough() -> None:
    assert passes("python")


def test_the_installed_packages_match_the_lock_file() -> None:
    assert passes("packages")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("django==1.0 \\", "django 5."),
        ("no-such-package==1.0", "no-such-package missing"),
    ],
)
def test_a_package_that_differs_from_the_lock_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, expected: str
) -> None:
    lock = tmp_path / "requirements.lock"
    monkeypatch.setattr(host, "LOCK_FILE", lock)
    lock.write_text(f"{line}\n    --hash=sha256:00\nnot-here==1 ; sys_platform == 'vms'\n")

    level, message = get_problem("packages")

    assert (level, expected in message) == ("warning", True), message


def test_a_home_that_others_may_read_is_a_warning(home: Path) -> None:
    home.chmod(0o755)
    assert get_problem("home")[0] == "warning"
    home.chmod(stat.S_IRWXU)
    assert passes("home")


def test_a_missing_home_is_an_error(settings) -> None:
    settings.STATECORE_HOME = Path("/nowhere/at/all")
    assert get_problem("home")[0] == "error"


def test_free_disk_space_sets_the_level() -> None:
    assert [rate_free_space("home", mebi << 20).level for mebi in (100, 1_000, 100_000)] == ["error", "warning", "ok"]
    assert levels("disk")


def test_a_local_installation_needs_no_hardening(settings) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
    assert passes("settings")


def test_a_public_installation_without_tls_is_a_warning(settings) -> None:
    settings.ALLOWED_HOSTS = ["statecore.example.org"]
    assert "warning" in levels("settings")


@pytest.mark.parametrize(("name", "value"), [("DEBUG", True), ("ALLOWED_HOSTS", ["*"])])
def test_settings_that_allow_public_access_are_an_error(settings, name: str, value: object) -> None:
    setattr(settings, name, value)
    assert "error" in levels("settings")


@pytest.mark.parametrize(("command", "level"), [("/bin/sh", "warning"), ("no-such-program", "warning"), ("git", "ok")])
def test_a_shell_or_missing_program_among_the_gate_commands_is_a_warning(settings, command: str, level: str) -> None:
    settings.STATECORE_GATE_COMMANDS = (command,)
    assert level in levels("gates")
    assert ("warning" in levels("gates")) == (level == "warning")


@needs_bubblewrap
def test_a_working_sandbox_passes_and_names_programs_outside_it(settings, tmp_path) -> None:
    tool = tmp_path / "tool"
    tool.touch(0o755)
    settings.STATECORE_GATE_COMMANDS = ("git",)
    assert passes("sandbox")
    settings.STATECORE_GATE_COMMANDS = ("git", str(tool))
    assert get_problem("sandbox") == ("warning", f"{tool} is outside the sandbox and cannot be run")


def test_commands_without_a_sandbox_are_a_warning_that_says_what_they_reach(settings) -> None:
    settings.STATECORE_SANDBOX = "off"
    assert passes("sandbox"), "no commands are allowed"
    settings.STATECORE_GATE_COMMANDS = ("git",)

    level, message = get_problem("sandbox")

    assert level == "warning"
    assert message.startswith("commands run without a sandbox as ")
    assert message.endswith("with its files, network and secrets: STATECORE_SANDBOX is off")


def test_a_required_sandbox_that_is_missing_is_an_error(settings, monkeypatch) -> None:
    settings.STATECORE_GATE_COMMANDS, settings.STATECORE_SANDBOX = ("git",), "required"
    sandbox._probe.cache_clear()
    monkeypatch.setenv("PATH", "/nonexistent")

    assert get_problem("sandbox") == ("error", "no command runs: bubblewrap is not installed")
    sandbox._probe.cache_clear()


def test_a_reachable_redis_passes(broker: Redis) -> None:
    assert passes("redis")


def test_an_unreachable_redis_fails_every_check_that_needs_it(settings) -> None:
    settings.REDIS_URL = "redis://:secret@127.0.0.1:1/0"

    level, message = get_problem("redis")

    assert level == "error"
    assert "secret" not in message
    assert get_problem("beat")[0] == "error"


def test_unconsumed_messages_are_a_warning(broker: Redis) -> None:
    broker.rpush("celery", *(["{}"] * 1_001))
    assert get_problem("redis") == ("warning", "1001 messages wait in celery")


def test_a_missing_celery_worker_is_an_error(broker: Redis, settings) -> None:
    assert get_problem("worker")[0] == "error"


def test_celery_beat_is_detected_by_its_sweeps(broker: Redis) -> None:
    assert get_problem("beat")[0] == "error"
    services.record_sweep("sweep_tasks")
    services.record_sweep("no_sweep_at_all")
    assert passes("beat")
    assert set(services.get_sweep_ages()) == {"sweep_tasks"}


def test_an_overdue_sweep_is_named(broker: Redis) -> None:
    services.record_sweep("sweep_tasks")
    broker.hset(services.SWEEPS_KEY, "reevaluate_waiting", time.time() - 600)
    assert get_problem("beat") == ("warning", "late: reevaluate_waiting")
