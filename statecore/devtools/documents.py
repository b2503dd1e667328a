"""Compares the generated files with the declarations and writes them."""

from __future__ import annotations

from pathlib import Path

from . import reference

ROOT = Path(__file__).parents[2]
# Folders with generated files only: any other file in them belongs to a declaration that no longer exists.
GENERATED_FOLDERS = ("docs/reference/machines", "deploy/grafana", "deploy/prometheus")


def find_outdated() -> list[str]:
    """Returns the paths of files that are missing, differ, or should not exist."""
    wanted = reference.render_documents()
    existing = {
        path: (ROOT / path).read_text() for path in wanted.keys() | _list_generated() if (ROOT / path).is_file()
    }
    return sorted(path for path in wanted.keys() | existing.keys() if wanted.get(path) != existing.get(path))


def write_documents() -> list[str]:
    """Updates every outdated file. Returns one line per change."""
    wanted, changes = reference.render_documents(), []
    for name in find_outdated():
        path, text = ROOT / name, wanted.get(name)
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        changes.append(f"{'removed' if text is None else 'wrote'} {name}")
    return changes


def _list_generated() -> set[str]:
    found = (path for folder in GENERATED_FOLDERS for path in (ROOT / folder).glob("*.*"))
    return {path.relative_to(ROOT).as_posix() for path in found}
