"""The settings of an installation: environment variables with their types, defaults, limits and descriptions.

`read` validates all of them at once. The page docs/reference/settings.md is generated from the declarations.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import quote, urlsplit

from annotated_types import Ge, Le
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from statecore.kernel import repositories as repository_names
from statecore.kernel.repositories import RepositorySettings
from statecore.project import connected_networks, database_url, redis_url
from statecore.project.database_url import DatabaseSettings
from statecore.project.refusal import Refused
from statecore_client.transparency.notes import COSIGNATURE, NAME, InvalidNote, SignerKey, VerifierKey

# The files of the package, such as templates. A checkout has them in folders beside it, to which these are links.
PACKAGE: Path = Path(__file__).resolve().parents[1]
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ALL_INTERFACES = ("0.0.0.0", "::", "")  # noqa: S104  compared with, not bound to
SHORTEST_TOKEN = 16
SPOOL_BYTES = 1_048_576
HEADER_NAME = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")
# A percentage is judged only from the least number of cases on.
ALERT_LIMITS = {
    "failure_percent": 10, "failure_minutes": 5, "failure_least": 10,
    "override_count": 5, "override_minutes": 10,
    "stuck_factor": 2,
    "rollback_minutes": 60,
    "retry_percent": 20, "retry_minutes": 10, "retry_least": 10,
    "quarantine_count": 3, "quarantine_minutes": 60,
    "blocked_count": 5,
    "no_worker_minutes": 1,
    "webhook_minutes": 15,
    "disk_free_mb": 1_024,
    "clock_skew_seconds": 5,
}  # fmt: skip

# Validators. Each raises ValueError with the rest of a sentence that begins with the name of the variable.


def _flag(given: str) -> bool:
    if given not in ("0", "1"):
        raise ValueError(f"is {given!r}, but it must be one of 0, 1")
    return given == "1"


def _digits(given: str) -> int:
    if not given.isascii() or not given.isdigit():
        raise ValueError("is not a whole number")
    return int(given)


def _words(given: str) -> list[str]:
    return [word for word in map(str.strip, given.split(",")) if word]


def _path(given: str) -> Path:
    try:
        path = Path(given).expanduser().absolute()
        path.exists()  # raises for a text that cannot be a path
    except (OSError, RuntimeError, ValueError) as error:
        why = (getattr(error, "strerror", "") or str(error)).rstrip(".").lower()
        raise ValueError(f"is {given[:200]!r}, which cannot be a path: {why}") from None
    return path


def _home(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise ValueError(f"is {path}, which is not a directory")
    return path


def _directory(path: Path) -> Path:
    if not path.is_dir():
        raise ValueError(f"is {path}, which is not a directory")
    return path


def _work_tree(path: Path) -> Path:
    if not (path / ".git").exists():
        raise ValueError(f"is {path}, which is not the top of a git work tree")
    return path


def _git_repository(path: Path) -> Path:
    if not (path / ".git").exists() and not (path / "objects").is_dir():
        raise ValueError(f"is {path}, which is not a git repository")
    return path


def _directories(given: list[str]) -> tuple[Path, ...]:
    for word in given:
        if not word.startswith("/") or not _path(word).is_dir():
            raise ValueError(f"has {word!r}, which is not the absolute path of a directory")
    return tuple(map(Path, given))


def _token(given: str) -> str:
    if given and not (len(given) >= SHORTEST_TOKEN and given.isascii() and given.isprintable() and " " not in given):
        # Without the value, which may be meant as a secret although it is too short.
        raise ValueError(f"must be {SHORTEST_TOKEN} or more printable ASCII characters without spaces")
    return given


def _passphrase(given: str) -> str:
    if given and len(given) < SHORTEST_TOKEN:
        raise ValueError(f"must have {SHORTEST_TOKEN} or more characters")  # without the value, which is a secret
    return given


CONNECTED = "connected"


def _networks(given: list[str]) -> list[str]:
    """Refuses `*`: with it every caller could choose its address."""
    for word in given:
        try:
            ipaddress.ip_network(word)
        except ValueError:
            raise ValueError(f"has {word!r}, but it must be an address or a network like 10.0.0.0/8") from None
    return given


def _proxies(given: list[str]) -> list[str]:
    if CONNECTED not in given:
        return _networks(given)
    return [*_networks([word for word in given if word != CONNECTED]), *connected_networks.read_networks()]


def _public_url(given: str) -> str:
    found = urlsplit(given)
    if given and not (found.scheme in ("http", "https") and found.netloc and not found.query and not found.fragment):
        raise ValueError(f"is {given!r}, but it must be an address like https://statecore.example.org")
    return given.rstrip("/")


def _https(given: bool, info: ValidationInfo) -> bool:
    """Without a trusted proxy every request looks like plain HTTP and would be redirected for ever."""
    if given and info.data.get("trusted_proxies") == []:
        raise ValueError("is 1, but STATECORE_TRUSTED_PROXIES does not name the proxy that terminates TLS")
    return given


def _issuer(given: str) -> str:
    if not given:
        return given
    url = urlsplit(given)
    if url.scheme != "https" and not (url.scheme == "http" and url.hostname in ("localhost", "127.0.0.1", "::1")):
        raise ValueError(f"is {given[:200]!r}, but it must begin with https://")
    if not url.hostname or url.query or url.fragment:
        raise ValueError(f"is {given[:200]!r}, but it must be the address of an OpenID provider without a query")
    return given


def _client_id(given: str, info: ValidationInfo) -> str:
    if info.data.get("oidc_issuer") and not given:
        raise ValueError("is needed with STATECORE_OIDC_ISSUER")
    return given


def _header_name(given: str) -> str:
    if given and not HEADER_NAME.fullmatch(given):
        raise ValueError(f"is {given[:200]!r}, but it must be the name of a header of letters, digits and hyphens")
    return given


def _identity_header(given: str, info: ValidationInfo) -> str:
    """Without a trusted proxy every caller could send it."""
    if _header_name(given) and info.data.get("trusted_proxies") == []:
        raise ValueError("needs STATECORE_TRUSTED_PROXIES, the addresses of the proxies that may send it")
    if given and info.data.get("oidc_issuer"):
        raise ValueError("cannot be combined with STATECORE_OIDC_ISSUER")
    return given


def _sign_in_groups(given: list[str]) -> dict[str, str]:
    found = {}
    for word in given:
        theirs, _, ours = (part.strip() for part in word.rpartition("="))
        if not theirs or not ours:
            raise ValueError(f"has {word[:200]!r}, but it must read their-group=our-group")
        found[theirs] = ours
    return found


def _single_sign_on(given: Any, info: ValidationInfo) -> Any:
    """Refuses a setting that has no effect without a provider: the operator expects one that is missing."""
    if given and not (info.data.get("oidc_issuer") or info.data.get("identity_header")):
        raise ValueError("needs STATECORE_OIDC_ISSUER or STATECORE_IDENTITY_HEADER")
    return given


def _required_group(given: str, info: ValidationInfo) -> str:
    has_provider = info.data.get("oidc_issuer") or info.data.get("identity_header")
    if has_provider and not given and info.data.get("sign_in_groups") == {}:
        raise ValueError("or STATECORE_SIGN_IN_GROUPS is needed: without them no account may sign in")
    return given


def _programs(given: list[str]) -> tuple[str, ...]:
    for word in given:
        if "/" in word and not word.startswith("/"):
            raise ValueError(f"has {word!r}, but it must be a program's name or absolute path")
    return tuple(given)


def _test_command(given: str, info: ValidationInfo) -> str:
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise ValueError(f"cannot be read: {str(error).lower()}") from None
    allowed = info.data.get("gate_commands")
    if words and allowed is not None and words[0] not in allowed:
        raise ValueError(f"runs {words[0]!r}, which STATECORE_GATE_COMMANDS does not allow")
    return given


def _repositories(given: str, info: ValidationInfo) -> dict[str, RepositorySettings]:
    """Return the repositories that the file describes, one table each; refuses all wrong ones at once."""
    if not given:
        return {}
    path = _path(given)
    if "repository" in info.data and info.data["repository"] is None:
        raise ValueError("needs STATECORE_REPOSITORY, the repository of phases that name none")
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = (getattr(error, "strerror", "") or str(error)).rstrip(".").lower()
        raise ValueError(f"is {path}, which cannot be read: {why}") from None
    used = {info.data.get("repository"): "STATECORE_REPOSITORY"}
    if problems := [problem for name in tables for problem in _repository_errors(name, tables[name], used, info)]:
        raise ValueError("; ".join(problems))
    return {name: RepositorySettings(**{**table, "path": Path(table["path"])}) for name, table in tables.items()}


def _artifact_storage(given: str) -> dict[str, Any]:
    """Return the storage as Django's setting STORAGES describes it; empty for the folder on disk."""
    if not given:
        return {}
    path, found = _path(given), {}
    try:
        found = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = (getattr(error, "strerror", "") or str(error)).rstrip(".").lower()
        raise ValueError(f"is {path}, which cannot be read: {why}") from None
    backend, options = found.get("backend"), found.get("options", {})
    if found.keys() - {"backend", "options"} or not isinstance(backend, str) or not isinstance(options, dict):
        raise ValueError(f"is {path}, which must have a text `backend` and a table `options`, and nothing else")
    if "." not in backend or importlib.util.find_spec(backend.partition(".")[0]) is None:
        raise ValueError(f"names the backend {backend!r}, which is not installed")
    # Without it, storages that fetch a whole file before they return it would keep it in memory.
    memory = {"max_memory_size": SPOOL_BYTES} if backend.startswith("storages.backends.s3.") else {}
    return {"BACKEND": backend, "OPTIONS": {**memory, **options}}


