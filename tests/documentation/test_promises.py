"""Every test named on a page exists, and every guarantee names a test."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.site import ROOT

NAMED = re.compile(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`")
PAGES = ("docs/reliability.md", "SECURITY.md", "CONTRIBUTING.md")


def named(page: str) -> list[tuple[str, str]]:
    return NAMED.findall((ROOT / page).read_text())


@pytest.mark.parametrize("text", PAGES)
def test_every_test_named_on_a_page_exists(text: str) -> None:
    assert named(text)
    for path, name in named(text):
        assert (ROOT / path).exists(), path
        assert not name or name in functions(path), f"{path}::{name}"


def functions(path: str) -> set[str]:
    return {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_guarantee_names_a_test() -> None:
    rows = [line for line in (ROOT / "docs/reliability.md").read_text().splitlines() if line.startswith("| ")][1:]

    assert len(rows) > 20
    assert [row for row in rows if "`tests/" not in row and row != "| guarantee | tests |"] == []


def test_every_promise_of_security_names_a_test() -> None:
    boundaries = read_rows("## Trust boundaries")
    assert len(boundaries) > 20
    assert [row for row in boundaries if "`tests/" not in row] == []


def test_every_attack_names_a_test() -> None:
    attacks = read_rows("## Attacks")
    assert [row.split(".")[0] for row in attacks] == [f"| {number}" for number in range(1, 13)]
    assert [row for row in attacks if "`tests/" not in row] == []


def read_rows(heading: str) -> list[str]:
    """Returns the rows of the table below a heading of SECURITY.md, without its header."""
    section = (ROOT / "SECURITY.md").read_text().split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]
