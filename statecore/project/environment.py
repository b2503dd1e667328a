"""The settings that come from environment variables, read and checked in one place."""

import ipaddress
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from statecore.project import database_url, redis_url
from statecore.project.database_url import DatabaseSettings
from statecore.project.refusal import Refused

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104  compared with, not bound to
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
RECOVERY_MODES = ("auto", "approval")
SECOND_FACTOR = ("off", "optional", "required")
SHORTEST_TOKEN = 16
# A percentage means nothing below the least number it is taken of.
ALERT_LIMITS = {
    "failure_percent": 10, "failure_minutes": 5, "failure_least": 10,
    "override_count": 5, "override_minutes": 10,
    "stuck_factor": 2,
    "rollback_minutes": 60,
    "retry_percent": 20, "retry_minutes": 10, "retry_least": 10,
    "quarantine_count": 3, "quarantine_minutes": 60,
    "blocked_count": 5,
}  # fmt: skip


@dataclass(frozen=True)
class Environment:
    """Everything a person may set from outside."""

    home: Path
    host: str
    port: int
    database: DatabaseSettings
    redis_url: str
    redis_is_embedded: bool
    allowed_hosts: list[str]
    secret_key: str
    https: bool
    trusted_proxies: list[str]
    debug: bool
    log_format: str
    log_level: str
    start_anyway: bool
    read_only: str
    second_factor: str
    deadlines: dict[str, float]
    second_person: frozenset[str]
    idempotency_seconds: int
    retry_base_seconds: int
    retry_cap_seconds: int
    recovery: dict[str, str]
    probe_seconds: int
    metrics_token: str
    gate_commands: tuple[str, ...]
    gate_folder: Path
    repository: Path | None
    repository_branch: str
    patch_test_command: str
    notify_urls: tuple[str, ...]
    alerts: dict[str, int]
    backup_dir: Path
    retired_dir: Path
    retention_days: int
    sequencer_lag_seconds: int
    body_limit: int
    calls_per_minute: int


def read(environ: Mapping[str, str]) -> Environment:
    """Check every variable and refuse the first wrong one by name."""
    home = _home(environ)
    host = environ.get("HOST") or "127.0.0.1"
    given_redis = environ.get("REDIS_URL", "")
    gate_commands, repository = _gate_commands(environ), _repository(environ)
    backup_dir = _path("STATECORE_BACKUP_DIR", environ.get("STATECORE_BACKUP_DIR") or str(home / "backup"))
    return Environment(
        home=home,
        host=host,
        port=_number(environ, "PORT", "8000", 1, 65535),
        database=database_url.parse(
            environ.get("DATABASE_URL") or f"sqlite:///{quote(str(home))}/statecore.sqlite3",
            synchronous=_choice(environ, "STATECORE_SQLITE_SYNCHRONOUS", "FULL", SYNCHRONOUS),
            pool=_number(environ, "STATECORE_DATABASE_POOL", "0", 0, 1000),
        ),
        redis_url=redis_url.check(given_redis) if given_redis else redis_url.embedded(home),
        redis_is_embedded=not given_redis,
        allowed_hosts=_allowed_hosts(environ, host),
        secret_key=environ.get("STATECORE_SECRET_KEY", ""),
        https=_flag(environ, "STATECORE_HTTPS"),
        trusted_proxies=_trusted_proxies(environ),
        debug=_flag(environ, "STATECORE_DEBUG"),
        log_format=_choice(environ, "STATECORE_LOG_FORMAT", "console", ("console", "json")),
        log_level=_choice(environ, "STATECORE_LOG_LEVEL", "INFO", LOG_LEVELS),
        start_anyway=_flag(environ, "STATECORE_START_ANYWAY"),
        read_only=_choice(environ, "STATECORE_READ_ONLY", "0", ("0", "1", "all")),
        second_factor=_choice(environ, "STATECORE_SECOND_FACTOR", "optional", SECOND_FACTOR),
        deadlines=_deadlines(environ),
        second_person=frozenset(_words(environ, "STATECORE_SECOND_PERSON")),
        idempotency_seconds=_number(environ, "STATECORE_IDEMPOTENCY_SECONDS", "86400", 60, 31_536_000),
        retry_base_seconds=_number(environ, "STATECORE_RETRY_BASE_SECONDS", "5", 1, 86_400),
        retry_cap_seconds=_number(environ, "STATECORE_RETRY_CAP_SECONDS", "900", 1, 604_800),
        recovery=_recovery(environ),
        probe_seconds=_number(environ, "STATECORE_PROBE_SECONDS", "300", 1, 86_400),
        metrics_token=_token(environ, "STATECORE_METRICS_TOKEN"),
        gate_commands=gate_commands,
        gate_folder=_folder(environ, "STATECORE_GATE_FOLDER") or repository or home / "gates",
        repository=repository,
        repository_branch=environ.get("STATECORE_REPOSITORY_BRANCH", ""),
        patch_test_command=_patch_test_command(environ, gate_commands),
        notify_urls=tuple(_words(environ, "STATECORE_NOTIFY_URLS")),
        alerts=_alerts(environ),
        backup_dir=backup_dir,
        retired_dir=_path("STATECORE_RETIRED_DIR", environ.get("STATECORE_RETIRED_DIR") or str(backup_dir / "retired")),
        retention_days=_number(environ, "STATECORE_RETENTION_DAYS", "0", 0, 36_500),
        sequencer_lag_seconds=_number(environ, "STATECORE_SEQUENCER_LAG_SECONDS", "60", 1, 86_400),
        body_limit=_number(environ, "STATECORE_BODY_LIMIT", "8388608", 65_536, 1_073_741_824),
        calls_per_minute=_number(environ, "STATECORE_CALLS_PER_MINUTE", "120000", 1, 1_000_000_000),
    )


