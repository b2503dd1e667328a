"""Parsers accept any input or refuse it in the documented way."""

from __future__ import annotations

import base64
import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.db.models import Exists, Q
from hypothesis import example, given, settings
from hypothesis import strategies as st

from statecore.api import pages
from statecore.api.filters import apply_filters, parse_time
from statecore.api.live import stream_params
from statecore.api.monitoring.journal import FILTERS
from statecore.api.request_body import decode_json
from statecore.dashboard.queries import search
from statecore.devtools.reference.settings import list_variables
from statecore.executors import allowed_commands, compensation_plan, diff
from statecore.executors.diff import Objection
from statecore.executors.errors import CommandRejected
from statecore.journal import Event as JournalEvent
from statecore.kernel import registry
from statecore.kernel.ids import id_prefix_after, is_valid_id, new_id
from statecore.kernel.refusals import Invalid, NotFound
from statecore.machines.task import Task
from statecore.operations import backup
from statecore.operations.backup.manifest import Manifest
from statecore.project import database_url, environment, redis_url
from statecore.project.refusal import Refused
from statecore.records import Patch
from tests.properties.parsing import (
    JSON,
    TEXT,
    few,
    finite,
    many,
    refusal_of,
    request_with_query,
)
from tests.properties.support import SETTINGS, rolled_back

pytestmark = pytest.mark.once_on("sqlite")

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)

# Searches of the console


def words(flow: Any) -> st.SearchStrategy[str]:
    names = st.sampled_from(["state", "nothing", "", *search.list_qualifiers(flow)])
    ages = st.from_regex(r"[<>]?[0-9]{0,7}[smhdx]?", fullmatch=True)
    values = st.one_of(TEXT, ages, st.sampled_from([*flow.states, "yes", "no", ">30m", "'", "%", "\\"]))
    return st.builds("{}{}{}".format, names, st.sampled_from([":", "", "::"]), values)


@pytest.mark.django_db
@pytest.mark.parametrize("flow", registry.flows(), ids=lambda flow: flow.entity_type)
def test_a_search_is_understood_or_complained_about_word_by_word(flow: Any) -> None:
    @settings(SETTINGS, max_examples=25)
    @given(st.lists(words(flow), max_size=3).map(" ".join))
    def holds(text: str) -> None:
        text = text.replace("\0", "")  # as the pages do with every query
        found = search.parse(text, flow, NOW)
        assert all(isinstance(each, Q | Exists) for each in found.conditions)
        assert set(found.states) <= set(flow.states)
        with rolled_back():
            list(flow.model.objects.filter(*found.conditions)[:1])

    holds()


@many
@given(TEXT | st.from_regex(r"[<>]?[0-9]{1,6}[smhd]", fullmatch=True))
def test_an_age_is_one_or_is_refused(text: str) -> None:
    complaint = refusal_of(ValueError, search.list_qualifiers(Task.flow)["age"], text, NOW)

    assert complaint is None or str(complaint)


# Input of the API


def tokens() -> st.SearchStrategy[str]:
    """Well-formed cursors of any content, and other texts."""
    parts = st.tuples(
        st.booleans() | JSON,
        st.sampled_from(["-created_at", "id", "x"]) | JSON,
        st.just("2026-01-05T08:00:00Z") | st.datetimes().map(str) | JSON,
        st.just("t1") | JSON,
    )
    made = (parts | JSON).map(lambda each: base64.urlsafe_b64encode(orjson.dumps(finite(each))).decode())
    return made | made.map(lambda text: text.rstrip("=")) | TEXT


@pytest.mark.django_db
@many
@given(tokens(), st.sampled_from(["-created_at", "id", "created_at", "-id"]))
def test_a_cursor_leads_to_a_page_or_to_none(text: str, ordering: str) -> None:
    asked = request_with_query(cursor=text, ordering=ordering)
    with rolled_back():
        refusal = refusal_of(NotFound, pages.paginate, asked, Task.objects.all(), list, "-created_at")

    assert refusal is None or refusal.detail == pages.BAD_CURSOR


