"""Checks before a process starts; each refuses with one sentence."""

from importlib import metadata
from urllib.parse import urlsplit

from django.db.backends.base.base import BaseDatabaseWrapper

from statecore.project.refusal import Refused

PROBE_KEY = "statecore:probe"


def check_distribution() -> None:
    """`django-fsm` and `django-fsm-2` install the same package directory; the last one installed wins."""
    if _is_installed("django-fsm"):
        raise Refused(
            "the distribution `django-fsm` is installed, but Statecore needs `django-fsm-2` alone;"
            " uninstall both, then install `django-fsm-2` again."
        )
    if not _is_installed("django-fsm-2"):
        raise Refused("the distribution `django-fsm-2` is not installed.")


def check_database() -> None:
    """Uses a separate connection, because a pool would retry until its timeout."""
    from django.db import connection

    probe = connection.copy()
    probe.settings_dict["OPTIONS"].pop("pool", None)
    try:
        check_connection(probe)
    finally:
        probe.close()


def check_connection(connection: BaseDatabaseWrapper) -> None:
    from django.core.exceptions import ImproperlyConfigured
    from django.db import Error

    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (Error, ImproperlyConfigured, UnicodeError) as error:
        place = _describe_location(connection)
        raise Refused(f"the database {place} cannot be reached: {_first_line(error)}.") from None


def check_broker(*, stores: bool = False) -> None:
    """Checks that Redis answers or, with `stores`, that it has memory left: a full one still answers a ping."""
    from django.conf import settings
    from redis import Redis
    from redis.exceptions import OutOfMemoryError, RedisError

    try:
        with Redis.from_url(settings.REDIS_URL, socket_connect_timeout=5, socket_timeout=5) as redis:
            redis.set(PROBE_KEY, 1, ex=60) if stores else redis.ping()
    except OutOfMemoryError:
        raise Refused(f"Redis at {strip_password(settings.REDIS_URL)} is full: it refuses to store anything.") from None
    except (RedisError, OSError, ValueError) as error:
        place = strip_password(settings.REDIS_URL)
        raise Refused(f"Redis at {place} cannot be reached: {_first_line(error)}.") from None


def strip_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _describe_location(connection: BaseDatabaseWrapper) -> str:
    given = connection.settings_dict
    if connection.vendor == "sqlite":
        return str(given["NAME"])
    host = given["HOST"] or "the local socket"
    return f"{given['NAME']} on {host}" + (f":{given['PORT']}" if given["PORT"] else "")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