def _repository_errors(name: str, table: object, used: dict[Path | None, str], info: ValidationInfo) -> Iterator[str]:
    if repository_names.NAME.fullmatch(name) is None or name == repository_names.DEFAULT:
        yield f"names a repository {name!r}, which must be other than default and consist of a-z 0-9 . _ -"
    keys = RepositorySettings._fields
    fits = isinstance(table, dict) and all(key in keys and isinstance(table[key], str) for key in table)
    if not isinstance(table, dict) or not fits:
        yield f"has a table {name}, which must have only the texts {', '.join(keys)}"
        return
    path = Path(table.get("path", ""))
    if not path.is_absolute() or not (path / ".git").exists():
        yield f"has {name} with the path {str(path)!r}, which is not the absolute path of a git work tree"
    elif other := used.get(path):
        yield f"has {name} with the path {path}, which {other} has too"
    used[path] = name
    try:
        _test_command(table.get("test_command", ""), info)
    except ValueError as error:
        yield f"has {name} with a test_command that {error}"


def _database_url(given: str) -> str:
    if given:
        database_url.parse(given)
    return given


def _drill_database(given: str) -> str:
    return given if given == "sqlite://" else _database_url(given)


def _deadlines(given: list[str]) -> dict[str, float]:
    found = {}
    for word in given:
        state, _, seconds = (part.strip() for part in word.partition("="))
        if "." not in state or not seconds.isascii() or not seconds.isdigit():
            raise ValueError(f"has {word!r}, but it must read machine.state=seconds")
        found[state] = float(seconds)
    return found


