"""The page of the commands of `manage.py`, those of ours."""

from __future__ import annotations

from django.apps import apps
from django.core.management import get_commands, load_command_class

from . import options, written

OURS = ("statecore", "api", "dashboard")
# Django's own, which every command takes.
USUAL = {
    "help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color", "skip_checks",
}  # fmt: skip


def ours() -> dict[str, str]:
    """The name of each command of ours, and the application it belongs to."""
    names = {config.name for config in apps.get_app_configs() if config.label in OURS}
    return {name: app for name, app in sorted(get_commands().items()) if app in names}


def page() -> str:
    sections = [line for name, app in ours().items() for line in _section(name, app)]
    return written.page(
        "Commands of `manage.py`",
        "`.venv/bin/python manage.py COMMAND`. Beside these there are Django's own; `migrate`, `createsuperuser` and",
        "`check --deploy` are those an operator needs.",
        "",
        *sections,
    )


def _section(name: str, app: str) -> list[str]:
    command = load_command_class(app, name)
    parser = command.create_parser("manage.py", name)
    found = list(options.below(parser, name))
    if len(found) == 1:
        return [f"## {name}", "", command.help, "", *options.listed(parser, USUAL)]
    inner = [
        line for typed, each, about in found for line in (f"### {typed}", "", about, "", *options.listed(each, USUAL))
    ]
    return [f"## {name}", "", command.help, "", *inner]
