"""Every command that a page names is one that can be typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from importlib.util import find_spec

import pytest
from django.core.management import CommandError, get_commands, load_command_class

from api.cli.main import build
from tests.documentation.test_links import pages
from tests.support.site import ROOT

NAMED = re.compile(
    r"`((?:statecore|(?:\.venv/bin/)?(?:python )?manage\.py) [^`\n]+)`"
    r"|^\s*\$ ((?:scripts/)?statecore [^\n]+)$"
    r"|^[^`\n]*?((?:\.venv/bin/)?python manage\.py [^`\n)]+)\)?$",
    re.M,
)
STARTED = re.compile(r"python -m ([\w.]+)|(?<![\w./])(scripts/\w+)")
MANAGE = re.compile(r"^(?:\.venv/bin/)?(?:python )?manage\.py ")
# Django's own, and what stands for any command.
NOT_OURS = {"migrate", "makemigrations", "createsuperuser", "check", "COMMAND"}


def named() -> Iterator[tuple[str, str]]:
    """Not those of the tutorial, which are run, nor of what tells of other times."""
    for page in pages():
        if page.name not in ("CHANGELOG.md", "first-plan.md") and page.parent.name != "adr":
            for inline, typed, fenced in NAMED.findall(page.read_text()):
                yield str(page.relative_to(ROOT)), (inline or typed or fenced).partition("  #")[0]


COMMANDS = sorted(set(named()))


@pytest.mark.parametrize(("where", "line"), COMMANDS, ids=[f"{where}: {line}" for where, line in COMMANDS])
def test_a_command_that_a_page_names_can_be_typed(where: str, line: str) -> None:
    if MANAGE.match(line):
        _of_manage(shlex.split(MANAGE.sub("", line)))
    else:
        _of_statecore(shlex.split(line)[1:])


def test_a_module_or_script_that_a_page_starts_is_there() -> None:
    found = {pair for page in pages() for pair in STARTED.findall(page.read_text())}

    assert len(found) > 10
    assert [module for module, _script in found if module and find_spec(module) is None] == []
    assert [script for _module, script in found if script and not (ROOT / script).is_file()] == []


def _of_statecore(words: list[str]) -> None:
    """Whole, or the verb alone, as a text may name it."""
    verbs = next(action for action in build()._actions if action.dest == "command").choices or {}
    assert words[0] in verbs
    if len(words) > 1:
        assert callable(build().parse_args(words).run)


def _of_manage(words: list[str]) -> None:
    name, *options = words
    if name in NOT_OURS:
        return
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    # A text may name a command that takes more without saying what.
    with suppress(CommandError) if not options else nullcontext():
        parser.parse_args(options)