def _recovery(given: list[str]) -> dict[str, str]:
    found = {}
    for word in given:
        machine, _, mode = (part.strip() for part in word.partition("="))
        if not machine or mode not in ("auto", "approval"):
            raise ValueError(f"has {word!r}, but it must read machine=auto or machine=approval")
        found[machine] = mode
    return found


def _alerts(given: list[str]) -> dict[str, int]:
    limits = dict(ALERT_LIMITS)
    for word in given:
        name, _, number = (part.strip() for part in word.partition("="))
        if name not in limits or not number.isascii() or not number.isdigit():
            known = ", ".join(sorted(limits))
            raise ValueError(f"has {word!r}, but it must read limit=number; the limits are {known}")
        limits[name] = int(number)
    return limits


def _key_name(given: str) -> str:
    if given and not NAME.fullmatch(given):
        raise ValueError(f"is {given[:200]!r}, but it must be at most 200 characters without spaces and +")
    return given


def _signer_key(given: str) -> str:
    try:
        if given:
            SignerKey.parse(given)
    except InvalidNote as error:
        raise ValueError(f"cannot be used: {error}") from None  # without the value, which is a secret
    return given


def _verifier_key(given: str) -> str:
    try:
        if given:
            VerifierKey.parse(given)
    except InvalidNote as error:
        raise ValueError(f"cannot be used: {error}") from None
    return given


def _signer_program(given: str, info: ValidationInfo) -> str:
    try:
        shlex.split(given)
    except ValueError as error:
        raise ValueError(f"cannot be read: {str(error).lower()}") from None
    if given and not info.data.get("journal_verifier_key"):
        raise ValueError("needs its public key in STATECORE_JOURNAL_VERIFIER_KEY")
    return given


def _witnesses(given: list[str]) -> tuple[VerifierKey, ...]:
    found: dict[str, VerifierKey] = {}
    for word in given:
        try:
            key = VerifierKey.parse(word)
        except InvalidNote as error:
            raise ValueError(f"has {word[:200]!r}, which cannot be used: {error}") from None
        if key.algorithm != COSIGNATURE:
            raise ValueError(f"has {word[:200]!r}, which is not the public key of a witness")
        if key.name in found:
            raise ValueError(f"names {key.name} twice")
        found[key.name] = key
    return tuple(found.values())


def _redis_url(given: str) -> str:
    return redis_url.check(given)


Flag = Annotated[bool, BeforeValidator(_flag)]
Number = Annotated[int, BeforeValidator(_digits)]
Words = BeforeValidator(_words)
AnyPath = Annotated[Path, BeforeValidator(_path)]
Directory = Annotated[AnyPath, AfterValidator(_directory)]


def _setting(group: str, variable: str, description: str, default: str | None = "", **more: Any) -> Any:
    """Declare a setting. Its default is written as in the environment, or depends on others (`default_factory`)."""
    own: dict[str, Any] = (
        {} if "default_factory" in more else {"default": default, "validate_default": default is not None}
    )
    return Field(alias=variable, description=description, json_schema_extra={"group": group}, **own, **more)


network = partial(_setting, "Network and storage")
access = partial(_setting, "Access and limits")
sign_in = partial(_setting, "Single sign-on")
timing = partial(_setting, "Timeouts and retention")
execution = partial(_setting, "Gates, patches and rollbacks")
proofs = partial(_setting, "Proofs and witnesses")
agents = partial(_setting, "Limits of agents")
artifacts = partial(_setting, "Limits of artifacts")
hooks = partial(_setting, "Webhooks")
reporting = partial(_setting, "Alerts, logs and start-up checks")


