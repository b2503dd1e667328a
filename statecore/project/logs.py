"""Logging: one line per event, as text or as JSON, with secrets redacted.

In JSON every line of a process is JSON: also warnings, uncaught exceptions, and what the servers log before the
settings are read (`server_logs.json`).
"""

import logging
import logging.config
import re
import sys
import threading
from collections.abc import MutableMapping
from functools import lru_cache
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from .announcements import is_json

SECRET_WORDS = ("password", "token", "authorization", "secret", "cookie")
REDACTED = "[redacted]"
# Tokens are found by their form: one may be part of a URL, which is logged.
TOKEN = re.compile(r"stc_[0-9a-f]{8}_[A-Za-z0-9_-]+")
# They log each task, and `celery.worker.request` each that has expired; the metrics count both.
CELERY = ("celery.beat", "celery.worker.strategy", "celery.worker.request", "celery.app.trace")


def redact(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replaces tokens, and the values of keys that name a secret, at any depth."""
    return {key: _redact_value(key, value) for key, value in event.items()}


def _redact_value(key: object, value: object) -> object:
    if _names_secret(str(key)):
        return REDACTED
    if isinstance(value, str):
        return TOKEN.sub(REDACTED, value)
    if isinstance(value, MutableMapping):
        return {inner: _redact_value(inner, item) for inner, item in value.items()}
    if isinstance(value, list | tuple) and key != "exc_info":
        return [_redact_value("", item) for item in value]
    return value


@lru_cache(maxsize=1024)
def _names_secret(key: str) -> bool:
    return any(word in key.lower() for word in SECRET_WORDS)


def drop_colors(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Removes the colored copy that uvicorn adds to each message."""
    event.pop("color_message", None)
    return event


SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    drop_colors,
    redact,
]


def _renderers(log_format: str) -> list[Processor]:
    if log_format == "json":
        # Without local variables, which may contain passwords.
        plain = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        return [structlog.processors.ExceptionRenderer(plain), structlog.processors.JSONRenderer()]
    return [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]


def _formatter(log_format: str) -> dict[str, Any]:
    return {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": SHARED,
        "processors": [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *_renderers(log_format),
        ],
    }


def make_formatter() -> logging.Formatter:
    """Returns the formatter for servers that log before the settings are read."""
    formatter = _formatter("json" if is_json() else "console")
    made: logging.Formatter = formatter.pop("()")(**formatter)
    return made


def configuration(log_format: str, log_level: str) -> dict[str, Any]:
    """Returns Django's LOGGING: all libraries use one formatter."""
    handler = {"class": "logging.StreamHandler", "formatter": "statecore"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"statecore": _formatter(log_format)},
        "handlers": {"stderr": handler},
        "root": {"handlers": ["stderr"], "level": log_level},
        "loggers": {
            # Their own handlers would print every line twice.
            "django": {"handlers": [], "level": log_level, "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            "uvicorn": {"handlers": [], "propagate": True},
            # `request_context` logs every request and failure, with its caller and id.
            "uvicorn.access": {"level": "WARNING"},
            # Logs the opening and closing of each WebSocket, of which hundreds reconnect at once.
            "uvicorn.error": {"level": "WARNING"},
            "django.request": {"level": "CRITICAL"},
            # Scanners send arbitrary Host headers; the response 400 is enough.
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            # Sweeps run every second and log their findings; their failures are warnings.
            **{name: {"level": "WARNING"} for name in CELERY},
            # Logs URLs that contain secrets; the outcome of a notification is logged by its sender.
            "apprise": {"level": "CRITICAL"},
        },
    }


def configure(configuration: dict[str, Any], log_format: str) -> None:
    """Sets up logging at once: Django does it at the end of its own start, and Celery warns before."""
    logging.config.dictConfig(configuration)
    _configure_structlog()
    logging.captureWarnings(capture=True)
    if log_format == "json":
        sys.excepthook = _log_uncaught
        threading.excepthook = _log_uncaught_in_thread


def _log_uncaught(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
    logging.getLogger("statecore").critical("uncaught_exception", exc_info=(kind, error, traceback))


def _log_uncaught_in_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None:
        _log_uncaught(failed.exc_type, failed.exc_value, failed.exc_traceback)


def _configure_structlog() -> None:
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
