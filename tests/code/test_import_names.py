"""The folders api/ and dashboard/ have one import name each: by two, modules would be loaded twice (ADR 181)."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("api", "benchmarks", "dashboard", "examples", "statecore", "tests")
BARE_IMPORT = re.compile(r"^\s*(?:from|import) (?:api|dashboard)\b", re.MULTILINE)


def test_no_module_is_imported_without_the_name_of_the_package() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]

    assert not [str(path) for path in paths if BARE_IMPORT.search(path.read_text(encoding="utf-8"))]


def test_both_folders_are_found_below_the_package() -> None:
    for name in ("api", "dashboard"):
        assert (ROOT / "statecore" / name).resolve() == ROOT / name