class Environment(BaseSettings):
    """Every setting, validated. Attributes that depend on several variables are properties."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="ignore",
        case_sensitive=True,
        # Lists and mappings have their own notation, not JSON.
        enable_decoding=False,
        validate_default=False,
    )

    host: str = network("HOST", "address on which the web process listens", "127.0.0.1")
    port: Number = network("PORT", "port on which the web process listens", "8000", ge=1, le=65_535)
    home: Annotated[AnyPath, AfterValidator(_home)] = network(
        "STATECORE_HOME",
        "directory of the SQLite database, the secret key and the sockets; default: `.state` in the current directory",
        default_factory=lambda: Path.cwd() / ".state",
    )
    database_url: Annotated[str, AfterValidator(_database_url)] = network(
        "DATABASE_URL",
        "`sqlite:///path` or `postgres://user:password@host:port/name`; default: SQLite in `STATECORE_HOME`",
    )
    redis_url: Annotated[str, AfterValidator(_redis_url)] = network(
        "REDIS_URL",
        "`redis://…`, `rediss://…` or `unix://…`; default: an embedded Redis",
        default_factory=lambda data: redis_url.embedded(data["home"]),
    )
    process_memory_mb: Number = network(
        "STATECORE_PROCESS_MEMORY_MB",
        "MiB of memory from which a process, or a child of a worker, ends after its work and is replaced; 0: never",
        "1024", ge=0, le=1_048_576,
    )  # fmt: skip
    database_pool: Number = network(
        "STATECORE_DATABASE_POOL",
        "PostgreSQL connections per process; 0: one for each thread. The web process uses 16 unless this is set",
        "0", ge=0, le=1000,
    )  # fmt: skip
    sqlite_synchronous: Literal["OFF", "NORMAL", "FULL", "EXTRA"] = network(
        "STATECORE_SQLITE_SYNCHRONOUS",
        "SQLite's `synchronous`: `FULL`, `EXTRA`, `NORMAL` or `OFF`. `NORMAL` is faster, but a power failure may lose"
        " the last commits",
        "FULL",
    )
    backup_dir: AnyPath = network(
        "STATECORE_BACKUP_DIR",
        "directory of the daily exports; default: `backup` in `STATECORE_HOME`",
        default_factory=lambda data: data["home"] / "backup",
    )
    backup_passphrase: Annotated[str, AfterValidator(_passphrase)] = network(
        "STATECORE_BACKUP_PASSPHRASE",
        "passphrase that encrypts exports, at least 16 characters; only encrypted exports contain the accounts. Keep a"
        " copy elsewhere: without it they cannot be restored",
    )
    drill_database: Annotated[str, AfterValidator(_drill_database)] = network(
        "STATECORE_DRILL_DATABASE",
        "runs a [restore drill](../how-to/back-up-and-restore.md#rehearse-a-restore) each week, in a temporary"
        " database: `sqlite://` for a file, or the address of a PostgreSQL database whose role may create databases"
        " and is no role of this installation; default: no drill",
    )
    archive_dir: AnyPath = network(
        "STATECORE_ARCHIVE_DIR",
        "directory of archived events; default: `archived-events` in `STATECORE_BACKUP_DIR`",
        default_factory=lambda data: data["backup_dir"] / "archived-events",
    )

    artifact_storage: Annotated[dict[str, Any], BeforeValidator(_artifact_storage)] = network(
        "STATECORE_ARTIFACT_STORAGE",
        "TOML file that names the storage of artifacts: the `backend`, a class of Django's storage API such as"
        " `storages.backends.s3.S3Storage`, and a table of its `options`; default: the folder `artifacts` in"
        " `STATECORE_HOME`",
    )

    apps: Annotated[tuple[str, ...], Words] = network(
        "STATECORE_APPS",
        "Django applications that add machines, sinks, alert rules, pages or calls, separated by commas; those of"
        " installed distributions with an entry point of the group `statecore.plugins` are added too",
    )

    public_hosts: Annotated[list[str], Words] = access(
        "STATECORE_ALLOWED_HOSTS",
        "host names under which the site is reached, separated by commas; loopback and `HOST` are always allowed",
    )
    given_public_url: Annotated[str, AfterValidator(_public_url)] = access(
        "STATECORE_PUBLIC_URL",
        "`https://statecore.example.org`: address of the console, for links in notices and alert rules; default: the"
        " first of `STATECORE_ALLOWED_HOSTS`, else `HOST` and `PORT`",
    )
    trusted_proxies: Annotated[list[str], AfterValidator(_proxies), Words] = access(
        "STATECORE_TRUSTED_PROXIES",
        "addresses or networks of the proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted, separated by"
        " commas; `connected` for all networks to which the machine is connected directly, in a container that only"
        " the proxy reaches; without one, these headers are ignored",
    )
    https: Annotated[Flag, AfterValidator(_https)] = access(
        "STATECORE_HTTPS",
        "`1` behind a proxy that terminates TLS: secure cookies, redirects and HSTS; requires"
        " `STATECORE_TRUSTED_PROXIES`",
        "0",
    )
    secret_key: str = access(
        "STATECORE_SECRET_KEY",
        "Django's secret key, the same for every process; default: generated once and kept in `STATECORE_HOME`",
    )
    read_only: Literal["0", "1", "all"] = access(
        "STATECORE_READ_ONLY",
        "`1` refuses all changes in the console and by its sessions over REST; `all` also refuses those made with"
        " tokens, including agents",
        "0",
    )
    second_person: Annotated[frozenset[str], Words] = access(
        "STATECORE_SECOND_PERSON",
        "`run->succeeded, patch_ledger->rolled_back by supervisor`: states that can be forced only with the approval of"
        " another person, of the group if one is named; separated by commas",
    )
    approval_hours: Number = access(
        "STATECORE_APPROVAL_HOURS", "hours after which a request for approval expires", "24", ge=1, le=8_760
    )
    second_factor: Literal["off", "optional", "required"] = access(
        "STATECORE_SECOND_FACTOR",
        "whether users log in with a code of their authenticator app or a passkey: `optional`, `required` or `off`",
        "optional",
    )
    session_idle_minutes: Number = access(
        "STATECORE_SESSION_IDLE_MINUTES",
        "minutes without opening a page or submitting a form after which a browser has to log in again; paired displays"
        " are exempt",
        "720", ge=5, le=525_600,
    )  # fmt: skip
    streams_per_account: Number = access(
        "STATECORE_STREAMS_PER_ACCOUNT",
        "event streams and WebSockets that one account may have open in one process, with all its tokens and sessions",
        "200", ge=1, le=5_000,
    )  # fmt: skip
    metrics_token: Annotated[str, AfterValidator(_token)] = access(
        "STATECORE_METRICS_TOKEN",
        "bearer token for `/metrics`, at least 16 characters; without it only logged-in staff can read `/metrics`",
    )
    body_limit: Number = access(
        "STATECORE_BODY_LIMIT", "maximum size of a request body in bytes", "8388608", ge=65_536, le=1_073_741_824
    )
    calls_per_minute: Number = access(
        "STATECORE_CALLS_PER_MINUTE",
        "API calls that one token may make per minute, over all processes",
        "120000", ge=1, le=1_000_000_000,
    )  # fmt: skip
    debug: Flag = access("STATECORE_DEBUG", "`1` shows tracebacks in responses: never in production", "0")

    oidc_issuer: Annotated[str, AfterValidator(_issuer)] = sign_in(
        "STATECORE_OIDC_ISSUER",
        "`https://login.example.com/realms/staff`: OpenID provider with which people sign in to the console, exactly as"
        " it names itself",
    )
    oidc_client_id: Annotated[str, AfterValidator(_client_id)] = sign_in(
        "STATECORE_OIDC_CLIENT_ID", "name of Statecore at the provider"
    )
    oidc_client_secret: str = sign_in(
        "STATECORE_OIDC_CLIENT_SECRET", "secret of Statecore at the provider; default: none, as a public client"
    )
    oidc_name: str = sign_in("STATECORE_OIDC_NAME", "name of the provider on the login page", "single sign-on")
    oidc_scopes: Annotated[tuple[str, ...], Words] = sign_in(
        "STATECORE_OIDC_SCOPES", "scopes that are requested, separated by commas", "openid, profile"
    )
    oidc_name_claim: str = sign_in(
        "STATECORE_OIDC_NAME_CLAIM", "claim from which new accounts get their names", "preferred_username"
    )
    oidc_groups_claim: str = sign_in(
        "STATECORE_OIDC_GROUPS_CLAIM", "claim that lists the groups of a person: a list, or one text", "groups"
    )
    identity_header: Annotated[str, AfterValidator(_identity_header)] = sign_in(
        "STATECORE_IDENTITY_HEADER",
        "`X-Forwarded-User`: header in which the proxies of `STATECORE_TRUSTED_PROXIES` name the person that they have"
        " authenticated; instead of an OpenID provider",
    )
    identity_groups_header: Annotated[str, AfterValidator(_header_name)] = sign_in(
        "STATECORE_IDENTITY_GROUPS_HEADER",
        "header in which the same proxies list the groups of the person, separated by commas",
        "X-Forwarded-Groups",
    )
    sign_in_groups: Annotated[
        dict[str, str], AfterValidator(_single_sign_on), BeforeValidator(_sign_in_groups), Words
    ] = sign_in(
        "STATECORE_SIGN_IN_GROUPS",
        "`engineers=operator, on-call=supervisor`: groups of the provider and the groups that they give here, separated"
        " by commas; every sign-in sets these groups",
    )
    sign_in_required_group: Annotated[str, AfterValidator(_required_group), AfterValidator(_single_sign_on)] = sign_in(
        "STATECORE_SIGN_IN_REQUIRED_GROUP",
        "group of the provider without which an account is deactivated; default: any of `STATECORE_SIGN_IN_GROUPS`",
    )
    sign_in_minutes: Number = sign_in(
        "STATECORE_SIGN_IN_MINUTES",
        "minutes after which a session has to be confirmed by the provider, which pages do automatically after half of"
        " them",
        "60", ge=2, le=10_080,
    )  # fmt: skip
    sign_in_only: Annotated[Flag, AfterValidator(_single_sign_on)] = sign_in(
        "STATECORE_SIGN_IN_ONLY",
        "`1` refuses passwords, except for the accounts in `STATECORE_BREAK_GLASS_ACCOUNTS`",
        "0",
    )
    break_glass_accounts: Annotated[frozenset[str], AfterValidator(_single_sign_on), Words] = sign_in(
        "STATECORE_BREAK_GLASS_ACCOUNTS",
        "`emergency-1, emergency-2`: accounts that may log in with a password although `STATECORE_SIGN_IN_ONLY` is set;"
        " each of these logins is an error in the account journal",
    )

    deadlines: Annotated[dict[str, float], BeforeValidator(_deadlines), Words] = timing(
        "STATECORE_DEADLINES",
        "`task.running=3600, run.pending=600`: timeouts of states in seconds, instead of the declared ones",
    )
    idempotency_seconds: Number = timing(
        "STATECORE_IDEMPOTENCY_SECONDS", "how long the response to an idempotency key is kept", "86400",
        ge=60, le=31_536_000,
    )  # fmt: skip
    attempt_days: Number = timing(
        "STATECORE_ATTEMPT_DAYS", "days after which records of failed attempts at tasks are deleted; 0: never",
        "90", ge=0, le=36_500,
    )  # fmt: skip
    progress_seconds: Number = timing(
        "STATECORE_PROGRESS_SECONDS",
        "how long the progress that an agent reports on a task may stay the same before the task is listed as stuck,"
        " unless the task has a limit of its own; 0: any time",
        "900", ge=0, le=31_536_000,
    )  # fmt: skip
    task_log_days: Number = timing(
        "STATECORE_TASK_LOG_DAYS", "days after which the logs of tasks are deleted; 0: never", "14", ge=0, le=36_500
    )
    task_log_bytes: Number = timing(
        "STATECORE_TASK_LOG_BYTES",
        "bytes of log that are kept of one attempt at a task: of a longer log the newest lines are kept",
        "10485760", ge=65_536, le=1_073_741_824,
    )  # fmt: skip
    task_log_bytes_per_second: Number = timing(
        "STATECORE_TASK_LOG_BYTES_PER_SECOND",
        "bytes of log per second that a task may write over a longer time; a burst may have 16 times as many",
        "65536", ge=1_024, le=1_073_741_824,
    )  # fmt: skip
    artifact_days: Number = timing(
        "STATECORE_ARTIFACT_DAYS", "days after the end of a task after which its artifacts are deleted; 0: never",
        "30", ge=0, le=36_500,
    )  # fmt: skip
    occurrence_days: Number = timing(
        "STATECORE_OCCURRENCE_DAYS", "days after which past occurrences of schedules are deleted; 0: never",
        "90", ge=0, le=36_500,
    )  # fmt: skip
    retention_days: Number = timing(
        "STATECORE_RETENTION_DAYS", "age in days from which `manage.py archive` may archive events; 0: never", "0",
        ge=0, le=36_500,
    )  # fmt: skip
    retry_base_seconds: Number = timing(
        "STATECORE_RETRY_BASE_SECONDS", "delay before the first retry; it doubles with each one", "5", ge=1, le=86_400
    )
    retry_cap_seconds: Number = timing(
        "STATECORE_RETRY_CAP_SECONDS", "maximum delay before a retry", "900", ge=1, le=604_800
    )
    recovery: Annotated[dict[str, str], BeforeValidator(_recovery), Words] = timing(
        "STATECORE_RECOVERY",
        "`pipeline_job=approval`: machines whose stalled work is recovered only after an operator approves; the others"
        " recover automatically",
    )
    probe_seconds: Number = timing(
        "STATECORE_PROBE_SECONDS",
        "how long the caller that probes a failing tool holds the probe before another caller may try",
        "300", ge=1, le=86_400,
    )  # fmt: skip
    tool_lease_seconds: Number = timing(
        "STATECORE_TOOL_LEASE_SECONDS",
        "how long a caller that has acquired a tool counts as one of its users, and its reports count",
        "900", ge=1, le=86_400,
    )  # fmt: skip
    leader_seconds: Number = timing(
        "STATECORE_LEADER_SECONDS",
        "how long a sequencer that hangs or is gone remains the leader before another one takes its place",
        "10", ge=1, le=14,
    )  # fmt: skip
    sequencer_lag_seconds: Number = timing(
        "STATECORE_SEQUENCER_LAG_SECONDS", "lag of the sequencer from which `/readyz` fails", "60", ge=1, le=86_400
    )

    gate_commands: Annotated[tuple[str, ...], BeforeValidator(_programs), Words] = execution(
        "STATECORE_GATE_COMMANDS",
        "`pytest, /usr/bin/ruff`: programs that gates and tests may run; without it no command is run",
    )
    repository: Annotated[Directory, AfterValidator(_work_tree)] | None = execution(
        "STATECORE_REPOSITORY",
        "git work tree to which patches are applied, used by Statecore only; without it patches are left to agents",
        None,
    )
    gate_folder: Directory = execution(
        "STATECORE_GATE_FOLDER",
        "directory that gates test: each gets a copy of it, or a checkout of its newest commit if it is a git work"
        " tree; default: the repository, or `gates` in `STATECORE_HOME`",
        default_factory=lambda data: data["repository"] or data["home"] / "gates",
    )
    repository_branch: str = execution(
        "STATECORE_REPOSITORY_BRANCH", "branch on which the work tree must be; default: any"
    )
    proof_repository: Annotated[Directory, AfterValidator(_git_repository)] | None = execution(
        "STATECORE_PROOF_REPOSITORY",
        "without `STATECORE_REPOSITORY`: mirror of the git repository that integrators commit to, in which the commits"
        " that revert patches are verified; it is only read",
        None,
    )
    patch_test_command: Annotated[str, AfterValidator(_test_command)] = execution(
        "STATECORE_PATCH_TEST_COMMAND",
        "`pytest -q`: command that every patch must pass before its commit, in addition to the exit gates of its task;"
        " it also tests rollbacks",
    )
    repositories: Annotated[dict[str, RepositorySettings], BeforeValidator(_repositories)] = execution(
        "STATECORE_REPOSITORIES",
        "TOML file of further repositories: a table for each name with its `path`, and if needed its `branch` and"
        " `test_command`. A phase names the repositories that its workstreams may use; without a name they use"
        " `STATECORE_REPOSITORY`, whose name is `default`",
    )
    commands_at_once: Number = execution(
        "STATECORE_COMMANDS_AT_ONCE",
        "gate commands and tests of patches that one executors process runs at the same time, each in its checkout",
        "4", ge=1, le=1_000,
    )  # fmt: skip
    checkout_dir: AnyPath = execution(
        "STATECORE_CHECKOUT_DIR",
        "directory in which each command gets its checkout, fastest in memory (`/dev/shm/statecore`); default:"
        " `checkouts` in `STATECORE_HOME`",
        default_factory=lambda data: data["home"] / "checkouts",
    )
    sandbox: Literal["auto", "required", "off"] = execution(
        "STATECORE_SANDBOX",
        "whether commands run in bubblewrap: `required` runs no command without it, `auto` uses it where it works,"
        " `off` never",
        "auto",
    )
    sandbox_read: Annotated[tuple[Path, ...], BeforeValidator(_directories), Words] = execution(
        "STATECORE_SANDBOX_READ",
        "`/srv/tools, /opt/node`: directories that commands in the sandbox may read besides the system's and the Python"
        " of this installation",
    )
    sandbox_network: Flag = execution(
        "STATECORE_SANDBOX_NETWORK", "`1` lets commands in the sandbox use the network of the host", "0"
    )
    command_user: str = execution(
        "STATECORE_COMMAND_USER", "user under which commands in the sandbox run if the executors run as root", "nobody"
    )
    command_memory: Number = execution(
        "STATECORE_COMMAND_MEMORY", "memory of each process of a command, in MiB", "4096", ge=64, le=1_048_576
    )
    command_processes: Number = execution(
        "STATECORE_COMMAND_PROCESSES", "processes and threads of a command", "512", ge=8, le=100_000
    )
    command_disk: Number = execution(
        "STATECORE_COMMAND_DISK", "disk space that a command may fill, in MiB", "4096", ge=16, le=1_048_576
    )

    agent_timeout_seconds: Number = agents(
        "STATECORE_AGENT_TIMEOUT_SECONDS",
        "longest `timeout_sec` that an agent may give a task or a gate",
        "86400", ge=1, le=31_536_000,
    )  # fmt: skip
    agent_retries: Number = agents(
        "STATECORE_AGENT_RETRIES", "most `max_retries` of a task and `max_attempts` of a job by an agent", "10",
        ge=0, le=100,
    )  # fmt: skip
    agent_payload_bytes: Number = agents(
        "STATECORE_AGENT_PAYLOAD_BYTES", "largest `payload` of a task by an agent, in bytes of JSON", "1048576",
        ge=1_024, le=1_073_741_824,
    )  # fmt: skip
    agent_plan_entities: Number = agents(
        "STATECORE_AGENT_PLAN_ENTITIES", "most workstreams, tasks and gates in one plan by an agent", "100000",
        ge=1, le=100_000,
    )  # fmt: skip
    agent_webhook_hosts: Annotated[list[str], Words] = agents(
        "STATECORE_AGENT_WEBHOOK_HOSTS",
        "`ci.example.com, *.hooks.example.com`: hosts to which plans by agents may have webhooks sent; default: none",
    )

    artifact_bytes: Number = artifacts(
        "STATECORE_ARTIFACT_BYTES", "largest artifact in bytes; nginx has a limit too (`deploy/nginx`)", "268435456",
        ge=1_024, le=1_099_511_627_776,
    )  # fmt: skip
    artifact_task_bytes: Number = artifacts(
        "STATECORE_ARTIFACT_TASK_BYTES", "most bytes of all artifacts of one task", "1073741824",
        ge=1_024, le=1_099_511_627_776,
    )  # fmt: skip
    artifacts_per_task: Number = artifacts(
        "STATECORE_ARTIFACTS_PER_TASK", "most artifacts of one task", "100", ge=1, le=10_000
    )
    artifact_total_bytes: Number = artifacts(
        "STATECORE_ARTIFACT_TOTAL_BYTES", "most bytes of all contents of artifacts in the storage; 0: no limit",
        "107374182400", ge=0, le=2**60,
    )  # fmt: skip

    webhook_private_addresses: Annotated[list[str], AfterValidator(_networks), Words] = hooks(
        "STATECORE_WEBHOOK_PRIVATE_ADDRESSES",
        "`10.1.0.0/16, ::1`: addresses or networks to which webhooks may be sent although they are not public;"
        " default: none",
    )
    webhook_http: Flag = hooks("STATECORE_WEBHOOK_HTTP", "`1` allows webhooks to `http://` URLs, unencrypted", "0")
    webhook_timeout_seconds: Number = hooks(
        "STATECORE_WEBHOOK_TIMEOUT_SECONDS", "how long one attempt to deliver a webhook may take", "15", ge=1, le=120
    )
    webhook_retry_hours: Number = hooks(
        "STATECORE_WEBHOOK_RETRY_HOURS",
        "hours after which a webhook that a receiver does not take is disabled, with an alert",
        "72", ge=1, le=8_760,
    )  # fmt: skip
    webhook_concurrency: Number = hooks(
        "STATECORE_WEBHOOK_CONCURRENCY", "webhooks that one process sends at the same time", "100", ge=1, le=1_000
    )
    webhook_log_days: Number = hooks(
        "STATECORE_WEBHOOK_LOG_DAYS",
        "days after which the log of deliveries, and the webhooks of ended runs, are deleted; 0: never",
        "30", ge=0, le=36_500,
    )  # fmt: skip

    journal_name: Annotated[str, AfterValidator(_key_name)] = proofs(
        "STATECORE_JOURNAL_NAME",
        "`example.com/statecore`: name of this journal in its checkpoints, taken over when the key is generated;"
        " default: a random name",
    )
    journal_key: Annotated[str, AfterValidator(_signer_key)] = proofs(
        "STATECORE_JOURNAL_KEY",
        "private key that signs checkpoints (`PRIVATE+KEY+…`); default: generated once and kept in `journal.key` in"
        " `STATECORE_HOME`",
    )
    journal_verifier_key: Annotated[str, AfterValidator(_verifier_key)] = proofs(
        "STATECORE_JOURNAL_VERIFIER_KEY", "public key of `STATECORE_JOURNAL_SIGNER` (`NAME+ID+BASE64`)"
    )
    journal_signer: Annotated[str, AfterValidator(_signer_program)] = proofs(
        "STATECORE_JOURNAL_SIGNER",
        "`/usr/local/bin/kms-sign`: program that signs checkpoints instead of a key: it reads the message from standard"
        " input and prints its Ed25519 signature, raw or in base64",
    )
    witnesses: Annotated[tuple[VerifierKey, ...], BeforeValidator(_witnesses), Words] = proofs(
        "STATECORE_WITNESSES",
        "`NAME+ID+BASE64`: public keys of the witnesses that cosign checkpoints, separated by commas",
    )
    witness_seconds: Number = proofs(
        "STATECORE_WITNESS_SECONDS",
        "a witness that has cosigned nothing for this long is reported",
        "3600",
        ge=10,
        le=31_536_000,
    )

    alerts: Annotated[dict[str, int], BeforeValidator(_alerts), Words] = reporting(
        "STATECORE_ALERTS",
        "`blocked_count=20, failure_percent=5`: limits of the alert rules, instead of "
        + ", ".join(f"`{name}={value}`" for name, value in ALERT_LIMITS.items()),
    )
    notify_urls: Annotated[tuple[str, ...], Words] = reporting(
        "STATECORE_NOTIFY_URLS",
        "[apprise](https://github.com/caronc/apprise) addresses to which alerts and rollbacks are sent, separated by"
        " commas; write a comma in an address as `%2C`",
    )
    escalation_urls: Annotated[tuple[str, ...], Words] = reporting(
        "STATECORE_ESCALATION_URLS",
        "addresses that are notified, one after the other, while a critical incident is not acknowledged; as in"
        " `STATECORE_NOTIFY_URLS`",
    )
    escalation_minutes: Number = reporting(
        "STATECORE_ESCALATION_MINUTES",
        "minutes without an acknowledgement after which the next of these addresses is notified",
        "15",
        ge=1,
        le=1_440,
    )
    log_format: Literal["console", "json"] = reporting("STATECORE_LOG_FORMAT", "`console` or `json`", "console")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = reporting(
        "STATECORE_LOG_LEVEL", "`DEBUG`, `INFO`, `WARNING` or `ERROR`", "INFO"
    )
    log_routine_requests: Flag = reporting(
        "STATECORE_LOG_ROUTINE_REQUESTS",
        "`1` also logs requests of probes (`/healthz`, `/readyz`, `/metrics`) and heartbeats that succeed",
        "0",
    )
    start_anyway: Flag = reporting(
        "STATECORE_START_ANYWAY", "`1` starts even if the integrity check of recent rows fails", "0"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `read` passes on, and not os.environ a second time."""
        return (init_settings,)

    @cached_property
    def database(self) -> DatabaseSettings:
        url = self.database_url or f"sqlite:///{quote(str(self.home))}/statecore.sqlite3"
        return database_url.parse(url, synchronous=self.sqlite_synchronous, pool=self.database_pool)

    @property
    def redis_is_embedded(self) -> bool:
        return "redis_url" not in self.model_fields_set

    @property
    def public_url(self) -> str:
        """The address of the console, without a final slash."""
        if self.given_public_url:
            return self.given_public_url
        if self.public_hosts:
            return f"{'https' if self.https else 'http'}://{self.public_hosts[0].lstrip('.')}"
        host = "127.0.0.1" if self.host in ALL_INTERFACES else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def allowed_hosts(self) -> list[str]:
        listening = [] if self.host in ALL_INTERFACES else [f"[{self.host}]" if ":" in self.host else self.host]
        return list(dict.fromkeys([*self.public_hosts, *LOOPBACK, *listening]))


