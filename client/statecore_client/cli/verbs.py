"""Commands that perform one call.

The arguments of such a command are those of the method of the client, which is generated from the declaration of the
call. What the call needs is an argument, what it takes besides is an option. A `Verb` adds the name of the command and
how its result is shown to a person.
"""

from __future__ import annotations

import inspect
import json
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import UnsetType

from .. import Client
from ..records import Record
from .context import Context, format_line

# Arguments that a person names, although the call needs them.
NAMED = {"reason", "category", "after"}
# What a verb has for all lists, or not at all.
HIDDEN = {"request_id", "cursor", "before", "page_size"}
# Times that are given as a duration from now.
ENDS = {"until", "expires_at"}
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
# Options that have another name than their argument.
OPTIONS = {"parameters": ["--parameter", "-p"], "version": ["--template-version"]}
HELP = {
    "after": "the position after which events are sent",
    "attempt": "the attempt that you hold",
    "catch_up": "after an outage: all, latest or none",
    "collection": "tasks, runs, workers, …",
    "cron": "minute, hour, day, month and weekday: '0 2 * * *'",
    "description": "what it is for",
    "detail": "what is being done",
    "dry_run": "show what would change, and change nothing",
    "entity_id": "the entity",
    "expected_version": "refuse if it has another version",
    "filter": "entity_type, entity, run, to_state, kind, severity or event_name; values separated by commas are "
    "alternatives; repeatable",
    "fraction": "how much is done, from 0 to 1",
    "id": "its id (chosen by the server)",
    "newest": "of the newest task that succeeds it",
    "not_after": "no occurrence later than this time, RFC 3339",
    "note": "kept in the history",
    "overlap": "while an earlier run has not ended: skip or allow",
    "owner": "an account of the server; without one, none",
    "parameters": "a parameter of the template; repeatable",
    "reason": "recorded in the journal",
    "outcome": "only those with this outcome",
    "run": "only that of this run",
    "scope": "everything, phase:ID, run:ID, capability:NAME or tool:NAME",
    "status": "which ones",
    "template_version": "the version of the template (the newest)",
    "timezone": "UTC or a name such as Europe/Berlin",
    "url": "where messages are sent",
    "version": "the version (the newest)",
}

Show = Callable[[Context, Any], None]
# The members or functions whose values a table has, by its headings.
Columns = Mapping[str, str | Callable[[Any], Any]]


@dataclass(frozen=True)
class Verb:
    name: str
    method: str
    help: str
    # How one result is printed. By default, all its fields.
    show: Show | None = None
    # The columns of a list, by their headings, and what it lists.
    columns: Columns = field(default_factory=dict)
    noun: str = ""
    # Arguments that have another default than the call. A filter can be removed with `all`.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    # Flags that stand for arguments: their help, and the arguments.
    flags: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    hides: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Argument:
    """An argument of a method, as its signature declares it."""

    name: str
    kind: Any
    is_needed: bool
    takes_null: bool

    @property
    def values(self) -> tuple[Any, ...]:
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def text(self) -> str:
        return HELP.get(self.name, f"the {self.name.removesuffix('_id').replace('_', ' ')}")


def add_verbs(commands: Any, *verbs: Verb) -> None:
    for verb in verbs:
        parser = commands.add_parser(verb.name, help=verb.help)
        for each in list_arguments(verb):
            _add_argument(parser, verb, each)
        for name, (text, _arguments) in verb.flags.items():
            parser.add_argument(f"--{name}", action="store_true", help=text)
        if verb.columns:
            add_limit(parser)
        parser.set_defaults(run=perform, verb=verb)


def add_group(commands: Any, name: str, text: str) -> Any:
    """Adds a command with actions; returns where they are added."""
    return commands.add_parser(name, help=text).add_subparsers(dest="action", required=True, metavar="ACTION")


def add_limit(parser: ArgumentParser) -> None:
    parser.add_argument("-n", "--limit", type=parse_limit, default=50, help="at most this many, 0 for all (50)")


def list_arguments(verb: Verb) -> list[Argument]:
    described = getattr(Client, verb.method).describe
    hints, hidden = get_type_hints(described), HIDDEN | verb.hides
    hidden |= NAMED & {"after"} if verb.columns else set()
    found = [each for each in inspect.signature(described).parameters.values() if each.name not in {"self", *hidden}]
    return [_read_parameter(each, hints[each.name]) for each in found if each.kind is not inspect.Parameter.VAR_KEYWORD]


def _read_parameter(parameter: inspect.Parameter, hint: Any) -> Argument:
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = [each for each in members if each not in (NoneType, UnsetType)]
    return Argument(parameter.name, kinds[0], parameter.default is parameter.empty, NoneType in members)


