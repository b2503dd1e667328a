"""The public names of `statecore.framework`, which other packages import, are those of the committed list."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

MODULES = ("console", "declarations", "extensions", "rest")
LIST = Path(__file__).with_name("public_names.txt")
RULE = (
    "Other packages import these names. Add a new line to tests/code/public_names.txt; remove or change one only after "
    "a minor version in which its use warned (docs/how-to/extend.md, What is public)."
)


def list_public_names() -> Iterator[str]:
    for word in MODULES:
        module = importlib.import_module(f"statecore.framework.{word}")
        for name in sorted(module.__all__):
            found = getattr(module, name)
            is_own = inspect.isfunction(found) and found.__module__ == module.__name__
            yield f"{word}.{name}{inspect.signature(found) if is_own else ''}"


def test_public_names_change_only_by_the_rules() -> None:
    assert list(list_public_names()) == LIST.read_text().splitlines(), RULE
