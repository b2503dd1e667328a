"""Every command, module and script named on a page exists and accepts the given arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from importlib.util import find_spec

import pytest
from django.core.management import CommandError, get_commands, load_command_class

from statecore_client.cli.main import build_parser
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
# A comment or a redirection ends the arguments.
END = re.compile(r"  #| [>|] ")
# Django's commands, and the placeholder for any command.
NOT_OURS = {"migrate", "makemigrations", "createsuperuser", "check", "COMMAND"}


def named() -> Iterator[tuple[str, str]]:
    """Yields page and command, except from the tutorial, which is executed, and from historical pages."""
    for page in pages():
        if page.name not in ("CHANGELOG.md", "first-plan.md") and page.parent.name != "adr":
            for inline, typed, fenced in NAMED.findall(page.read_text()):
                yield str(page.relative_to(ROOT)), END.split(inline or typed or fenced)[0]


COMMANDS = sorted(set(named()))


@pytest.mark.parametrize(("where", "line"), COMMANDS, ids=[f"{where}: {line}" for where, line in COMMANDS])
def test_a_command_named_on_a_page_exists(where: str, line: str) -> None:
    if MANAGE.match(line):
        _check_manage(shlex.split(MANAGE.sub("", line)))
    else:
        _check_statecore(shlex.split(line)[1:])


def test_every_module_and_script_started_on_a_page_exists() -> None:
    found = {pair for page in pages() for pair in STARTED.findall(page.read_text())}

    assert len(found) > 10
    assert [module for module, _script in found if module and find_spec(module) is None] == []
    assert [script for _module, script in found if script and not (ROOT / script).is_file()] == []


def _check_statecore(words: list[str]) -> None:
    """Accepts a complete command, only its first word, or an option of the program."""
    actions = build_parser()._actions
    verbs = next(action for action in actions if action.dest == "command").choices or {}
    assert words[0] in {*verbs, *(option for action in actions for option in action.option_strings)}
    if len(words) > 1:
        assert callable(build_parser().parse_args(words).run)


def _check_manage(words: list[str]) -> None:
    name, *options = words
    if name in NOT_OURS:
        return
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    # A page may name a command without its required arguments.
    with suppress(CommandError) if not options else nullcontext():
        parser.parse_args(options)
