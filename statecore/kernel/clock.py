"""The one place the product reads the time from."""

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def told(moment: datetime) -> str:
    """A moment in a sentence."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def rfc3339(moment: datetime) -> str:
    """The canonical spelling of a moment: UTC, microseconds, `Z`; it sorts as text."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
