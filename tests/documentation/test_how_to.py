"""Runs every command of the pages against a real site and compares the shown output.

Every fenced block is executed, used as settings for a process, or parsed. Commands that cannot run in a test are listed
in NOT_RUN, with the reason.
"""

from __future__ import annotations

import ast
import json
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documentation.blocks import CONSOLE, PLAIN, Block, Typed, blocks
from tests.documentation.scenarios import EXAMPLE, SCENARIOS, empty
from tests.documentation.test_links import pages
from tests.documentation.workspace import Workspace, check_out
from tests.support import site as sites
from tests.support.sequencer import database_url
from tests.support.site import ROOT, Site
from tests.support.web import here

# Historical and generated pages.
SKIPPED_FOLDERS = ("docs/adr/", "docs/reference/machines/")
# Pages with separate tests.
TESTED_ELSEWHERE = {
    "docs/how-to/add-a-machine.md",
    "docs/tutorial/first-plan.md",
    "docs/reference/client.md",
    "docs/reference/python.md",
}
# Reasons why commands are not run.
NOT_RUN = {
    "the tutorial's test runs it": ["scripts/up"],
    "it runs this test": ["scripts/test"],
    "it is a diagram": [
        (
            "agent / operator → api | dashboard → transitions → row + event (one transaction) "
            "→ delivery (sequencer → sinks → live) → dashboard"
        ),
    ],
    "it needs the package index or the advisory service": [
        "scripts/audit",
    ],
    "tests/release makes a release and installs it": [
        "scripts/release dist",
        "uvx --find-links ./dist statecore up",
        "uv venv",
        'uv pip install --find-links ./dist --constraint ./dist/requirements.lock "statecore[postgres]"',
    ],
    "it publishes a version": [
        'git commit -am "Release 0.2.0"',
        'git tag -a v0.2.0 -m "Statecore 0.2.0"',
        "git push origin HEAD v0.2.0",
    ],
    "it installs system packages as root": [
        "apt-get install postgresql redis-server nginx-light git bubblewrap python3-venv sudo",
    ],
    "it needs the user of a real installation": [
        "sudo -u postgres createdb statecore",
        "sudo -u postgres psql --set ON_ERROR_STOP=1 --dbname statecore --file - < deploy/roles.sql",
        (
            r"sudo -u postgres psql --dbname statecore --command '\password statecore_owner' "
            r"--command '\password statecore_web'"
        ),
        "sudo -u statecore --preserve-env .venv/bin/python manage.py createsuperuser",
        "sudo -u statecore --preserve-env .venv/bin/python manage.py doctor",
    ],
    "it needs /opt and /etc of a real installation; tests/deploy checks the files": [
        "cd /opt/statecore && scripts/venv requirements.lock",
        "cd /opt/statecore",
        "set -a; . /etc/statecore/statecore.env; set +a",
        "cp deploy/systemd/statecore.sysusers /etc/sysusers.d/statecore.conf && systemd-sysusers",
        "cp deploy/systemd/statecore.tmpfiles /etc/tmpfiles.d/statecore.conf && systemd-tmpfiles --create",
        "cp deploy/systemd/*.service deploy/systemd/*.target /etc/systemd/system/",
    ],
    "it needs the user of PostgreSQL; tests/backup/test_point_in_time.py runs it": [
        "pg_basebackup --pgdata=/mnt/base/today --checkpoint=fast",
    ],
    "it needs a lost key; tests/sinks/test_tree.py runs it": ["python manage.py newkey"],
    "it needs systemd; tests/deploy starts the commands of the units": [
        "systemctl daemon-reload",
        "systemctl enable --now statecore.target",
        "systemctl enable --now statecore-executors@1.service",
    ],
    "it needs Docker; tests/deploy checks the file": [
        "docker compose -f deploy/compose.yaml up -d",
        "docker compose -f deploy/compose.yaml exec rest python manage.py createsuperuser",
    ],
    "it needs a Kubernetes cluster and Helm; tests/deploy renders the chart": [
        "kubectl create namespace statecore",
        "kubectl create namespace statecore-executors",
        "kubectl label namespace statecore pod-security.kubernetes.io/enforce=restricted",
        "kubectl label namespace statecore-executors pod-security.kubernetes.io/enforce=privileged",
        "helm upgrade --install statecore deploy/helm --namespace statecore --values values.yaml",
        (
            "helm upgrade --install statecore-executors deploy/helm --namespace statecore-executors "
            "--set mode=executors --set secret=statecore-executors --set settings.STATECORE_GATE_COMMANDS=pytest"
        ),
        (
            "kubectl -n statecore create secret generic statecore --from-literal=DATABASE_URL=… "
            "--from-literal=REDIS_URL=… --from-literal=STATECORE_SECRET_KEY=… --from-literal=STATECORE_METRICS_TOKEN=…"
        ),
        "kubectl -n statecore create secret generic statecore-owner --from-literal=DATABASE_URL=…",
        (
            "kubectl -n statecore-executors create secret generic statecore-executors --from-literal=DATABASE_URL=… "
            "--from-literal=REDIS_URL=…"
        ),
        "kubectl -n statecore rollout status deploy/statecore-web",
        "kubectl -n statecore exec -it deploy/statecore-web -c rest -- python manage.py createsuperuser",
    ],
}
EXCLUDED = {command for commands in NOT_RUN.values() for command in commands}
# Long-running commands, and their exit codes when they end or are interrupted.
LONG_RUNNING = {
    "statecore agent": 0,
    "manage.py simulate": 0,
    "watch runs r1 --until": 0,
    "statecore watch": 130,
    "--every 60": 130,
}


