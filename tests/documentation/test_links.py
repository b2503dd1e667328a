"""What a page links to is there, and every page is linked to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.site import ROOT

LINK = re.compile(r"\]\(([^()\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
HEADING = re.compile(r"^#+ (.+)$", re.M)


def pages() -> list[Path]:
    """Ours: what the benchmarks install for a peer has pages of its own."""
    below = [page for folder in ("docs", "deploy", "benchmarks") for page in (ROOT / folder).rglob("*.md")]
    return sorted([*ROOT.glob("*.md"), *(page for page in below if ".peers" not in page.parts)])


def anchors(page: Path) -> set[str]:
    """As the usual viewers make them: small letters, no punctuation, a hyphen for a space."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    return [link for link in LINK.findall(FENCED.sub("", page.read_text())) if "://" not in link]


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(path: Path) -> None:
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_can_be_reached_from_the_first() -> None:
    waiting, seen = [ROOT / "README.md"], set[Path]()
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md" and page.is_file():
            seen.add(page)
            waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
    unreached = {page for page in pages() if (ROOT / "docs") in page.parents} - seen

    assert sorted(str(page.relative_to(ROOT)) for page in unreached) == []
