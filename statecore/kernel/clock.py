"""The one place the product reads the time from."""

from datetime import UTC, datetime
from functools import lru_cache


def now() -> datetime:
    return datetime.now(UTC)


def told(moment: datetime) -> str:
    """A moment in a sentence."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@lru_cache(maxsize=16)  # the events of a batch and of a cascade share their moment
def rfc3339(moment: datetime) -> str:
    """The canonical spelling of a moment: UTC, microseconds, `Z`; it sorts as text."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
