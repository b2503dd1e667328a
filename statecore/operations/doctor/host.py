"""Checks that need neither database nor Redis: Python, packages, directories, disk, settings, commands, sandbox."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from django.conf import settings
from django.core import checks
from packaging.requirements import InvalidRequirement, Requirement

import statecore

from ...executors import sandbox
from ...storage import private_files
from .results import CheckResult, error, join_some, ok, warning

OLDEST_PYTHON = (3, 11)
LOCK_FILE = Path(statecore.__file__).with_name("requirements.lock")
MEBIBYTE = 1 << 20
LOW_SPACE, CRITICAL_SPACE = 2_048 * MEBIBYTE, 256 * MEBIBYTE
LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}
# Their arguments can be any program.
INTERPRETERS = {
    "ash",
    "bash",
    "dash",
    "env",
    "node",
    "perl",
    "python",
    "python3",
    "ruby",
    "sh",
    "sudo",
    "xargs",
    "zsh",
}


def check_python() -> Iterator[CheckResult]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        yield error(f"Python {version} is too old", "use Python 3.11 or later")
    else:
        yield ok(f"Python {version} in {sys.prefix}")


def check_packages() -> Iterator[CheckResult]:
    """Compares the installed packages with the tested versions in the lock file."""
    if not LOCK_FILE.exists():
        yield warning(f"{LOCK_FILE.name} is missing", "install from a release, which includes its lock file")
        return
    locked = [requirement for line in LOCK_FILE.read_text().splitlines() if (requirement := _parse_requirement(line))]
    different = [
        f"{each.name} {found or 'missing'}" for each in locked if (found := _find_other_version(each)) is not None
    ]
    if different:
        yield warning(
            f"packages differ from {LOCK_FILE.name}: {join_some(different)}",
            f"install the versions of {LOCK_FILE} (scripts/venv {LOCK_FILE.name}), then restart every process",
        )
    else:
        yield ok(f"{len(locked)} packages match {LOCK_FILE.name}")


def _parse_requirement(line: str) -> Requirement | None:
    if "==" not in line or line.startswith((" ", "#")):
        return None
    try:
        requirement = Requirement(line.rstrip("\\ "))
    except InvalidRequirement:
        return None
    return requirement if requirement.marker is None or requirement.marker.evaluate() else None


def _find_other_version(requirement: Requirement) -> str | None:
    """Returns None if the locked version is installed, else the installed version or "" if there is none."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return ""
    return None if requirement.specifier.contains(version, prereleases=True) else version


def check_home() -> Iterator[CheckResult]:
    path: Path = settings.STATECORE_HOME
    if not path.is_dir():
        yield error(f"{path} does not exist", "set STATECORE_HOME to a directory that this user can write to")
    elif not os.access(path, os.W_OK | os.X_OK):
        yield error(f"{path} is not writable", "make the user that runs Statecore its owner")
    elif exposed := private_files.find_exposed():
        names = " ".join(map(str, exposed))
        yield warning(f"{join_some(list(map(str, exposed)))} can be read by other users", f"chmod go= {names}")
    else:
        yield ok(str(path))


def check_disk() -> Iterator[CheckResult]:
    folders = {"home": settings.STATECORE_HOME, "backups": settings.STATECORE_BACKUP_DIR}
    for name, folder in folders.items():
        existing = next((path for path in (folder, *folder.parents) if path.exists()), None)
        if existing is not None:
            yield rate_free_space(name, shutil.disk_usage(existing).free)


def rate_free_space(name: str, free: int) -> CheckResult:
    message = f"{name}: {free // MEBIBYTE} MiB free"
    if free < CRITICAL_SPACE:
        return error(message, "free disk space now: the journal file and exports need it")
    return warning(message, "free disk space soon") if free < LOW_SPACE else ok(message)


def check_settings() -> Iterator[CheckResult]:
    """Runs Django's deployment checks, unless the installation is reachable from this host only."""
    if settings.DEBUG:
        yield error("STATECORE_DEBUG=1 shows tracebacks and settings to every visitor", "remove it")
    if "*" in settings.ALLOWED_HOSTS:
        yield error(
            "STATECORE_ALLOWED_HOSTS contains *",
            "list the host names: links in mails and redirects are built from them",
        )
    if set(settings.ALLOWED_HOSTS) <= LOOPBACK:
        yield ok("reachable from this host only")
        return
    messages = [each for each in checks.run_checks(include_deployment_checks=True) if not each.is_silenced()]
    for each in messages:
        yield (error if each.is_serious() else warning)(
            f"{each.id}: {each.msg}", each.hint or "manage.py check --deploy; STATECORE_HTTPS=1 behind TLS fixes most"
        )
    if not messages:
        yield ok(f"ready for production at {', '.join(sorted(set(settings.ALLOWED_HOSTS) - LOOPBACK))}")


def check_gate_commands() -> Iterator[CheckResult]:
    names = settings.STATECORE_GATE_COMMANDS
    if not names:
        yield ok("no commands are allowed")
        return
    for name in names:
        if Path(name).name in INTERPRETERS:
            yield warning(
                f"STATECORE_GATE_COMMANDS allows {name}, which can run any program", "allow only the programs you need"
            )
        if shutil.which(name) is None:
            yield warning(f"STATECORE_GATE_COMMANDS allows {name}, which is not installed", "install or remove it")
    yield ok(f"gates may run {', '.join(names)}")


def check_sandbox() -> Iterator[CheckResult]:
    """Tries the sandbox on this host, which should be that of the executors."""
    if not settings.STATECORE_GATE_COMMANDS:
        yield ok("no commands are allowed")
    elif not (problem := sandbox.find_problem()):
        yield ok(f"commands run in bubblewrap, {_describe_sandbox()}")
        yield from _check_programs_in_sandbox()
    elif settings.STATECORE_SANDBOX == sandbox.REQUIRED:
        yield error(f"no command runs: {problem}", "install bubblewrap where the executors run, and restart them")
    else:
        yield warning(
            f"commands run without a sandbox as {_user_name()}, with its files, network and secrets: {problem}",
            "install bubblewrap and set STATECORE_SANDBOX=required, or run the executors on a host of their own",
        )


def _describe_sandbox() -> str:
    user = f"as {settings.STATECORE_COMMAND_USER}" if os.geteuid() == 0 else "in a user namespace"
    return f"{user}, {'with the network of the host' if settings.STATECORE_SANDBOX_NETWORK else 'without network'}"


def _check_programs_in_sandbox() -> Iterator[CheckResult]:
    for name in settings.STATECORE_GATE_COMMANDS:
        path = shutil.which(name)
        if path and not sandbox.can_read(Path(path)):
            yield warning(
                f"{path} is outside the sandbox and cannot be run", "add its directory to STATECORE_SANDBOX_READ"
            )


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