def _add_argument(parser: ArgumentParser, verb: Verb, each: Argument) -> None:
    dest = f"given_{each.name}"
    if each.kind is datetime and each.name in ENDS:
        _add_end(parser, each, dest)
    elif each.is_needed and each.name not in NAMED:
        has_default = each.name in verb.defaults
        shown = "id" if each.name.endswith("_id") else each.name
        parser.add_argument(
            dest, metavar=shown.upper(), type=_find_parser(each), help=each.text, nargs="?" if has_default else None,
            default=verb.defaults.get(each.name),
        )  # fmt: skip
    elif each.kind is bool:
        parser.add_argument(_name_option(each), dest=dest, action="store_true", default=None, help=each.text)
    else:
        _add_option(parser, verb, each, dest)


def _add_option(parser: ArgumentParser, verb: Verb, each: Argument, dest: str) -> None:
    names = OPTIONS.get(each.name, [_name_option(each)])
    options: dict[str, Any] = {"type": _find_parser(each), "help": each.text, "required": each.is_needed}
    options["metavar"] = names[0].strip("-").replace("-", "_").upper()
    if each.name in PAIRS:
        options |= {"action": "append", "metavar": "NAME=VALUE"}
    elif each.values:
        options |= {"choices": (*each.values, *(["all"] if each.name in verb.defaults else []))}
    if default := verb.defaults.get(each.name):
        options |= {"default": default, "help": f"{each.text} ({default})"}
    parser.add_argument(*names, dest=dest, **options)


def _add_end(parser: ArgumentParser, each: Argument, dest: str) -> None:
    chosen = parser.add_mutually_exclusive_group(required=True) if each.is_needed else parser
    text = "for how long: 45s, 30m, 2h, 1d"
    chosen.add_argument("--for", dest=dest, type=parse_duration, metavar="DURATION", help=text)
    if each.is_needed:
        chosen.add_argument("--end", action="store_true", help="end it now")


def _name_option(each: Argument) -> str:
    return f"--{each.name.replace('_', '-')}"


# Values


def parse_duration(text: str) -> datetime:
    """Returns the end of `45s`, `30m`, `2h` or `1d` from now."""
    found = re.fullmatch(r"([1-9][0-9]{0,6})([smhd])", text)
    if found is None:
        raise ArgumentTypeError("must be a duration such as 45s, 30m, 2h or 1d")
    return datetime.now(UTC) + timedelta(seconds=int(found[1]) * SECONDS[found[2]])


def parse_limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ArgumentTypeError("must be a whole number, 0 for all")
    return int(text)


def parse_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ArgumentTypeError(f"{text!r} must be NAME=VALUE")
    return name, value


def parse_alternatives(text: str) -> tuple[str, list[str]]:
    """`to_state=failed,completed`"""
    name, value = parse_pair(text)
    return name, value.split(",")


def parse_parameter(text: str) -> tuple[str, Any]:
    """`NAME=VALUE`; a value that is JSON is read as such."""
    name, value = parse_pair(text)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


PAIRS: dict[str, Callable[[str], Any]] = {"filter": parse_alternatives, "parameters": parse_parameter}


def _find_parser(each: Argument) -> Callable[[str], Any]:
    return PAIRS.get(each.name) or {int: int, float: float}.get(each.kind, str)


# Results


def perform(options: Namespace, context: Context) -> None:
    verb: Verb = options.verb
    args, fields = _collect_arguments(options, verb)
    result = getattr(context.client, verb.method)(*args, **fields)
    if verb.columns:
        chosen = [str(fields[name]) for name in verb.defaults if name in fields]
        nothing = " ".join(["no", *chosen, verb.noun])
        print_list(context, islice(result, options.limit or None), verb.columns, nothing)
    elif result is None:
        context.print_note(f"{args[0]} deleted")
    elif context.as_json:
        context.print_json(result)
    else:
        (verb.show or print_fields)(context, result)


def _collect_arguments(options: Namespace, verb: Verb) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments by position, and by name those that are given."""
    args: list[Any] = []
    fields: dict[str, Any] = {}
    for each in list_arguments(verb):
        value = getattr(options, f"given_{each.name}")
        if each.is_needed and each.name not in NAMED:
            args.append(value)
        elif value is not None and not (value == "all" and each.name in verb.defaults):
            fields[each.name] = dict(value) if each.name in PAIRS else value
    for name, (_text, arguments) in verb.flags.items():
        fields |= arguments if getattr(options, name.replace("-", "_")) else {}
    return args, fields


def print_list(context: Context, found: Iterable[Any], columns: Columns, nothing: str) -> None:
    if context.as_json:
        for each in found:
            context.print_json(each)
    elif rows := [[_get_cell(each, column) for column in columns.values()] for each in found]:
        context.print_table(rows, list(columns))
    else:
        context.print_line(nothing)


def _get_cell(each: Any, column: str | Callable[[Any], Any]) -> Any:
    if callable(column):
        return column(each)
    return getattr(each, column) if isinstance(each, Record) else each[column]


def print_fields(context: Context, record: Record) -> None:
    context.print_fields(record.fields)


def line_of(describe: Callable[[Any], str]) -> Show:
    """Returns what prints the line that `describe` returns."""
    return lambda context, result: context.print_line(format_line(describe(result)))
