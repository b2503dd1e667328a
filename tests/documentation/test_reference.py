"""The reference covers every setting, command, API call, refusal and metric."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from django.core.management import get_commands
from django.urls import URLPattern, URLResolver, get_resolver

from statecore.api.openapi.schemas import list_refusal_classes
from statecore.api.openapi.views import build_document
from statecore.devtools import documents, reference
from statecore.devtools.reference import command_lines, metrics
from statecore.devtools.reference.settings import CALLERS, list_variables
from statecore.project import environment
from statecore_client.cli.main import build_parser
from tests.support.site import ROOT

REFERENCE = ROOT / "docs" / "reference"
CODE = ("statecore", "api", "dashboard", "client")
# Variables of Django and the system, and a member of a WSGI request's `environ`.
# NOTIFY_SOCKET is set by systemd.
NOT_OURS = {"DJANGO_SETTINGS_MODULE", "PATH", "PYTHONPATH", "HOME", "SCRIPT_NAME", "NOTIFY_SOCKET"}


def page(name: str) -> str:
    return (REFERENCE / name).read_text()


class RecordingEnviron(Mapping[str, str]):
    """An environment that records which variables are read."""

    def __init__(self, **given: str) -> None:
        self.given, self.read = given, set[str]()

    def __getitem__(self, name: str) -> str:
        self.read.add(name)
        return self.given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)


def read_by_the_settings() -> set[str]:
    environ = RecordingEnviron()
    environment.read(environ)
    return environ.read


def read_elsewhere() -> set[str]:
    """Returns the names of all variables that the code reads from `environ` directly."""
    return {name for folder in CODE for path in (ROOT / folder).rglob("*.py") for name in _names_read(path)}


def _names_read(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    constants = dict(pair for node in tree.body if isinstance(node, ast.Assign) for pair in _constants(node))
    for node in ast.walk(tree):
        argument: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            argument = node.args[0] if node.args and ast.unparse(node.func.value).endswith("environ") else None
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
            argument = node.slice
        name = constants.get(argument.id) if isinstance(argument, ast.Name) else getattr(argument, "value", None)
        if isinstance(name, str):
            yield name


def _constants(node: ast.Assign) -> Iterator[tuple[str, str]]:
    """Yields name and value of `URL = "…"` and of `URL, TOKEN = "…", "…"`."""
    (target,) = node.targets[:1]
    several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
    names, values = (target.elts, node.value.elts) if several else ([target], [node.value])
    for name, value in zip(names, values, strict=False):
        if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
            yield name.id, value.value


def test_every_variable_that_is_read_is_declared_and_every_declared_one_is_read() -> None:
    declared = {variable.name for variable in (*list_variables(), *CALLERS)}

    assert (read_by_the_settings() | read_elsewhere()) - NOT_OURS == declared


@pytest.mark.parametrize("variable", [each for each in list_variables() if each.default], ids=lambda each: each.name)
def test_a_documented_default_equals_the_unset_value(variable, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    home = {"STATECORE_HOME": str(tmp_path)}

    assert environment.read({**home, variable.name: variable.default}) == environment.read(home)


def test_every_variable_is_on_its_page() -> None:
    assert [
        each.name for each in (*list_variables(), *CALLERS) if f"| `{each.name}` |" not in page("settings.md")
    ] == []
    assert all(each.meaning for each in (*list_variables(), *CALLERS))


def test_every_command_of_manage_is_on_its_page() -> None:
    own = {name for name, app in get_commands().items() if app.partition(".")[0] in CODE}

    assert own == set(command_lines.list_own_commands())
    assert [name for name in sorted(own) if f"\n## {name}\n" not in page("manage.md")] == []


def test_every_command_of_statecore_is_on_its_page() -> None:
    typed = [name for name, _parser, _about in command_lines.list_subcommands(build_parser(), "statecore")]

    assert len(typed) > 20
    assert [name for name in typed if f"\n## {name}\n" not in page("statecore.md")] == []


@pytest.mark.parametrize("name", ["manage.md", "statecore.md", "problems.md", "metrics.md", "settings.md", "rest.md"])
def test_every_row_has_a_description(name: str) -> None:
    assert re.findall(r"^\| .*\|\s*\|$", page(name), re.M) == []


def test_every_operation_is_on_its_page() -> None:
    operations = [
        f"`{method.upper()} {path}`" for path, methods in build_document()["paths"].items() for method in methods
    ]

    assert len(operations) > 150
    assert [each for each in operations if each not in page("rest.md")] == []


def url_paths(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[str]:
    for pattern in patterns:
        address = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from url_paths(pattern.url_patterns, address)
        else:
            yield re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", address)


def test_every_url_of_the_api_is_an_operation() -> None:
    below = {f"/{each}" for each in url_paths(get_resolver().url_patterns) if each.startswith("api/v1/")}
    described = set(build_document()["paths"]) | {"/api/v1/schema", "/api/v1/docs"}

    assert {each for each in below if each.removesuffix("/") not in described and not each.endswith("v1/")} == set()


def test_every_refusal_code_is_on_its_page() -> None:
    assert [kind.code for kind in list_refusal_classes() if f"| `{kind.code}` |" not in page("problems.md")] == []


def test_every_metric_is_on_its_page() -> None:
    assert [each.name for each in metrics.list_metrics() if f"| `{each.name}` |" not in page("metrics.md")] == []


def test_missing_changed_and_leftover_files_are_detected_and_fixed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(documents, "ROOT", tmp_path)
    assert sorted(reference.render_documents()) == documents.find_outdated()
    documents.write_documents()
    assert documents.find_outdated() == []

    (tmp_path / "deploy/grafana/stray.json").write_text("{}")
    (tmp_path / "docs/reference/metrics.md").write_text("old")
    (tmp_path / "deploy/prometheus/alerts.yml").unlink()
    wrong = ["deploy/grafana/stray.json", "deploy/prometheus/alerts.yml", "docs/reference/metrics.md"]
    assert documents.find_outdated() == wrong
    assert documents.write_documents() == [f"removed {wrong[0]}", f"wrote {wrong[1]}", f"wrote {wrong[2]}"]
    assert documents.find_outdated() == []
