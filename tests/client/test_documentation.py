"""The examples of the pages are run as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from api.cli.main import build
from tests.support import sequencer as sequencers
from tests.support import site as sites
from tests.support.site import ROOT, Site

DOCS = ROOT / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)


def test_the_examples_of_the_client_work(site: Site, tmp_path: Path) -> None:
    given: dict[str, Any] = {"url": site.url, "token": sites.token("agent")}
    with sequencers.running(tmp_path):
        for example in blocks("reference/client.md", "python"):
            exec(compile(example, "docs/reference/client.md", "exec"), given)  # noqa: S102 - our own page
    given["statecore"].close()
    given["patient"].close()


def commands() -> list[str]:
    consoles = [*blocks("reference/command-line.md", "console"), *blocks("how-to/write-an-agent.md", "console")]
    typed = [line.removeprefix("$ ").partition("  #")[0] for text in consoles for line in text.splitlines()]
    return [line for line in typed if line.startswith("statecore ") and not line.startswith("statecore agent:")]


@pytest.mark.parametrize("line", commands())
def test_every_command_of_the_pages_is_one_that_can_be_typed(line: str) -> None:
    _statecore, *words = shlex.split(line)

    assert callable(build().parse_args(words).run)


def test_every_command_is_on_the_page() -> None:
    page = (DOCS / "reference/command-line.md").read_text()
    actions = next(action for action in build()._actions if action.dest == "command")

    assert [name for name in actions.choices or () if name not in page] == []
