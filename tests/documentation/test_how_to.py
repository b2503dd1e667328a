"""Every command of the pages is typed as it stands, against a real site, and does what its page shows.

A block that is fenced is run, given as settings to a process, or read, so none is forgotten. Commands that cannot be
run here stand in NOT_HERE, word for word and with the reason.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documentation.blocks import CONSOLE, PLAIN, Block, Typed, blocks
from tests.documentation.desk import Desk
from tests.documentation.test_links import pages
from tests.documentation.worlds import EXAMPLE, WORLDS, nothing
from tests.support import site as sites
from tests.support.site import ROOT, Site
from tests.support.web import here

# What tells of other times, and what is written from the declarations.
NEVER_TYPED = ("docs/adr/", "docs/reference/machines/")
# Run by tests of their own.
OTHERS = {"docs/tutorial/first-plan.md", "docs/reference/client.md", "docs/reference/python.md"}
# Why a command is not run here.
NOT_HERE = {
    "the test of the tutorial types it": ["scripts/up"],
    "it runs this test": ["scripts/test"],
    "it is a drawing": [
        "agent / operator → api | dashboard → door → row + event (one transaction) → sequencer → sinks → dashboard",
    ],
    "it installs on the machine, as root": [
        "apt-get install postgresql redis-server nginx-light git python3-venv sudo",
    ],
    "it becomes another user, of a real installation": [
        "sudo -u postgres createuser --pwprompt statecore",
        "sudo -u postgres createdb --owner statecore statecore",
        "sudo -u statecore --preserve-env .venv/bin/python manage.py createsuperuser",
        "sudo -u statecore --preserve-env .venv/bin/python manage.py doctor",
    ],
    "/opt and /etc are for a real installation; tests/deploy reads what goes there": [
        "cd /opt/statecore && scripts/venv requirements.lock",
        "cd /opt/statecore",
        "set -a; . /etc/statecore/statecore.env; set +a",
        "cp deploy/systemd/statecore.sysusers /etc/sysusers.d/statecore.conf && systemd-sysusers",
        "cp deploy/systemd/statecore.tmpfiles /etc/tmpfiles.d/statecore.conf && systemd-tmpfiles --create",
        "cp deploy/systemd/*.service deploy/systemd/*.target /etc/systemd/system/",
    ],
    "there is no systemd; tests/deploy starts what the units start": [
        "systemctl daemon-reload",
        "systemctl enable --now statecore.target",
    ],
    "there are no containers; tests/deploy reads the file": [
        "docker compose -f deploy/compose.yaml up -d",
        "docker compose -f deploy/compose.yaml exec rest python manage.py createsuperuser",
    ],
    "there is no cluster; tests/deploy reads the manifests": [
        "kubectl create namespace statecore",
        (
            "kubectl -n statecore create secret generic statecore --from-literal=DATABASE_URL=… "
            "--from-literal=REDIS_URL=… --from-literal=STATECORE_SECRET_KEY=… --from-literal=STATECORE_METRICS_TOKEN=…"
        ),
        "kubectl apply -k deploy/",
        "kubectl -n statecore rollout status deploy/statecore-web",
        "kubectl -n statecore exec -it deploy/statecore-web -c rest -- python manage.py createsuperuser",
    ],
}
LEFT_OUT = {command for commands in NOT_HERE.values() for command in commands}
# What goes on, and its exit code when it has come to its end or was ended with Ctrl-C.
GOES_ON = {"statecore agent": 0, "manage.py simulate": 0, "watch runs r1 --until": 0, "statecore watch": 130}
# What is neither typed nor set is read by its own reader.
READ: dict[str, Callable[[str], Any]] = {"json": json.loads, "python": ast.parse, "yaml": yaml.safe_load}
WITH_COMMANDS = [
    name
    for name in (str(page.relative_to(ROOT)) for page in pages())
    if name == "README.md" or (name.startswith("docs/") and name not in OTHERS and not name.startswith(NEVER_TYPED))
]


@pytest.fixture
def desk(site: Site, redis_server: str, tmp_path: Path) -> Iterator[Desk]:
    token = sites.token("override")
    examples = {
        "http://127.0.0.1:8000": site.url,
        EXAMPLE: site.url,
        "STATECORE_TOKEN=…": f"STATECORE_TOKEN={token}",
        "statecore login": f"echo {token} | statecore login",
        "/usr/bin/ruff": str(ROOT / ".venv/bin/ruff"),
    }
    ours = {"REDIS_URL": redis_server, "STATECORE_URL": site.url, "STATECORE_TOKEN": token}
    desk = Desk(tmp_path, examples, **here(tmp_path / "state"), **ours)
    desk.home.mkdir()
    # As if installed: there `statecore` is a program.
    desk.environ["PATH"] += f":{desk.checkout}/scripts"
    yield desk
    desk.leave()


@pytest.mark.parametrize("name", [name for name in WITH_COMMANDS if blocks(ROOT / name)])
def test_what_a_page_tells_to_type_and_to_set_works(name: str, desk: Desk) -> None:
    with WORLDS.get(name, nothing)(desk, name):
        for block in blocks(ROOT / name):
            follow(block, desk)
    end_what_goes_on(desk)


def follow(block: Block, desk: Desk) -> None:
    if block.settings:
        give(block.settings, desk)
    elif block.language in (CONSOLE, PLAIN):
        for typed in filter(is_for_here, block.typed):
            do(typed, desk)
    else:
        READ[block.language](block.text)


def give(settings: dict[str, str], desk: Desk) -> None:
    """To a process that starts with them; those that follow on the page have them as well."""
    for name, value in settings.items():
        desk.run(f"export {name}='{value}'")
    desk.run("python manage.py check")


def is_for_here(typed: Typed) -> bool:
    return bare(typed) not in LEFT_OUT


def bare(typed: Typed) -> str:
    """In one line, and without the remark behind it."""
    return " ".join(typed.command.partition("  #")[0].split())


def do(typed: Typed, desk: Desk) -> None:
    """An output is compared where the page shows one."""
    if goes_on(typed.command):
        start(typed, desk)
    elif typed.shown:
        desk.do(typed)
    else:
        desk.run(typed.command)


def goes_on(command: str) -> bool:
    return any(words in command for words in GOES_ON)


def start(typed: Typed, desk: Desk) -> None:
    """The terminal is taken, with what was exported in it; what follows is typed in another."""
    desk.start("", Typed(f"{typed.command}; exit $?", typed.shown))
    desk.terminals[typed.command] = desk.terminals.pop("")


def end_what_goes_on(desk: Desk) -> None:
    for command in filter(goes_on, desk.terminals):
        terminal = desk.terminals[command]
        terminal.interrupt()
        code = next(code for words, code in GOES_ON.items() if words in command)
        assert terminal.shell.returncode == code, f"$ {command}\n{terminal.unread()}"


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_no_fence_of_a_page_is_overlooked(name: str) -> None:
    fences = [line for line in (ROOT / name).read_text().splitlines() if line.lstrip().startswith(("```", "~~~"))]

    assert len(fences) == 2 * len(blocks(ROOT / name))


def test_nothing_is_left_out_that_no_page_has() -> None:
    typed = {bare(typed) for name in WITH_COMMANDS for block in blocks(ROOT / name) for typed in block.typed}

    assert LEFT_OUT - typed == set()
    assert [name for name in (*WORLDS, *OTHERS) if not blocks(ROOT / name)] == []
