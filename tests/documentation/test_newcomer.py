"""A developer who follows "Add a machine" literally, in a copy of the project, gets a machine that passes its tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.site import ROOT

PAGE = ROOT / "docs" / "how-to" / "add-a-machine.md"
# Either a block of code with the file that the sentence above it names, or a block of commands.
STEP = re.compile(
    r"(?P<verb>Create|Append)[^`]*`(?P<file>[\w/]+\.py)`:\n\n```python\n(?P<code>.*?)^```$"
    r"|^```\n(?P<commands>.*?)^```$",
    re.M | re.S,
)
LEFT_OUT = shutil.ignore_patterns(".*")
SECONDS = 120


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "statecore"
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def run(commands: str, project: Path) -> str:
    environment = {
        "PATH": f"{project}/.venv/bin:{os.environ['PATH']}",
        "HOME": str(project.parent),
        "LC_ALL": "C.UTF-8",
        "STATECORE_HOME": str(project.parent / "home"),
        "STATECORE_SQLITE_SYNCHRONOUS": "OFF",
    }
    done = subprocess.run(
        ["/bin/bash", "-e", "-c", commands], cwd=project, env=environment, capture_output=True, text=True,
        check=False, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
    return done.stdout


def follow(step: re.Match[str], project: Path) -> str:
    """Carries out one step of the page and returns the output of its commands."""
    if step["commands"]:
        return run(step["commands"], project)
    with (project / step["file"]).open("x" if step["verb"] == "Create" else "a") as file:
        file.write(step["code"] if step["verb"] == "Create" else f"\n{step['code']}")
    return ""


def source_files(project: Path) -> set[str]:
    files = (path.relative_to(project) for path in project.rglob("*") if path.is_file())
    return {str(path) for path in files if not any(part.startswith((".", "__pycache__")) for part in path.parts)}


def test_the_page_leads_to_a_machine_that_passes_its_tests(project: Path) -> None:
    before = source_files(project)

    output = "".join(follow(step, project) for step in STEP.finditer(PAGE.read_text()))

    added = source_files(project) - before
    (migration,) = (name for name in added if name.startswith("statecore/migrations/"))
    assert added == {"statecore/machines/review.py", "docs/reference/machines/review.md", migration}
    assert "Create model Review" in output
    assert "machines agree with the committed snapshot" in output
    assert re.search(r"^[1-9]\d* passed", output, re.M)
    run("ruff check . && ruff format --check .", project)


def test_every_block_of_the_page_is_followed() -> None:
    text = PAGE.read_text()

    assert len(STEP.findall(text)) == text.count("```") // 2