@pytest.mark.django_db
@many
@given(st.dictionaries(st.sampled_from(["state", "id", "run", "created_after", "attempt", "is_critical", "x"]), TEXT))
def test_a_filter_is_understood_or_refused_by_its_name(asked: dict[str, str]) -> None:
    def read() -> None:
        list(apply_filters(Task.objects.all(), {name: [value] for name, value in asked.items()})[:1])

    with rolled_back():
        refusal = refusal_of(Invalid, read)

    assert refusal is None or refusal.facts["errors"].keys() <= asked.keys()


@many
@given(TEXT | st.datetimes().map(str) | st.datetimes(timezones=st.timezones()).map(datetime.isoformat))
@example("0001-01-01T00:00:00+14:00")
@example("9999-12-31T23:59:59-14:00")
def test_a_time_is_parsed_or_refused(text: str) -> None:
    complaint = refusal_of(ValueError, parse_time, text)

    assert str(complaint) if complaint else parse_time(text).tzinfo is UTC


@few
@given(TEXT | st.integers().map(str), TEXT | st.integers().map(str))
def test_the_place_in_a_log_is_a_number_or_is_refused(after: str, size: str) -> None:
    asked = request_with_query(after=after, page_size=size)
    refusal = refusal_of(Invalid, pages.paginate_log, asked, JournalEvent.objects.none())

    assert refusal is None or refusal.facts["errors"].keys() <= {"after", "page_size"}


@many
@given(st.dictionaries(st.sampled_from([*FILTERS, "after", "x"]), st.lists(TEXT, min_size=1, max_size=2)), TEXT)
def test_what_a_stream_is_asked_for_is_understood_or_refused(query: dict[str, list[str]], last: str) -> None:
    refusal = refusal_of(Invalid, stream_params.read, query, {"task"}, last)

    assert refusal.facts["errors"] if refusal else (stream_params.read(query, {"task"}, last).after or 0) >= 0


@many
@given(st.binary(max_size=80) | JSON.map(lambda each: orjson.dumps(finite(each))) | st.just(b"[" * 100_000))
def test_a_body_is_json_or_is_refused(raw: bytes) -> None:
    refusal = refusal_of(Invalid, decode_json, raw)

    assert refusal is None or "body" in refusal.facts["errors"]


# Diffs, plans, commands


LINES = st.sampled_from(
    [
        "--- a/x", "+++ b/x", "--- /dev/null", "+++ /dev/null", "@@ -1 +1 @@", "@@ -0,0 +1,2 @@", "+new", "-old",
        " same", "diff --git a/x b/x", "rename from x", "rename to ../y", "new file mode 120000", "index 0..1 100644",
        "\\ No newline", "GIT binary patch", "--- a/../x", "@@ -1,99999999999 +1 @@",
    ]
)  # fmt: skip


@many
@given(st.lists(LINES | TEXT, max_size=12).map("\n".join) | TEXT)
def test_a_diff_names_what_it_touches_or_is_objected_to(text: str) -> None:
    Patch(diff=text).touched_paths()
    objection = refusal_of(Objection, diff.read_paths, text)
    touched = [] if objection else diff.read_paths(text)

    assert str(objection).isprintable() if objection else touched
    assert all(".." not in path.split("/") and not path.startswith("/") for path in touched)


ACTIONS = st.fixed_dictionaries(
    {"action": st.sampled_from(["git_revert", "run_tests", "notify", "x"])},
    optional={
        "commit_sha": st.just("abcdef1") | JSON,
        "test_suite": st.just("unit") | JSON,
        "channels": JSON,
        "required": JSON,
    },
)
PLANS = st.fixed_dictionaries(
    {"compensation_type": st.sampled_from(["git_revert", "manual_fix", "skip"]) | JSON},
    optional={"actions": st.lists(ACTIONS | JSON, max_size=3) | JSON, "validation": JSON, "x": JSON},
)


@many
@given(PLANS | JSON)
def test_a_compensation_plan_is_one_or_is_refused_field_by_field(given_plan: Any) -> None:
    refusal = refusal_of(Invalid, compensation_plan.read_plan, given_plan, "abcdef1234")

    assert refusal is None or refusal.facts["errors"]