# Parsers for the other blocks.
def parse_shell(script: str) -> None:
    """Checks the syntax of a script that an agent runs, not the page's reader."""
    subprocess.run(["/bin/bash", "-n"], input=script, text=True, check=True)


PARSERS: dict[str, Callable[[str], Any]] = {
    "json": json.loads,
    "python": ast.parse,
    "sh": parse_shell,
    "yaml": yaml.safe_load,
    "toml": tomllib.loads,
}
WITH_COMMANDS = [
    name
    for name in (str(page.relative_to(ROOT)) for page in pages())
    if name == "README.md"
    or (name.startswith("docs/") and name not in TESTED_ELSEWHERE and not name.startswith(SKIPPED_FOLDERS))
]


@pytest.fixture
def workspace(site: Site, redis_server: str, tmp_path: Path) -> Iterator[Workspace]:
    token = sites.token("override")
    examples = {
        "http://127.0.0.1:8000": site.url,
        EXAMPLE: site.url,
        "STATECORE_TOKEN=…": f"STATECORE_TOKEN={token}",
        "statecore login": f"echo {token} | statecore login",
        "/usr/bin/ruff": str(ROOT / ".venv/bin/ruff"),
    }
    own = {"REDIS_URL": redis_server, "STATECORE_URL": site.url, "STATECORE_TOKEN": token}
    # Pages describe an installation whose only role owns the database.
    own["DATABASE_URL"] = database_url("owner")
    workspace = Workspace(tmp_path, check_out(tmp_path / "statecore"), examples, **{**here(tmp_path / "state"), **own})
    workspace.home.mkdir()
    # In an installation, `statecore` is on the PATH.
    workspace.environ["PATH"] += f":{workspace.folder}/scripts"
    yield workspace
    workspace.close()


@pytest.mark.parametrize("name", [name for name in WITH_COMMANDS if blocks(ROOT / name)])
def test_the_commands_and_settings_of_a_page_work(name: str, workspace: Workspace) -> None:
    with SCENARIOS.get(name, empty)(workspace, name):
        for block in blocks(ROOT / name):
            follow(block, workspace)
    end_long_running(workspace)


def follow(block: Block, workspace: Workspace) -> None:
    if block.settings:
        apply_settings(block.settings, workspace)
    elif block.language in (CONSOLE, PLAIN):
        for typed in filter(is_run, block.typed):
            run(typed, workspace)
    else:
        PARSERS[block.language](block.text)


def apply_settings(settings: dict[str, str], workspace: Workspace) -> None:
    """Exports the settings for the commands that follow and checks that a process starts with them."""
    for name, value in settings.items():
        workspace.run(f"export {name}='{value}'")
    workspace.run("python manage.py check")


def is_run(typed: Typed) -> bool:
    return normalized(typed) not in EXCLUDED


def normalized(typed: Typed) -> str:
    """Returns the command in one line and without a trailing comment."""
    return " ".join(typed.command.partition("  #")[0].split())


def run(typed: Typed, workspace: Workspace) -> None:
    """Runs a command and compares its output if the page shows one."""
    if is_long_running(typed.command):
        start(typed, workspace)
    elif typed.shown:
        workspace.check(typed)
    else:
        workspace.run(typed.command)


def is_long_running(command: str) -> bool:
    return any(words in command for words in LONG_RUNNING)


def start(typed: Typed, workspace: Workspace) -> None:
    """Starts a command that occupies its terminal; later commands use a new one."""
    workspace.start("", Typed(f"{typed.command}; exit $?", typed.shown))
    workspace.terminals[typed.command] = workspace.terminals.pop("")


def end_long_running(workspace: Workspace) -> None:
    for command in filter(is_long_running, workspace.terminals):
        terminal = workspace.terminals[command]
        terminal.interrupt()
        code = next(code for words, code in LONG_RUNNING.items() if words in command)
        assert terminal.shell.returncode == code, f"$ {command}\n{terminal.unread()}"


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_every_fenced_block_of_a_page_is_parsed(name: str) -> None:
    fences = [line for line in (ROOT / name).read_text().splitlines() if line.lstrip().startswith(("```", "~~~"))]

    assert len(fences) == 2 * len(blocks(ROOT / name))


def test_every_excluded_command_is_on_a_page() -> None:
    typed = {normalized(typed) for name in WITH_COMMANDS for block in blocks(ROOT / name) for typed in block.typed}

    assert EXCLUDED - typed == set()
    assert [name for name in (*SCENARIOS, *TESTED_ELSEWHERE) if not blocks(ROOT / name)] == []
