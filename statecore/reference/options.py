"""What a command takes, as a table: read off its parser, for `manage.py` and `statecore` alike."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Collection, Iterator
from typing import Any

from ..derive.tables import table


def below(parser: ArgumentParser, name: str, about: str = "") -> Iterator[tuple[str, ArgumentParser, str]]:
    """The commands that can be typed: the parser itself, or each of those below it, with what it is for."""
    branch = next((action for action in parser._actions if isinstance(action, _SubParsersAction)), None)
    if branch is None:
        yield name, parser, about
        return
    helps = {choice.dest: choice.help or "" for choice in branch._choices_actions}
    for word, inner in branch.choices.items():
        yield from below(inner, f"{name} {word}", helps.get(word, ""))


def listed(parser: ArgumentParser, left_out: Collection[str]) -> list[str]:
    """A row for each argument and option, except for those that every command takes."""
    rows = [_row(action) for action in parser._actions if action.dest not in left_out and action.help != SUPPRESS]
    return [*table(("argument", "meaning"), rows), ""] if rows else []


def _row(action: Action) -> tuple[str, str]:
    return f"`{_typed(action)}`", _meaning(action)


def _typed(action: Action) -> str:
    word = _word(action)
    if not action.option_strings:
        return f"[{word}]" if action.nargs in ("?", "*") else word
    return f"{', '.join(action.option_strings)}{'' if action.nargs == 0 else f' {word}'}"


def _word(action: Action) -> str:
    metavar: Any = action.metavar
    return str(metavar) if metavar else action.dest.upper()


def _meaning(action: Action) -> str:
    said = (action.help or "").replace("%(default)s", "its own name" if action.dest == "name" else str(action.default))
    listed_there = all(str(choice) in said for choice in action.choices or ())
    choices = "" if listed_there else f"one of {', '.join(f'`{choice}`' for choice in action.choices or ())}"
    needed = "required" if action.required and action.option_strings else ""
    return "; ".join(part for part in (said, choices, needed) if part)
