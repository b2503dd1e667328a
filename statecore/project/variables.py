"""Every environment variable somebody may set: its name, what holds without it, what it means.

A test reads the environment through a mapping that notes what is asked for, and compares.
"""

from __future__ import annotations

from typing import NamedTuple

from .environment import ALERT_LIMITS


class Variable(NamedTuple):
    name: str
    default: str
    meaning: str


LIMITS = ", ".join(f"`{name}={value}`" for name, value in ALERT_LIMITS.items())

WHERE = (
    Variable("HOST", "127.0.0.1", "where the web process listens"),
    Variable("PORT", "8000", "the port it listens on"),
    Variable("STATECORE_HOME", "", "folder of the database, secrets and sockets of the embedded set-up; `.state` beside `manage.py` unless given"),
    Variable("DATABASE_URL", "", "`sqlite:///path` or `postgres://user:password@host:port/name`; SQLite in `STATECORE_HOME` unless given"),
    Variable("REDIS_URL", "", "`redis://…`, `rediss://…` or `unix://…`; an embedded Redis unless given"),
    Variable("STATECORE_DATABASE_POOL", "0", "connections to PostgreSQL per process, 0 for one each thread; the web process takes 16 unless given"),
    Variable("STATECORE_SQLITE_SYNCHRONOUS", "FULL", "or `EXTRA`, `NORMAL`, `OFF`: `NORMAL` trades the last moments before a power cut for speed"),
    Variable("STATECORE_BACKUP_DIR", "", "where the daily export goes; `backup` in `STATECORE_HOME` unless given"),
    Variable("STATECORE_RETIRED_DIR", "", "where `manage.py retire` puts the events it takes out of the database; `retired` in `STATECORE_BACKUP_DIR` unless given"),
)  # fmt: skip
WHO = (
    Variable("STATECORE_ALLOWED_HOSTS", "", "host names under which the site is reached, separated by commas, beside loopback and `HOST`"),
    Variable("STATECORE_TRUSTED_PROXIES", "127.0.0.1, ::1", "addresses or networks of the proxies in front, whose word about a caller's address is taken, separated by commas"),
    Variable("STATECORE_HTTPS", "0", "`1` behind TLS: secure cookies, HSTS"),
    Variable("STATECORE_SECRET_KEY", "", "Django's secret key; made once and kept in `STATECORE_HOME` unless given. Every process needs the same"),
    Variable("STATECORE_READ_ONLY", "0", "`1` makes a console that shows everything and changes nothing, and refuses changes of its sessions over REST; `all` refuses those of tokens too, agents' among them"),
    Variable("STATECORE_SECOND_PERSON", "", "`patch_ledger.committed->rolled_back`: overrides that take a second operator, separated by commas"),
    Variable("STATECORE_SECOND_FACTOR", "optional", "or `required`, `off`: whether people are asked for a code from their telephone after the password"),
    Variable("STATECORE_METRICS_TOKEN", "", "the bearer token for `/metrics`, 16 characters or more; without one `/metrics` is for logged-in staff alone"),
    Variable("STATECORE_BODY_LIMIT", "8388608", "bytes that a body sent to the API may have"),
    Variable("STATECORE_CALLS_PER_MINUTE", "120000", "calls of the API that one token may make in a minute, at all processes together"),
    Variable("STATECORE_DEBUG", "0", "`1` shows tracebacks to whoever asks: never in production"),
)  # fmt: skip
TIME = (
    Variable("STATECORE_DEADLINES", "", "`task.running=3600, run.pending=600`: how many seconds a state may last, where it is not as declared"),
    Variable("STATECORE_IDEMPOTENCY_SECONDS", "86400", "how long answers to keyed requests are kept"),
    Variable("STATECORE_RETENTION_DAYS", "0", "events older than this many days may be retired by `manage.py retire`; 0 for none"),
    Variable("STATECORE_RETRY_BASE_SECONDS", "5", "the wait before the first retry; it doubles with each"),
    Variable("STATECORE_RETRY_CAP_SECONDS", "900", "the longest wait before a retry"),
    Variable("STATECORE_RECOVERY", "", "`pipeline_job=approval`: machines whose stalled work is recovered only when an operator approves; the others recover by themselves"),
    Variable("STATECORE_PROBE_SECONDS", "300", "how long the one caller that tries out a failing tool keeps the others away"),
    Variable("STATECORE_SEQUENCER_LAG_SECONDS", "60", "how far behind the sequencer may be before `/readyz` says no"),
)  # fmt: skip
EXECUTORS = (
    Variable("STATECORE_GATE_COMMANDS", "", "`pytest, /usr/bin/ruff`: programs that gates and tests may run; without them no command is run"),
    Variable("STATECORE_GATE_FOLDER", "", "where gates run; the repository, or `gates` in `STATECORE_HOME`, unless given"),
    Variable("STATECORE_REPOSITORY", "", "the git work tree that patches are applied to, Statecore's alone; without it patches are left to agents"),
    Variable("STATECORE_REPOSITORY_BRANCH", "", "the branch the work tree must be on; whichever it is on unless given"),
    Variable("STATECORE_PATCH_TEST_COMMAND", "", "`pytest -q`: what tests a patch whose task has no exit gates, and a rollback"),
)  # fmt: skip
TOLD = (
    Variable("STATECORE_ALERTS", "", f"`blocked_count=20, failure_percent=5`: limits of the alert rules, where they are not {LIMITS}"),
    Variable("STATECORE_NOTIFY_URLS", "", "where alerts and rollbacks are told: [apprise](https://github.com/caronc/apprise) addresses, separated by commas; a comma in one is `%2C`"),
    Variable("STATECORE_LOG_FORMAT", "console", "or `json`, for programs"),
    Variable("STATECORE_LOG_LEVEL", "INFO", "or `DEBUG`, `WARNING`, `ERROR`"),
    Variable("STATECORE_START_ANYWAY", "0", "`1` starts although recent rows do not verify"),
    Variable("OTEL_EXPORTER_OTLP_ENDPOINT", "", "`http://collector:4318`: where a span for each request is sent; takes the packages of the extra `otel`. The other `OTEL_…` variables of the OpenTelemetry SDK hold too"),
    Variable("OTEL_SERVICE_NAME", "", "the name under which it is traced; `statecore` unless given"),
    Variable("PROMETHEUS_MULTIPROC_DIR", "", "the folder in which the processes of one machine add up what they count; `metrics` in `STATECORE_HOME` under `scripts/up`"),
)  # fmt: skip
GROUPS = {
    "Where it listens and keeps things": WHERE,
    "Who may do what": WHO,
    "Time": TIME,
    "Gates, patches, rollbacks": EXECUTORS,
    "What is told": TOLD,
}
# What the command line and the agent read, on the machine they run on.
CALLERS = (
    Variable("STATECORE_URL", "", "the server; goes before what `statecore login` has kept"),
    Variable("STATECORE_TOKEN", "", "the token; goes before what `statecore login` has kept"),
    Variable("STATECORE_APPROVER_TOKEN", "", "a token of the second person, where forcing takes one"),
    Variable("XDG_CONFIG_HOME", "~/.config", "the folder below which `statecore login` keeps the token"),
)


def every_variable() -> list[Variable]:
    return [variable for group in GROUPS.values() for variable in group]
