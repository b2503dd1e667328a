"""The reference pages of the commands of `manage.py` and `statecore`, produced from their argument parsers."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Collection, Iterator
from typing import Any

from django.apps import apps
from django.core.management import get_commands, load_command_class

from statecore_client.cli.main import build_parser

from ..markdown import format_page, format_table

OWN_APPS = ("statecore", "statecore_devtools", "api", "dashboard")
# Options of every command, which the pages do not repeat.
DJANGO_OPTIONS = {
    "help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color", "skip_checks",
}  # fmt: skip
STATECORE_OPTIONS = {"help", "json", "patience"}


def render_manage_page() -> str:
    sections = [line for name, app in list_own_commands().items() for line in _manage_section(name, app)]
    return format_page(
        "Commands of `manage.py`",
        "Run them with `.venv/bin/python manage.py COMMAND`. Of Django's commands, operators need `migrate`,",
        "`createsuperuser` and `check --deploy`.",
        "",
        *sections,
    )


def list_own_commands() -> dict[str, str]:
    """Returns the name of each command of this project with its application."""
    names = {config.name for config in apps.get_app_configs() if config.label in OWN_APPS}
    return {name: app for name, app in sorted(get_commands().items()) if app in names}


def _manage_section(name: str, app: str) -> list[str]:
    command = load_command_class(app, name)
    parser = command.create_parser("manage.py", name)
    found = list(list_subcommands(parser, name))
    if len(found) == 1:
        return [f"## {name}", "", command.help, "", *_arguments(parser, DJANGO_OPTIONS)]
    inner = [
        line
        for typed, each, about in found
        for line in (f"### {typed}", "", about, "", *_arguments(each, DJANGO_OPTIONS))
    ]
    return [f"## {name}", "", command.help, "", *inner]


def render_statecore_page() -> str:
    sections = [
        line
        for typed, parser, about in list_subcommands(build_parser(), "statecore")
        for line in (f"## {typed}", "", f"{about[:1].upper()}{about[1:]}.", "", *_arguments(parser, STATECORE_OPTIONS))
    ]
    return format_page(
        "Commands of `statecore`",
        "Every command also accepts `--help`, `--json` (one JSON document per line) and `--patience SECONDS` (how",
        "long to retry while the server does not answer). [The command line](command-line.md) shows how to use them.",
        "",
        *sections,
    )


def list_subcommands(parser: ArgumentParser, name: str, about: str = "") -> Iterator[tuple[str, ArgumentParser, str]]:
    """Yields each complete command with its parser and help text: the parser itself, or those below it."""
    branch = next((action for action in parser._actions if isinstance(action, _SubParsersAction)), None)
    if branch is None:
        yield name, parser, about
        return
    helps = {choice.dest: choice.help or "" for choice in branch._choices_actions}
    for word, inner in branch.choices.items():
        yield from list_subcommands(inner, f"{name} {word}", helps.get(word, ""))


def _arguments(parser: ArgumentParser, omitted: Collection[str]) -> list[str]:
    """Returns a table with a row per argument and option."""
    actions = [action for action in parser._actions if action.dest not in omitted and action.help != SUPPRESS]
    rows = [(f"`{_usage(action)}`", _meaning(action)) for action in actions]
    return [*format_table(("argument", "meaning"), rows), ""] if rows else []


def _usage(action: Action) -> str:
    metavar: Any = action.metavar
    value = str(metavar) if metavar else action.dest.upper()
    if not action.option_strings:
        return f"[{value}]" if action.nargs in ("?", "*") else value
    return f"{', '.join(action.option_strings)}{'' if action.nargs == 0 else f' {value}'}"


def _meaning(action: Action) -> str:
    default = "the host's name" if action.dest == "name" else str(action.default)
    text = (action.help or "").replace("%(default)s", default)
    choices_are_named = all(str(choice) in text for choice in action.choices or ())
    choices = "" if choices_are_named else f"one of {', '.join(f'`{choice}`' for choice in action.choices or ())}"
    required = "required" if action.required and action.option_strings else ""
    return "; ".join(part for part in (text, choices, required) if part)
