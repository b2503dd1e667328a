"""Every command that the console prints runs as it is printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client
from django.urls import reverse

from statecore.kernel.clock import now
from statecore.machines.task import Task
from tests.documentation.workspace import Terminal
from tests.support import world
from tests.support.sequencer import catch_up
from tests.support.site import ROOT, Site
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

TEMPLATES = ROOT / "templates"
PRINTED = re.compile(r'<(code|pre) data-command="(\w+)"[^>]*>(.*?)</\1>', re.DOTALL)
START = {"demo", "token", "agent", "phase", "plan"}
MAINTENANCE = {"axes_reset", "integrity", "archives"}
SECONDS = 60.0


def printed_on(page: str) -> dict[str, str]:
    return {name: unescape(text) for _tag, name, text in PRINTED.findall(page)}


@pytest.fixture
def terminals(site: Site, tmp_path: Path) -> Iterator[Any]:
    """Opens terminals in the folder of the project, with the environment of the server and no token."""
    opened: list[Terminal] = []
    environ = {name: value for name, value in site.environ.items() if name != "STATECORE_TOKEN"}

    def open_terminal() -> Terminal:
        own = {**environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
        opened.append(Terminal(ROOT, tmp_path / f"terminal-{len(opened)}.log", own))
        return opened[-1]

    yield open_terminal
    for terminal in opened:
        terminal.interrupt()


@pytest.fixture
def start_page(site: Site, client: Client) -> dict[str, str]:
    client.force_login(User.objects.create_superuser("ann"))
    host = site.url.removeprefix("http://")
    return printed_on(client.get(reverse("console:start"), headers={"host": host}).content.decode())


def test_the_start_page_leads_to_completed_tasks(start_page: dict[str, str], terminals: Any) -> None:
    """Without a change to any command: the token, the agent, the phase and the plan."""
    assert start_page.keys() == START
    one, two = terminals(), terminals()
    one.run(start_page["token"], SECONDS)
    token, _code = one.run('echo "$STATECORE_TOKEN"', SECONDS)
    assert token.startswith("stc_"), token
    two.run(f"export STATECORE_TOKEN={token.strip()}", SECONDS)
    one.type(start_page["agent"])
    until(lambda: "registered" in one.unread() or "--help" in one.unread(), SECONDS)
    assert "registered" in one.unread(), one.unread()

    for name in ("phase", "plan"):
        said, code = two.run(
            start_page[name].replace("curl ", "curl --silent --show-error --fail-with-body ", 1), SECONDS
        )
        assert code == 0, said

    until(lambda: Task.objects.filter(state="completed").count() == 2, SECONDS)


def test_the_demo_makes_transitions(start_page: dict[str, str], terminals: Any) -> None:
    terminal = terminals()
    terminal.type(start_page["demo"])

    until(lambda: Task.objects.exists() or "Error" in terminal.unread(), SECONDS)
    assert Task.objects.exists(), terminal.unread()


def test_maintenance_commands_run_as_they_are_printed(client: Client, terminals: Any) -> None:
    world.task()
    catch_up()
    client.force_login(User.objects.create_superuser("ann"))
    archived = {"sequence": 1, "archived_range": {"file": "archive.jsonl.gz"}}
    entity = {"version": 1, "chain_head": "0" * 64}
    proof = {"entity": entity, "last": {"hash": "0" * 64}, "archived": archived, "at": now()}
    pages = [
        client.get(reverse("console:audit_verify")).content.decode(),
        render_to_string(
            "dashboard/locked_out.html", {"failure_limit": 5, "cooloff_timedelta": settings.AXES_COOLOFF_TIME}
        ),
        render_to_string("dashboard/parts/proof.html", proof),
    ]
    commands = {name: command for page in pages for name, command in printed_on(page).items()}
    assert commands.keys() == MAINTENANCE

    terminal = terminals()
    for command in commands.values():
        said, code = terminal.run(command, SECONDS)
        assert code == 0, f"{command}\n{said}"


def test_every_command_in_a_template_is_one_of_those_that_are_run() -> None:
    marked, unmarked = set(), []
    for path in sorted(TEMPLATES.rglob("*.html")):
        text = path.read_text()
        marked |= {name for _tag, name, _text in PRINTED.findall(text)}
        rest = PRINTED.sub("", text)
        unmarked += [f"{path.name}: {found}" for found in re.findall(r"(?:manage\.py|scripts/|curl )[^<]*", rest)]

    assert marked == START | MAINTENANCE
    assert unmarked == []
