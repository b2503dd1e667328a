"""Docstrings and comments are plain English: each names its subject and uses the words of the field.

The idioms below read strangely or hide the subject of a sentence. A hit is a sentence to rewrite; the limit leaves
room for the few that are right.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IDIOMS = re.compile(
    r"\b(who|whoever|whom|nobody|somebody|told|tells|said|says|hears?|heard|stands|stood|asked|asks|looked at"
    r"|looks at|goes on|gone on|going on|let in|lets in|by itself|by themselves|of its own|of their own|is there"
    r"|are there|comes to|at hand|in peace|for ever|afresh|anew|meanwhile|thrown|heeds?|wish(?:es)?|lives on)\b",
    re.IGNORECASE,
)
# The pronoun is right for people, and in an indirect question.
PEOPLE = re.compile(
    r"\b(people|persons?|operators?|users?|anyone|everyone|someone|developers?|readers?|engineers?|colleagues?"
    r"|reviewers?|approvers?|maintainers?|contributors?|auditors?|attackers?|those|and|or|by|see|knows?|records?"
    r"|recorded|shows?|find|to|on|of),? (who|whose|whom)\b",
    re.IGNORECASE,
)
DIRECTIVES = ("#!", "# noqa", "# type:", "# fmt")
# In percent of the docstrings, and of the comments, of each folder.
LIMITS = {"client": 2, "statecore": 2, "api": 2, "dashboard": 2, "tests": 2}


def is_unclear(text: str) -> bool:
    return bool(IDIOMS.search(PEOPLE.sub("", text)))


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(DIRECTIVES):
            yield token.start[0], token.string


@pytest.mark.parametrize("read", [docstrings, comments], ids=["docstrings", "comments"])
@pytest.mark.parametrize("folder", LIMITS)
def test_docstrings_and_comments_are_plain_english(folder, read) -> None:
    texts = [
        (f"{path.relative_to(ROOT)}:{line}: {text}", is_unclear(text))
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "migrations" not in path.parts
        for line, text in read(path.read_text())
    ]
    unclear = [text for text, hit in texts if hit]
    percent = 100 * len(unclear) / len(texts)
    assert percent <= LIMITS[folder], "\n".join([f"{percent:.1f} % of {len(texts)}; rewrite these:", *unclear])


@pytest.mark.parametrize(
    "text",
    [
        "Whoever holds the lock is told of it.",
        "A row that nobody reads any more.",
        "It goes on by itself.",
        "# for ever",
    ],
)
def test_an_idiom_is_found(text: str) -> None:
    assert is_unclear(text)


@pytest.mark.parametrize(
    "text",
    [
        "Returns the rows that another transaction has locked.",
        "An operator who may override.",
        "Records who made the transition and the whole reason.",
    ],
)
def test_a_plain_sentence_passes(text: str) -> None:
    assert not is_unclear(text)
