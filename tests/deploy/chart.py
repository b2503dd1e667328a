"""Renders the Helm chart with Go's text/template from the package index, which does not have Helm itself.

The templates use no function of Helm's own, so the result is that of `helm template`. What is not seen is how Helm
reads Chart.yaml, merges values and checks them against values.schema.json.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from tests.deploy.units import DEPLOY

CHART = DEPLOY / "helm"
UV = Path(sys.executable).with_name("uv")
# Only for Linux on x86-64.
RENDERER = "go-template==0.0.3"
PROGRAM = """
import sys, go_template
values, *templates = sys.argv[1:]
for each in templates:
    go_template.render_template(each, values, each.removesuffix(".tpl") + ".rendered")
"""
SERVER, EXECUTORS, MONITORED = "server", "executors", "monitored"
# Values that differ from the defaults.
GIVEN: dict[str, dict[str, Any]] = {
    SERVER: {},
    MONITORED: {"monitoring": {"enabled": True}, "settings": {"STATECORE_NOTIFY_URLS": 'json://example.org/?a="b"'}},
    EXECUTORS: {
        "mode": "executors",
        "secret": "statecore-executors",
        "settings": {"STATECORE_GATE_COMMANDS": "pytest"},
    },
}


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / name).read_text())
    return found


@cache
def render(variant: str) -> list[dict[str, Any]]:
    """Returns the resources of an installation with these values."""
    parts = (CHART / "templates" / "_parts.tpl").read_text()
    values = {**read("values.yaml"), **GIVEN[variant]}
    with TemporaryDirectory() as name:
        folder = Path(name)
        chart = {"AppVersion": read("Chart.yaml")["appVersion"]}
        given = {"Values": values, "Chart": chart, "Release": {"Revision": 1}}
        (folder / "values").write_text(yaml.safe_dump(given))
        for file in sorted((CHART / "templates").glob("*.yaml")):
            (folder / f"{file.name}.tpl").write_text(parts + file.read_text())
        _run(folder)
        texts = [file.read_text() for file in sorted(folder.glob("*.rendered"))]
    assert not [text for text in texts if "<no value>" in text]
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def _run(folder: Path) -> None:
    templates = map(str, sorted(folder.glob("*.tpl")))
    words = [str(UV), "run", "--quiet", "--no-project", "--with", RENDERER, "--", "python", "-c", PROGRAM]
    if not is_available():
        pytest.skip(f"{RENDERER} could not be downloaded from the package index, or does not run here")
    ended = subprocess.run(
        [*words, str(folder / "values"), *templates], capture_output=True, text=True, timeout=120, cwd=folder
    )
    assert ended.returncode == 0, ended.stderr


@cache
def is_available() -> bool:
    words = [str(UV), "run", "--quiet", "--no-project", "--with", RENDERER, "--", "python", "-c", "import go_template"]
    return UV.exists() and subprocess.run(words, capture_output=True, timeout=120).returncode == 0


def find(kind: str, variant: str = SERVER) -> dict[str, dict[str, Any]]:
    """Returns the resources of a kind by name."""
    return {each["metadata"]["name"]: each for each in render(variant) if each["kind"] == kind}


def pods() -> dict[str, dict[str, Any]]:
    found = [each for variant in (SERVER, EXECUTORS) for each in render(variant)]
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in found
        if "template" in each.get("spec", {})
    }


def containers() -> list[dict[str, Any]]:
    return [container for spec in pods().values() for container in spec["containers"]]
