"""Nothing that can be set, typed, called, refused or measured is left out of the reference."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from django.core.management import get_commands
from django.urls import URLPattern, URLResolver, get_resolver

from api.cli.main import build
from api.openapi.schemas import refusal_classes
from api.openapi.views import document
from statecore.derive import documents
from statecore.project import environment
from statecore.project.variables import CALLERS, every_variable
from statecore.reference import commands, measures, options
from tests.support.site import ROOT

REFERENCE = ROOT / "docs" / "reference"
CODE = ("statecore", "api", "dashboard")
# Not for somebody to set: Django's own, and what every system has.
NOT_OURS = {"DJANGO_SETTINGS_MODULE", "PATH", "HOME"}


def page(name: str) -> str:
    return (REFERENCE / name).read_text()


class Noting(Mapping[str, str]):
    """An environment that notes what it is asked for."""

    def __init__(self, **given: str) -> None:
        self.given, self.asked = given, set[str]()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return self.given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)


def read_by_the_settings() -> set[str]:
    noting = Noting()
    environment.read(noting)
    return noting.asked


def read_elsewhere() -> set[str]:
    """Every `environ` that is asked for a name in the code."""
    return {name for folder in CODE for path in (ROOT / folder).rglob("*.py") for name in _names_read(path)}


def _names_read(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    constants = dict(pair for node in tree.body if isinstance(node, ast.Assign) for pair in _constants(node))
    for node in ast.walk(tree):
        asked: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = node.args[0] if node.args and ast.unparse(node.func.value).endswith("environ") else None
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
            asked = node.slice
        name = constants.get(asked.id) if isinstance(asked, ast.Name) else getattr(asked, "value", None)
        if isinstance(name, str):
            yield name


def _constants(node: ast.Assign) -> Iterator[tuple[str, str]]:
    """`URL = "…"`, and `URL, TOKEN = "…", "…"`."""
    (target,) = node.targets[:1]
    several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
    names, values = (target.elts, node.value.elts) if several else ([target], [node.value])
    for name, value in zip(names, values, strict=False):
        if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
            yield name.id, value.value


def test_every_variable_that_is_read_is_declared_and_every_declared_one_is_read() -> None:
    declared = {variable.name for variable in (*every_variable(), *CALLERS)}

    assert (read_by_the_settings() | read_elsewhere()) - NOT_OURS == declared


@pytest.mark.parametrize("variable", [each for each in every_variable() if each.default], ids=lambda each: each.name)
def test_a_default_is_what_holds_when_nothing_is_said(variable, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    home = {"STATECORE_HOME": str(tmp_path)}

    assert environment.read({**home, variable.name: variable.default}) == environment.read(home)


def test_every_variable_is_on_its_page() -> None:
    assert [
        each.name for each in (*every_variable(), *CALLERS) if f"| `{each.name}` |" not in page("settings.md")
    ] == []
    assert all(each.meaning for each in (*every_variable(), *CALLERS))


def test_every_command_of_manage_is_on_its_page() -> None:
    ours = {name for name, app in get_commands().items() if app in CODE}

    assert ours == set(commands.ours())
    assert [name for name in sorted(ours) if f"\n## {name}\n" not in page("manage.md")] == []


def test_every_verb_is_on_its_page() -> None:
    typed = [name for name, _parser, _about in options.below(build(), "statecore")]

    assert len(typed) > 20
    assert [name for name in typed if f"\n## {name}\n" not in page("statecore.md")] == []


@pytest.mark.parametrize("name", ["manage.md", "statecore.md", "problems.md", "metrics.md", "settings.md", "rest.md"])
def test_nothing_is_listed_without_a_word_about_it(name: str) -> None:
    assert re.findall(r"^\| .*\|\s*\|$", page(name), re.M) == []


def test_every_operation_is_on_its_page() -> None:
    operations = [f"`{method.upper()} {path}`" for path, methods in document()["paths"].items() for method in methods]

    assert len(operations) > 150
    assert [each for each in operations if each not in page("rest.md")] == []


def addresses(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[str]:
    for pattern in patterns:
        address = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, address)
        else:
            yield re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", address)


def test_every_address_of_the_api_is_an_operation() -> None:
    below = {f"/{each}" for each in addresses(get_resolver().url_patterns) if each.startswith("api/v1/")}
    described = set(document()["paths"]) | {"/api/v1/schema/", "/api/v1/docs/"}

    assert {each for each in below if each not in described and not each.endswith("v1/")} == set()


def test_every_code_of_a_refusal_is_on_its_page() -> None:
    assert [kind.code for kind in refusal_classes() if f"| `{kind.code}` |" not in page("problems.md")] == []


def test_every_metric_is_on_its_page() -> None:
    assert [each.name for each in measures.measures() if f"| `{each.name}` |" not in page("metrics.md")] == []


def test_what_is_missing_changed_or_left_over_is_noticed_and_put_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(documents, "ROOT", tmp_path)
    assert sorted(documents.documents()) == documents.outdated()
    documents.write()
    assert documents.outdated() == []

    (tmp_path / "deploy/grafana/stray.json").write_text("{}")
    (tmp_path / "docs/reference/metrics.md").write_text("old")
    (tmp_path / "deploy/prometheus/alerts.yml").unlink()
    wrong = ["deploy/grafana/stray.json", "deploy/prometheus/alerts.yml", "docs/reference/metrics.md"]
    assert documents.outdated() == wrong
    assert documents.write() == [f"removed {wrong[0]}", f"wrote {wrong[1]}", f"wrote {wrong[2]}"]
    assert documents.outdated() == []
