"""A history that was rewritten with recomputed hashes is found against a checkpoint, and placed by a journal file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from statecore.delivery.sinks.journal_file import JournalFile
from statecore.journal import Position
from statecore.kernel.ids import new_id
from statecore.operations import backup, integrity
from tests.integrity.rewriting import Forgery, Members, delete_checkpoints, read_history, rewrite
from tests.properties.support import SETTINGS, rolled_back
from tests.support import world
from tests.support.sequencer import catch_up, sign

pytestmark = pytest.mark.django_db(transaction=True)

SOME = settings(SETTINGS, max_examples=15)
INDEX = st.integers(0, 10**6)


@pytest.fixture
def copies(home: Path, tmp_path: Path) -> Path:
    """A folder with the checkpoint and the journal file of a history of several entities."""
    for number in range(3):
        world.forced(world.created("CircuitBreaker", id=f"tool-{number}"), "OPEN")
        world.forced(world.run(), "failed")
    catch_up(JournalFile())
    sign()
    for name in ("checkpoint", "transitions.jsonl"):
        (home / name).rename(tmp_path / name)
    assert integrity.check_all() == []
    return tmp_path


def find_first_change(before: list[Members], after: list[Members]) -> int:
    """Returns the first position with other content; hashes follow from it."""
    pairs = zip(before, after, strict=False)
    return next((at for at, (old, new) in enumerate(pairs, 1) if old != new), min(len(before), len(after)) + 1)


def assert_found(copies: Path, change: Any) -> None:
    """Rewrites the history and asserts that both copies reveal it."""
    before = [dict(forgery.members) for forgery in read_history()]
    with rolled_back():
        rewrite(change)
        delete_checkpoints()
        after = [dict(forgery.members) for forgery in read_history()]
        assume(before != after)
        (finding,) = backup.compare(copies / "checkpoint")
        assert finding.check == "checkpoint"
        differing = backup.compare(copies / "transitions.jsonl")
        if len(after) >= len(before) or find_first_change(before, after) <= len(after):
            (place,) = differing
            assert f"position {find_first_change(before, after)} " in re.sub(r"[;:]", " ", place.detail)


def test_an_edited_event_is_found(copies: Path) -> None:
    @SOME
    @given(which=INDEX, name=st.sampled_from(["actor", "severity", "to_state", "reason", "operator"]), text=st.text())
    def edit(which: int, name: str, text: str) -> None:
        def change(history: list[Forgery]) -> None:
            members = history[which % len(history)].members
            (members if name in members else members["details"])[name] = re.sub(r"[^a-z]", "x", text)[:12]

        assert_found(copies, change)

    edit()


def test_a_deleted_event_is_found(copies: Path) -> None:
    @SOME
    @given(which=INDEX, length=st.integers(1, 4))
    def delete(which: int, length: int) -> None:
        def change(history: list[Forgery]) -> None:
            start = which % len(history)
            del history[start : start + length]

        assert_found(copies, change)

    delete()


def test_an_inserted_event_is_found(copies: Path) -> None:
    @SOME
    @given(which=INDEX, where=INDEX)
    def insert(which: int, where: int) -> None:
        def change(history: list[Forgery]) -> None:
            copied = history[which % len(history)].members
            history.insert(where % len(history), Forgery({**copied, "event_id": new_id("evt")}))

        assert_found(copies, change)

    insert()


def test_reordered_events_are_found(copies: Path) -> None:
    @SOME
    @given(one=INDEX, two=INDEX)
    def swap(one: int, two: int) -> None:
        def change(history: list[Forgery]) -> None:
            first, second = one % len(history), two % len(history)
            history[first], history[second] = history[second], history[first]

        assert_found(copies, change)

    swap()


def test_a_wholly_rewritten_history_is_found(copies: Path) -> None:
    @SOME
    @given(order=st.permutations(range(Position.objects.count())), actor=st.sampled_from(["mallory", "bob"]))
    def replace(order: list[int], actor: str) -> None:
        def change(history: list[Forgery]) -> None:
            history[:] = [Forgery({**history[at].members, "actor": actor}) for at in order]

        assert_found(copies, change)

    replace()