def _home(environ: Mapping[str, str]) -> Path:
    given = environ.get("STATECORE_HOME")
    home = _path("STATECORE_HOME", given) if given else ROOT / ".state"
    if home.exists() and not home.is_dir():
        raise Refused(f"STATECORE_HOME is {home}, which is not a directory.")
    return home


def _path(name: str, given: str) -> Path:
    try:
        path = Path(given).expanduser().absolute()
        path.exists()  # which says whether it can be a path at all
    except (OSError, RuntimeError, ValueError) as error:
        raise Refused(f"{name} is {given[:200]!r}, which cannot be a path: {_said(error)}.") from None
    return path


def _said(error: Exception) -> str:
    return (getattr(error, "strerror", "") or str(error)).rstrip(".").lower()


def _number(environ: Mapping[str, str], name: str, default: str, least: int, most: int) -> int:
    given = environ.get(name) or default
    if not given.isascii() or not given.isdigit() or not least <= int(given) <= most:
        raise Refused(f"{name} is {given!r}, but it must be a number from {least} to {most}.")
    return int(given)


def _choice(environ: Mapping[str, str], name: str, default: str, allowed: tuple[str, ...]) -> str:
    given = environ.get(name) or default
    if given not in allowed:
        raise Refused(f"{name} is {given!r}, but it must be one of {', '.join(allowed)}.")
    return given


def _flag(environ: Mapping[str, str], name: str) -> bool:
    return _choice(environ, name, "0", ("0", "1")) == "1"


def _words(environ: Mapping[str, str], name: str) -> list[str]:
    return [word for word in map(str.strip, environ.get(name, "").split(",")) if word]


def _deadlines(environ: Mapping[str, str]) -> dict[str, float]:
    """`task.running=3600, run.pending=600`: machine, state and seconds."""
    found = {}
    for word in _words(environ, "STATECORE_DEADLINES"):
        where, _, seconds = word.partition("=")
        if "." not in where or not seconds.strip().isascii() or not seconds.strip().isdigit():
            raise Refused(f"STATECORE_DEADLINES has {word!r}, but it must read machine.state=seconds.")
        found[where.strip()] = float(seconds)
    return found


