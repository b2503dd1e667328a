"""Every link of a page works, and every page can be reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.site import ROOT

LINK = re.compile(r"\]\(([^()\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
HEADING = re.compile(r"^#+ (.+)$", re.M)
NAMED_PATH = re.compile(
    r"`((?:api|benchmarks|client|dashboard|deploy|docs|scripts|statecore|static|templates|tests)/[\w/.@-]*)"
)
CREATED_BY_READERS = {"statecore/machines/review.py", "docs/rfc/", "deploy/.env", "deploy/tls/"}


def pages() -> list[Path]:
    """Returns the project's pages, without those of packages the benchmarks install."""
    below = [page for folder in ("client", "docs", "deploy", "benchmarks") for page in (ROOT / folder).rglob("*.md")]
    return sorted([*ROOT.glob("*.md"), *(page for page in below if ".peers" not in page.parts)])


def anchors(page: Path) -> set[str]:
    """Returns the heading anchors like GitHub generates them."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    return [link for link in LINK.findall(FENCED.sub("", page.read_text())) if "://" not in link]


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_page_works(path: Path) -> None:
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_can_be_reached_from_the_readme() -> None:
    waiting, seen = [ROOT / "README.md"], set[Path]()
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md" and page.is_file():
            seen.add(page)
            waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
    unreached = {page for page in pages() if (ROOT / "docs") in page.parents} - seen

    assert sorted(str(page.relative_to(ROOT)) for page in unreached) == []


def test_every_file_that_a_page_names_exists() -> None:
    named = {path for page in pages() for path in NAMED_PATH.findall(page.read_text())}

    assert len(named) > 50
    assert sorted(path for path in named - CREATED_BY_READERS if not (ROOT / path).exists()) == []
