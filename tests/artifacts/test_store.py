"""The store: contents are kept exactly as long as an artifact has them, whatever is done at the same time."""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statecore.artifacts import changes, retention, store
from statecore.artifacts.changes import Place
from statecore.artifacts.disk import DiskStorage
from statecore.artifacts.upload import Upload
from statecore.kernel import clock
from statecore.kernel.refusals import NotFound, StorageUnavailable
from statecore.machines.task import Task
from statecore.operations import integrity
from statecore.records import Artifact, ArtifactContent
from tests.artifacts.calls import files_in, stored_contents
from tests.support import world
from tests.support.together import run_concurrently

pytestmark = pytest.mark.usefixtures("machines_in_isolation")


def put(task: str, name: str, content: bytes) -> Any:
    upload = Upload(io.BytesIO(content), hashlib.sha256(content).hexdigest(), len(content))
    return changes.put(Place(task, name, world.operator(), None), upload)


def delete(task: str, name: str) -> None:
    changes.delete(Place(task, name, world.operator(), None))


def contents() -> dict[tuple[str, str], bytes]:
    found = {}
    for each in Artifact.objects.select_related("content"):
        with store.open_content(each.content.name) as file:
            found[each.task_id, each.name] = file.read()
    return found


def collect_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collects as after two hours."""
    retention.collect()
    with monkeypatch.context() as patched:
        patched.setattr(clock, "_offset", timedelta(hours=2))
        retention.collect()


TASKS, NAMES, CONTENTS = ("t0", "t1"), ("x", "y"), (b"", b"one", b"two", b"three" * 1_000)
PLACES = st.tuples(st.sampled_from(TASKS), st.sampled_from(NAMES))
DEEDS = st.one_of(
    st.tuples(st.just("put"), PLACES, st.sampled_from(CONTENTS)),
    st.tuples(st.just("delete"), PLACES),
    st.tuples(st.just("collect")),
)


@pytest.mark.django_db
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=st.lists(DEEDS, max_size=12))
def test_the_store_has_what_was_put_and_nothing_else(
    deeds: list[Any], storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _empty(storage)
    expected: dict[tuple[str, str], bytes] = {}
    for deed, *args in deeds:
        if deed == "put":
            is_new = put(*args[0], args[1]).is_new
            assert is_new == (args[0] not in expected)
            expected[args[0]] = args[1]
        elif deed == "delete" and args[0] in expected:
            delete(*args[0])
            del expected[args[0]]
        elif deed == "delete":
            with pytest.raises(NotFound):
                delete(*args[0])
        else:
            collect_all(monkeypatch)
        assert contents() == expected
    collect_all(monkeypatch)
    assert contents() == expected
    assert sorted(files_in(storage).values()) == sorted(set(expected.values()))
    assert files_in(storage).keys() == stored_contents().keys()
    assert integrity.check_entity("task", "t0") == []


def _empty(storage: Path) -> None:
    Artifact.objects.all().delete()
    ArtifactContent.objects.all().delete()
    shutil.rmtree(storage, ignore_errors=True)
    for pk in TASKS:
        if not Task.objects.filter(pk=pk).exists():
            world.task(id=pk)


def test_a_content_put_replaced_deleted_and_collected_at_the_same_time_is_never_lost(
    transactional_db: None, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "REMOVAL_DELAY", timedelta(milliseconds=500))
    tasks = [world.task(id=f"t{number}").pk for number in range(4)]
    ends, done = dict.fromkeys(tasks, b""), list[str]()

    def work(task: str) -> None:
        for number in range(15):
            ends[task] = (b"same", b"other")[number % 3 == 1]
            put(task, "x", ends[task])
            if number % 3 == 2:
                delete(task, "x")
                put(task, "x", ends[task])
        done.append(task)

    def sweep() -> None:
        while len(done) < len(tasks):
            retention.collect()

    answers = run_concurrently([*(_bind(work, task) for task in tasks), sweep, sweep])

    assert answers == [None] * 6
    assert contents() == {(task, "x"): content for task, content in ends.items()}
    collect_all(monkeypatch)
    assert sorted(files_in(storage).values()) == sorted(set(ends.values()))


def _bind(work: Callable[[str], None], task: str) -> Callable[[], None]:
    return lambda: work(task)


class FullStorage(DiskStorage):
    """Has room for the beginning of a file only, as when the process is killed or the disk is full."""

    def _save(self, name: str, content: Any) -> str:
        path = Path(self.path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.read(2))
        raise OSError(28, "No space left on device")


@pytest.mark.django_db
def test_what_an_interrupted_upload_leaves_is_collected(
    storage: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.task(id="t0")
    full = {"BACKEND": f"{__name__}.FullStorage", "OPTIONS": {"location": str(storage)}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": full}
    with pytest.raises(StorageUnavailable):
        put("t0", "x", b"content")
    assert list(files_in(storage).values()) == [b"co"]
    assert (Artifact.objects.count(), list(stored_contents().values())) == (0, [""])

    collect_all(monkeypatch)

    assert (files_in(storage), stored_contents()) == ({}, {})


@pytest.mark.django_db
def test_an_upload_that_takes_longer_than_the_delay_is_refused(storage: Path, settings: Any) -> None:
    """The collector takes the file away while it is saved."""
    world.task(id="t0")
    slow = {"BACKEND": f"{__name__}.SlowStorage", "OPTIONS": {"location": str(storage)}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": slow}
    with pytest.raises(StorageUnavailable, match="removed while it was stored"):
        put("t0", "x", b"content")
    assert (files_in(storage), stored_contents()) == ({}, {})


class SlowStorage(DiskStorage):
    def _save(self, name: str, content: Any) -> str:
        saved = super()._save(name, content)
        ArtifactContent.objects.update(changed_at=clock.now() - timedelta(hours=2))
        retention.collect()
        return saved


@pytest.mark.django_db
def test_artifacts_are_deleted_some_days_after_the_end_of_their_task(
    storage: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STATECORE_ARTIFACT_DAYS = 30
    ended, live = world.forced(world.task(id="t0"), "completed"), world.task(id="t1")
    for task in (ended, live):
        put(task.pk, "x", b"same")
        put(task.pk, "y", task.pk.encode())
    assert retention.expire() == 0
    monkeypatch.setattr(clock, "_offset", timedelta(days=31))
    assert retention.expire() == 2
    collect_all(monkeypatch)
    monkeypatch.setattr(clock, "_offset", timedelta(days=32))
    retention.collect()
    assert contents() == {("t1", "x"): b"same", ("t1", "y"): b"t1"}
    assert sorted(files_in(storage).values()) == [b"same", b"t1"]
    settings.STATECORE_ARTIFACT_DAYS = 0
    assert retention.expire() == 0


@pytest.mark.django_db
def test_any_storage_of_django_keeps_contents(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world.task(id="t0")
    other = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path / "other")}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": other}
    put("t0", "x", b"one")
    put("t0", "x", b"two")
    assert contents() == {("t0", "x"): b"two"}
    collect_all(monkeypatch)
    assert list(files_in(tmp_path / "other").values()) == [b"two"]


@pytest.mark.django_db
def test_files_are_private(storage: Path) -> None:
    world.task(id="t0")
    put("t0", "x", b"one")
    modes = {path.stat().st_mode & 0o777 for path in [storage, *storage.rglob("*")]}
    assert modes == {0o700, 0o600}
