"""`statecore call`: performs any method of the client, so that every call of the API has a verb."""

from __future__ import annotations

import inspect
import json
from argparse import Namespace
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from .. import Client
from ..call import call, paged_call
from .context import Context
from .errors import CommandError, Exit

# `statecore artifact` transfers files, and `list` yields what the pages have.
LEFT_OUT = {"put_artifact", "get_artifact", "save_artifact", "get_page"}


def parse_argument(text: str) -> tuple[str, str]:
    """`NAME=VALUE`, or a value, whose name is empty."""
    name, equals, value = text.partition("=")
    return (name, value) if equals and name.isidentifier() else ("", text)


def add_commands(commands: Any) -> None:
    parser = commands.add_parser("call", help="perform any call of the API and print the JSON; lists the calls")
    parser.add_argument("method", nargs="?", help="the method of the Python client, such as list_alerts")
    parser.add_argument("arguments", nargs="*", type=parse_argument, metavar="[NAME=]VALUE", help="its arguments")
    parser.set_defaults(run=run)


def run(options: Namespace, context: Context) -> None:
    methods = _list_methods()
    if options.method is None:
        context.print_table([(name, _describe(name)) for name in methods], ("call", "purpose"))
        return
    if options.method not in methods:
        raise CommandError(f"there is no call {options.method}; `statecore call` lists them", Exit.USAGE)
    args, fields = _read_arguments(methods[options.method], options.arguments)
    for each in _list_results(getattr(context.client, options.method)(*args, **fields)):
        context.print_json(msgspec.to_builtins(getattr(each, "fields", each)))


def _read_arguments(signature: inspect.Signature, given: list[tuple[str, str]]) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments by position and by name; raises CommandError if they do not fit the method."""
    texts, named = [text for name, text in given if not name], {name: text for name, text in given if name}
    parameters = signature.parameters
    try:
        signature.bind(None, *texts, **named)
    except TypeError as error:
        raise CommandError(f"{error}; the arguments are {', '.join([*parameters][1:])}", Exit.USAGE) from error
    positional = [_convert(text, each) for text, each in zip(texts, [*parameters.values()][1:], strict=False)]
    return positional, {name: _convert(text, parameters.get(name)) for name, text in named.items()}


def _list_methods() -> dict[str, inspect.Signature]:
    """Returns the signatures of the calls by name."""
    found = inspect.getmembers(Client, lambda each: isinstance(each, call | paged_call))
    return {name: inspect.signature(each.describe) for name, each in found if name not in LEFT_OUT}


def _describe(name: str) -> str:
    return (inspect.getdoc(getattr(Client, name)) or "").partition("\n")[0]


def _convert(text: str, parameter: inspect.Parameter | None) -> Any:
    """Returns text and times as the parameter takes them; other values are JSON, or text if they are not."""
    kind = str(parameter.annotation) if parameter else ""
    try:
        if kind.startswith("datetime"):
            return datetime.fromisoformat(text)
        return text if kind.startswith("str") else json.loads(text)
    except json.JSONDecodeError:
        return text
    except ValueError as error:
        raise CommandError(f"{text} is no time such as 2030-01-31T12:00:00Z", Exit.USAGE) from error


def _list_results(result: Any) -> Iterator[Any]:
    if isinstance(result, list) or inspect.isgenerator(result):
        yield from result
    elif result is not None:
        yield result
