"""Every hand-written page links to the glossary, which defines every term once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from statecore.devtools import reference
from tests.documentation.test_links import FENCED, HEADING, links, pages
from tests.support.site import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
# For maintainers; it uses none of the terms.
WITHOUT_TERMS = {"docs/how-to/release.md"}
RECORDS = ("docs/adr/", "benchmarks/")


def hand_written() -> list[str]:
    """The pages for readers, without the records of decisions and of measurements."""
    names = {str(page.relative_to(ROOT)) for page in pages() if page != GLOSSARY}
    return sorted(
        name for name in names - WITHOUT_TERMS - reference.render_documents().keys() if not name.startswith(RECORDS)
    )


def linked_terms(page: Path) -> list[str]:
    targets = (link.partition("#") for link in links(page))
    return [anchor for name, _, anchor in targets if anchor and (page.parent / name).resolve() == GLOSSARY]


@pytest.mark.parametrize("name", hand_written())
def test_a_page_links_to_the_glossary(name: str) -> None:
    page = ROOT / name

    assert GLOSSARY in {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}


@pytest.mark.parametrize("name", hand_written())
def test_a_page_links_the_first_use_of_a_term_only(name: str) -> None:
    terms = linked_terms(ROOT / name)

    assert sorted(terms) == sorted(set(terms))


def test_every_term_is_defined_once_in_alphabetical_order() -> None:
    _title, *terms = HEADING.findall(FENCED.sub("", GLOSSARY.read_text()))

    assert len(terms) > 50
    assert terms == sorted(set(terms), key=str.casefold)


def test_a_definition_is_short() -> None:
    definitions = re.split(r"^## .+$", GLOSSARY.read_text(), flags=re.M)[1:]

    assert [text for text in definitions if not 5 <= len(text.split()) <= 60] == []