FIELDS: dict[str, FieldInfo] = {str(field.alias): field for field in Environment.model_fields.values()}


def read(environ: Mapping[str, str]) -> Environment:
    """Validate every variable, and refuse all wrong ones at once, each with its name and what is allowed."""
    source = EnvSettingsSource(Environment)
    # An empty variable counts as unset.
    source.env_vars = {name: value for name in FIELDS if (value := environ.get(name))}
    given = source()
    try:
        return Environment(**given)
    except ValidationError as refused:
        raise Refused(_report(refused, given)) from None


def _report(refused: ValidationError, given: Mapping[str, str]) -> str:
    problems = [
        f"{error['loc'][0]} {_escape(_problem(error, given))}."
        for error in refused.errors(include_url=False)
        # The default depends on a variable that is reported itself.
        if error["type"] != "default_factory_not_called"
    ]
    if len(problems) == 1:
        return problems[0]
    return "\n".join([f"{len(problems)} settings are wrong:", *(f"  {problem}" for problem in problems)])


def _problem(error: ErrorDetails, given: Mapping[str, str]) -> str:
    name = str(error["loc"][0])
    field = FIELDS[name]
    least = next((each.ge for each in field.metadata if isinstance(each, Ge)), None)
    most = next((each.le for each in field.metadata if isinstance(each, Le)), None)
    if least is not None:
        return f"is {given[name]!r}, but it must be a number from {least} to {most}"
    if error["type"] == "literal_error":
        return f"is {given[name]!r}, but it must be one of {', '.join(get_args(field.annotation))}"
    return str(error["ctx"]["error"]) if "ctx" in error else error["msg"]


def _escape(text: str) -> str:
    """Show characters that would break the line or control the terminal as Python writes them."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
