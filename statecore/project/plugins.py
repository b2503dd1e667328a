"""The Django applications that extend an installation: those of STATECORE_APPS and of installed distributions.

A distribution names its application as an entry point: `[project.entry-points."statecore.plugins"]`.
"""

from collections.abc import Iterable
from importlib.metadata import entry_points

GROUP = "statecore.plugins"


def find_apps(configured: Iterable[str]) -> list[str]:
    """Returns each application once, as INSTALLED_APPS names it: those of distributions first, sorted by name."""
    installed = (each.value.replace(":", ".") for each in sorted(entry_points(group=GROUP), key=lambda each: each.name))
    return list(dict.fromkeys([*installed, *configured]))
