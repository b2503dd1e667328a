"""The examples in the documentation are executed unchanged."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from statecore.records import Phase
from statecore_client.cli.main import build_parser
from tests.support import sequencer as sequencers
from tests.support import site as sites
from tests.support.site import ROOT, Site

DOCS = ROOT / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)


def test_the_client_examples_work(site: Site, tmp_path: Path) -> None:
    Phase.objects.create(id="PH-DOCS")
    given: dict[str, Any] = {"url": site.url, "token": sites.token("agent")}
    with sequencers.running(tmp_path):
        for example in blocks("reference/client.md", "python"):
            exec(compile(example, "docs/reference/client.md", "exec"), given)  # noqa: S102 - our own page
    assert {"statecore", "patient"} <= given.keys()
    given["statecore"].close()
    given["patient"].close()


def commands() -> list[str]:
    consoles = [*blocks("reference/command-line.md", "console"), *blocks("how-to/write-an-agent.md", "console")]
    typed = [line.removeprefix("$ ").partition("  #")[0] for text in consoles for line in text.splitlines()]
    return [line for line in typed if line.startswith("statecore ") and not line.startswith("statecore agent:")]


@pytest.mark.parametrize("line", commands())
def test_every_documented_command_can_be_parsed(line: str) -> None:
    _statecore, *words = shlex.split(line)

    assert callable(build_parser().parse_args(words).run)


def test_every_command_is_documented() -> None:
    page = (DOCS / "reference/command-line.md").read_text()
    actions = next(action for action in build_parser()._actions if action.dest == "command")

    assert [name for name in actions.choices or () if name not in page] == []