@many
@given(TEXT | st.lists(TEXT, max_size=3).map(" ".join).map("true {}".format))
def test_a_command_is_an_argument_list_or_is_not_run(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.conf.settings.STATECORE_GATE_COMMANDS", ("true",))
        refused = refusal_of(CommandRejected, allowed_commands.resolve_arguments, text)
        program = "" if refused else allowed_commands.resolve_arguments(text)[0]

    assert refused.exit_code in (126, 127) if refused else program.endswith("/true")


# Settings


def settings_of(name: str) -> st.SearchStrategy[str]:
    nearly = [
        "task.running=3600", "task.running=", "a=b,c", "pipeline_job=approval", "blocked_count=20", "0", "1", "-1", "٣",
        "9" * 30, "~nobody-of-that-name/x", "x" * 5_000,
        "sqlite:///x", "postgres://u:p@h:1/n", "postgres://[::1", "redis://h:99999/0", "unix:///x", "'", "\\",
        "pytest, /usr/bin/ruff", "a/b", "patch_ledger.committed->rolled_back",
    ]  # fmt: skip
    return st.tuples(st.just(name), TEXT.filter(lambda text: "\0" not in text) | st.sampled_from(nearly))


@settings(SETTINGS, max_examples=300)
@given(st.sampled_from([each.name for each in list_variables()]).flatmap(settings_of))
@example(("STATECORE_REPOSITORY", ">\x8d\n"))
def test_a_setting_is_taken_or_refused_by_its_name(pair: tuple[str, str]) -> None:
    name, value = pair
    refused = refusal_of(Refused, environment.read, {name: value})

    assert refused is None or (name in refused.sentence and refused.sentence.isprintable())


@many
@given(TEXT | TEXT.map("postgres://{}".format) | TEXT.map("redis://{}".format) | TEXT.map("sqlite://{}".format))
def test_an_address_is_one_or_is_refused(url: str) -> None:
    for name, read in (("DATABASE_URL", database_url.parse), ("REDIS_URL", redis_url.check)):
        problem = refusal_of(ValueError, read, url)
        refused = refusal_of(Refused, environment.read, {name: url})
        assert (problem is None) or (refused is not None) or not url
        assert refused is None or name in refused.sentence


# Exports and ids


FIELDS = dict.fromkeys(Manifest.__dataclass_fields__, JSON)
MANIFESTS = st.fixed_dictionaries(
    {**FIELDS, "format": st.just(1) | JSON, "first_position": st.just(1) | JSON, "previous": st.none() | JSON,
     "files": st.dictionaries(st.sampled_from(["events.jsonl.gz", "x"]) | TEXT, JSON, max_size=3) | JSON},
    optional={"x": JSON},
)  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_an_invalid_manifest_restores_nothing_and_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "export-1"
    folder.mkdir()
    for name in ("events.jsonl.gz", "waiting.jsonl.gz"):
        (folder / name).write_bytes(gzip.compress(b""))

    @settings(SETTINGS, max_examples=80)
    @given(MANIFESTS.map(finite).map(orjson.dumps) | JSON.map(finite).map(orjson.dumps) | st.binary(max_size=40))
    def holds(written: bytes) -> None:
        (folder / "manifest.json").write_bytes(written)
        with pytest.raises(backup.RestoreFailed):
            backup.restore(tmp_path)

    holds()


@many
@given(JSON | st.from_regex(r"evt_[0-9A-Z]{0,30}", fullmatch=True))
def test_an_id_is_one_or_is_not(text: Any) -> None:
    assert is_valid_id(text) in (True, False)


@few
@given(st.integers(0, 10**9))
def test_an_id_that_is_made_later_sorts_later(milliseconds: int) -> None:
    made = new_id("evt")

    assert is_valid_id(made)
    assert id_prefix_after(made, milliseconds) >= id_prefix_after(made, 0)
    assert made.startswith(id_prefix_after(made, 0))
