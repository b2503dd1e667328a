"""A package that extends Statecore is installed beside a release, driven over REST and in a browser, and upgraded."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.utils import timezone

from statecore_client import Client
from tests.documentation.blocks import Typed
from tests.documentation.workspace import Workspace
from tests.release.making import UV, install, run, shared_release
from tests.support import chromium
from tests.support.site import ROOT, free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.slow, pytest.mark.starts_processes]

EXAMPLE = ROOT / "examples" / "release_train"
# In the working folder.
SETTINGS = "from statecore.project.settings import *\nSESSION_COOKIE_NAME = 'company'\n"
UP = Typed("statecore up", ["statecore: ready: open http://127.0.0.1:8000/ (Ctrl-C stops it)"])
NEW_FIELD = '    driver = models.CharField(max_length=100, blank=True, default="", db_default="")\n'
PASSWORD = re.compile(r"first operator: operator, password: (\S+)")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    port = str(free_port())
    installed = install(tmp_path, shared_release())
    shutil.copytree(EXAMPLE, tmp_path / "train", ignore=shutil.ignore_patterns("__pycache__"))
    (installed.folder / "company.py").write_text(SETTINGS)
    workspace = Workspace(tmp_path, installed, {":8000": f":{port}"}, PORT=port, DJANGO_SETTINGS_MODULE="company")
    yield workspace
    workspace.close()


def install_train(workspace: Workspace) -> None:
    words = ["pip", "install", "--python", workspace.python, "--no-deps", "--reinstall", workspace.tmp_path / "train"]
    done = run(UV, *words, folder=workspace.tmp_path)
    assert done.returncode == 0, done.stderr


def create_token(workspace: Workspace) -> str:
    return workspace.run("statecore manage token create tests --user operator --scope override").strip()


def add_a_field(package: Path) -> None:
    """What its developer changes for the next version."""
    models = package / "release_train" / "models.py"
    text = models.read_text().replace("    departs_at = models", f"{NEW_FIELD}    departs_at = models")
    models.write_text(text.replace('version="1.0.0"', 'version="1.1.0"'))
    project = package / "pyproject.toml"
    project.write_text(project.read_text().replace('version = "1.0.0"', 'version = "1.1.0"'))


def drive(client: Client, read: Callable[[str], Any]) -> None:
    past, future = (timezone.now() + timedelta(hours=hours) for hours in (-1, 1))
    client.create("phases", id="PH-1")
    for name, due in (("early", past), ("late", past), ("tomorrow", future)):
        client.create("runs", id=f"run-{name}", phase="PH-1")
        client.create("trains", id=name, run=f"run-{name}", departs_at=due.isoformat())
    for name in ("early", "tomorrow"):
        client.override("runs", f"run-{name}", "succeeded", reason="built elsewhere", category="other")

    # The reaction loads both; the executor lets the one depart that is due; the rule reports the one without a run.
    until(lambda: client.get("trains", "early").state == "departed", 60)
    assert client.get("trains", "tomorrow").state == "loaded"
    until(lambda: "train_late" in {alert["rule"] for alert in read("alerts/")["results"]}, 60)
    assert [each["id"] for each in read("timetable/")["trains"]] == ["late", "tomorrow"]


def read_json(url: str, token: str, path: str) -> Any:
    answer = httpx.get(f"{url}/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def look_at_the_timetable(url: str, password: str) -> str:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**chromium.options())
        page = browser.new_page()
        page.goto(f"{url}/login/")
        page.fill("#id_username", "operator")
        page.fill("#id_password", password)
        page.click("text=Log in >> nth=-1")
        page.click("nav >> text=Timetable")
        page.wait_for_selector("h1:has-text('Timetable')")
        text = page.inner_text("main")
        # Each process has the settings of DJANGO_SETTINGS_MODULE.
        assert "company" in {cookie["name"] for cookie in page.context.cookies()}
        browser.close()
    return text


def test_an_installed_package_adds_a_machine_and_all_that_surrounds_it(workspace: Workspace) -> None:
    install_train(workspace)
    workspace.start("server", UP)
    found = PASSWORD.search(workspace.terminal("server").log.read_text())
    assert found is not None
    url = workspace.localize("http://127.0.0.1:8000")

    token = create_token(workspace)
    with Client(url, token) as client:
        drive(client, partial(read_json, url, token))
    until(lambda: "1 departed" in look_at_the_timetable(url, found[1]), 30)
    workspace.terminals.pop("server").interrupt()

    package = workspace.tmp_path / "train"
    add_a_field(package)
    workspace.run(f"PYTHONPATH={package} statecore manage makemigrations release_train --name driver")
    install_train(workspace)
    workspace.start("upgraded", UP)
    early = read_json(url, token, "trains/early/")
    assert (early["state"], early["driver"]) == ("departed", "")
    with Client(url, token) as client:
        client.edit("trains", "tomorrow", driver="ada")
    assert read_json(url, token, "trains/tomorrow/")["driver"] == "ada"
    assert workspace.run("statecore manage integrity") == "0 errors, 0 warnings\n"