def _recovery(environ: Mapping[str, str]) -> dict[str, str]:
    """`ingestion_job=auto, pipeline_job=approval`: what the system may do about a stuck entity without asking."""
    found = {}
    for word in _words(environ, "STATECORE_RECOVERY"):
        machine, _, mode = map(str.strip, word.partition("="))
        if not machine or mode not in RECOVERY_MODES:
            raise Refused(f"STATECORE_RECOVERY has {word!r}, but it must read machine=auto or machine=approval.")
        found[machine] = mode
    return found


def _token(environ: Mapping[str, str], name: str) -> str:
    given = environ.get(name, "")
    # The sentence does not repeat it: what is too short may still be meant to be secret.
    if given and not (len(given) >= SHORTEST_TOKEN and given.isascii() and given.isprintable() and " " not in given):
        raise Refused(f"{name} must be {SHORTEST_TOKEN} or more printable ASCII characters without spaces.")
    return given


def _alerts(environ: Mapping[str, str]) -> dict[str, int]:
    """`blocked_count=20, failure_percent=5`: the limits of the alert rules, where they are not the usual ones."""
    limits = dict(ALERT_LIMITS)
    for word in _words(environ, "STATECORE_ALERTS"):
        name, _, number = (part.strip() for part in word.partition("="))
        if name not in limits or not number.isascii() or not number.isdigit():
            known = ", ".join(sorted(limits))
            raise Refused(f"STATECORE_ALERTS has {word!r}, but it must read limit=number; the limits are {known}.")
        limits[name] = int(number)
    return limits


def _allowed_hosts(environ: Mapping[str, str], host: str) -> list[str]:
    given = _words(environ, "STATECORE_ALLOWED_HOSTS")
    listened_on = [] if host in EVERYWHERE else [f"[{host}]" if ":" in host else host]
    return list(dict.fromkeys([*given, *LOOPBACK, *listened_on]))


def _trusted_proxies(environ: Mapping[str, str]) -> list[str]:
    """Whose word about the caller's address is taken. Not `*`: then anybody could be anybody."""
    given = _words(environ, "STATECORE_TRUSTED_PROXIES") or ["127.0.0.1", "::1"]
    for word in given:
        try:
            ipaddress.ip_network(word)
        except ValueError:
            raise Refused(
                f"STATECORE_TRUSTED_PROXIES has {word!r}, but it must be an address or a network like 10.0.0.0/8."
            ) from None
    return given


def _gate_commands(environ: Mapping[str, str]) -> tuple[str, ...]:
    words = _words(environ, "STATECORE_GATE_COMMANDS")
    for word in words:
        if "/" in word and not word.startswith("/"):
            raise Refused(f"STATECORE_GATE_COMMANDS has {word!r}, but it must be a program's name or absolute path.")
    return tuple(words)


def _folder(environ: Mapping[str, str], name: str) -> Path | None:
    given = environ.get(name)
    if not given:
        return None
    folder = _path(name, given)
    if not folder.is_dir():
        raise Refused(f"{name} is {folder}, which is not a directory.")
    return folder


def _repository(environ: Mapping[str, str]) -> Path | None:
    folder = _folder(environ, "STATECORE_REPOSITORY")
    if folder is not None and not (folder / ".git").exists():
        raise Refused(f"STATECORE_REPOSITORY is {folder}, which is not the top of a git work tree.")
    return folder


def _patch_test_command(environ: Mapping[str, str], allowed: tuple[str, ...]) -> str:
    command = environ.get("STATECORE_PATCH_TEST_COMMAND", "")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Refused(f"STATECORE_PATCH_TEST_COMMAND cannot be read: {error}.") from None
    if words and words[0] not in allowed:
        raise Refused(f"STATECORE_PATCH_TEST_COMMAND runs {words[0]!r}, which STATECORE_GATE_COMMANDS does not allow.")
    return command
