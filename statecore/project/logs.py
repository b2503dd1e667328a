"""Logs: one line per event, for a person or as JSON, with nothing secret in it."""

import re
from collections.abc import MutableMapping
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

SECRET_WORDS = ("password", "token", "authorization", "secret", "cookie")
REDACTED = "[redacted]"
# A token is known for one wherever it turns up: somebody may have put it into an address, which is logged.
TOKEN = re.compile(r"stc_[0-9a-f]{8}_[A-Za-z0-9_-]+")


SWEEPS = ("celery.beat", "celery.worker.strategy", "celery.app.trace", "django_structlog.celery.receivers")


def redact(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Blank whatever is filed under a secret's name, however deep it lies, and every token."""
    return {key: _shown(key, value) for key, value in event.items()}


def _shown(key: object, value: object) -> object:
    if any(word in str(key).lower() for word in SECRET_WORDS):
        return REDACTED
    if isinstance(value, str):
        return TOKEN.sub(REDACTED, value)
    if isinstance(value, MutableMapping):
        return {inner: _shown(inner, item) for inner, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown("", item) for item in value]
    return value


def drop_colours(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Uvicorn sends each message a second time, coloured."""
    event.pop("color_message", None)
    return event


SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    drop_colours,
    redact,
]


def _renderers(log_format: str) -> list[Processor]:
    if log_format == "json":
        # Without the local variables: a password may be among them.
        plain = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        return [structlog.processors.ExceptionRenderer(plain), structlog.processors.JSONRenderer()]
    return [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]


def configuration(log_format: str, log_level: str) -> dict[str, Any]:
    """Django's LOGGING: everything, of whatever library, through one formatter."""
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": SHARED,
        "processors": [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *_renderers(log_format),
        ],
    }
    handler = {"class": "logging.StreamHandler", "formatter": "statecore"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"statecore": formatter},
        "handlers": {"stderr": handler},
        "root": {"handlers": ["stderr"], "level": log_level},
        "loggers": {
            # Its own handlers would print every line a second time.
            "django": {"handlers": [], "level": log_level, "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            "uvicorn": {"handlers": [], "propagate": True},
            # Every request and its failure are logged already, with a user and an id.
            "uvicorn.access": {"level": "WARNING"},
            # It says of each socket that it was opened and closed, and hundreds come back at once.
            "uvicorn.error": {"level": "WARNING"},
            "django.request": {"level": "CRITICAL"},
            # Scanners ask for any host; the answer 400 is all it is worth.
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            # Sweeps come every second: what they find they say themselves, and their failures are warnings.
            **{name: {"level": "WARNING"} for name in SWEEPS},
            # It tells addresses, which are secrets; what became of a notice is logged where it is sent.
            "apprise": {"level": "CRITICAL"},
        },
    }


def configure_structlog() -> None:
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.processors.StackInfoRenderer(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
