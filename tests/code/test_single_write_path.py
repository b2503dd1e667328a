"""Only the transition service writes a state: a check of the product source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from statecore import records  # plain tables, which have no state of a machine

ROOT = Path(__file__).parents[2]
PRODUCT = [path for folder in ("statecore", "api", "dashboard", "client") for path in (ROOT / folder).rglob("*.py")]
SERVICE = ROOT / "statecore" / "transitions"
FIELDS = ROOT / "statecore" / "kernel" / "fields.py"
WRITING_CALLS = {"update", "create", "get_or_create", "update_or_create"}
BULK_CALLS = {"bulk_update", "bulk_create", "save_base"}
RAW_WRITE = re.compile(r"UPDATE\s.*\bSET\b.*\bstate\s*=", re.IGNORECASE | re.DOTALL)


def offences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _call(node, getattr(node.func, "attr", "") or getattr(node.func, "id", ""))
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and getattr(node, "value", None):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Attribute) and target.attr == "state" for target in targets):
                yield node.lineno, "assigns .state"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and RAW_WRITE.search(node.value):
            yield node.lineno, "writes state in SQL"


def _call(node: ast.Call, name: str) -> Iterator[tuple[int, str]]:
    if name in WRITING_CALLS and any(keyword.arg == "state" for keyword in node.keywords):
        yield node.lineno, f"{name}(state=…)"
    if name in BULK_CALLS and _find_root(node.func) not in records.__all__:
        yield node.lineno, f"{name}()"
    if name in {"force", "set_state"}:
        yield node.lineno, f"{name}() of a state"
    if name == "setattr" and len(node.args) > 1 and getattr(node.args[1], "value", None) == "state":
        yield node.lineno, "setattr(…, 'state', …)"


def _find_root(node: ast.expr) -> str:
    """Return the name at the beginning of a chain such as `Task.objects.bulk_create`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def found_in(source: str) -> list[str]:
    return [what for _line, what in offences(ast.parse(source))]


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_transition_service_writes_a_state(path: Path) -> None:
    allowed = path.is_relative_to(SERVICE) or "migrations" in path.parts or path == FIELDS
    found = [f"line {line}: {what}" for line, what in offences(ast.parse(path.read_text()))]
    assert allowed or not found


@pytest.mark.parametrize(
    "source",
    [
        "Task.objects.update(state='completed')",
        "Task.objects.filter(pk=1).update(state=x)",
        "Task.objects.create(state='queued')",
        "Task.objects.bulk_update(tasks, ['state'])",
        "Task.objects.bulk_create(tasks)",
        "task.state = 'failed'",
        "StateField.force(task, 'failed')",
        "setattr(task, 'state', 'failed')",
        "cursor.execute('UPDATE statecore_task SET version = 2, state = %s')",
    ],
)
def test_a_write_is_found(source: str) -> None:
    assert found_in(source)


@pytest.mark.parametrize(
    "source", ["Task.objects.filter(state='failed')", "if task.state == 'x': pass", "class A:\n  state: str"]
)
def test_a_read_is_not_reported(source: str) -> None:
    assert not found_in(source)
