"""Processes report that they run, sign off at their end, and become silent if they are killed."""

import os
import signal
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from django.test import Client
from prometheus_client import CollectorRegistry

from statecore.kernel.clock import now
from statecore.operations import process_metrics
from statecore.operations.process_reporter import HOST, ProcessReporter, measure_memory
from statecore.records import ProcessReport, process_report
from tests.support import sequencer
from tests.support.waiting import until

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_reports_of_other_processes")]


def gone() -> int:
    """Returns a number that no process has."""
    return next(pid for pid in range(4_000_000, 5_000_000) if not psutil.pid_exists(pid))


def reported(seconds_ago: float = 0, **values: object) -> ProcessReport:
    at = now() - timedelta(seconds=seconds_ago)
    given = {"role": "worker", "name": "worker", "host": "east", "pid": 7, "version": "1", **values}
    return ProcessReport.objects.create(started_at=at, reported_at=at, **given)


def test_a_report_has_what_an_operator_wants_to_know() -> None:
    ProcessReporter("webhooks", "webhooks-2").report()

    (report,) = process_report.list_processes()
    assert (report.role, report.name, report.pid) == ("webhooks", "webhooks-2", os.getpid())
    assert report.memory_bytes > 10_000_000
    assert not report.is_silent(now())


def test_a_process_with_too_much_memory_ends_as_by_a_signal_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    reporter = ProcessReporter("webhooks")
    reporter.report()
    for limit in (0, 1 << 40, 1 << 20):
        reporter.max_memory = limit
        reporter._limit_memory()
    reporter._limit_memory()

    assert sent == [(os.getpid(), signal.SIGTERM)]


def test_a_second_report_keeps_the_start() -> None:
    reporter = ProcessReporter("beat")
    reporter.report()
    before = ProcessReport.objects.get()
    reporter.report()

    after = ProcessReport.objects.get()
    assert after.started_at == before.started_at
    assert after.reported_at > before.reported_at


def test_a_process_replaces_the_one_that_was_killed_and_no_other() -> None:
    mine = ProcessReporter("worker")
    host = {"host": HOST}
    reported(60, pid=gone(), **host)
    living, elsewhere = reported(60, pid=os.getppid(), **host), reported(60, host="west")
    mine.report()

    assert set(ProcessReport.objects.exclude(pid=os.getpid())) == {living, elsewhere}


def test_each_restart_after_a_crash_is_counted_until_one_lives_long(client: Client, redis_server: str) -> None:
    pids = [gone() + number for number in range(4)]
    assert not any(map(psutil.pid_exists, pids))
    for number, pid in enumerate(pids):
        # As the supervisor does, for a process that dies before or after its first report.
        process_report.record_end("beat", pid, "exited with code 3")
        assert ProcessReport.objects.get().restarts == number
    ProcessReporter("beat").report()

    report = ProcessReport.objects.get()
    assert (report.pid, report.restarts, report.last_exit) == (os.getpid(), 4, "exited with code 3")
    reasons = client.get("/readyz").json()["reasons"]
    assert reasons["processes"] == "beat was started again 4 times, the last time because it exited with code 3."

    ProcessReport.objects.update(pid=pids[0], started_at=now() - timedelta(hours=2))
    ProcessReporter("beat").report()
    assert ProcessReport.objects.get().restarts == 1


def test_silent_processes_are_selected_and_later_forgotten() -> None:
    reported(1, pid=1)
    silent, old = reported(30, pid=2), reported(7_200, pid=3)

    assert {each for each in process_report.list_processes() if each.is_silent(now())} == {silent, old}
    assert process_report.forget() == 1


def test_metrics_name_processes_that_are_silent() -> None:
    reported(1, pid=1, memory_bytes=5), reported(30, role="beat", name="beat", pid=2)
    registry = CollectorRegistry()
    registry.register(process_metrics.ProcessUp())
    registry.register(process_metrics.ProcessMemory())

    worker, beat = ({"role": each, "name": each, "host": "east"} for each in ("worker", "beat"))
    assert registry.get_sample_value("statecore_process_up", worker) == 1
    assert registry.get_sample_value("statecore_process_up", beat) == 0
    assert registry.get_sample_value("statecore_process_memory_bytes", worker) == 5


def test_a_worker_reports_again_after_its_timers_were_lost() -> None:
    calls: list[object] = []
    timer = SimpleNamespace(call_repeatedly=lambda _seconds, call: calls.append(call) or call, cancel=calls.remove)
    reporter = ProcessReporter("executors")
    reporter._report_and_disconnect = reporter.report  # type: ignore[method-assign]  # keeps the test's transaction
    reporter.report_by(timer)
    reporter.report_by(timer)

    assert len(calls) == 1
    assert ProcessReport.objects.count() == 1


def test_memory_counts_shared_pages_once() -> None:
    process = psutil.Process()
    assert 0 < measure_memory() <= sum(each.memory_info().rss for each in [process, *process.children()])


@pytest.mark.django_db(transaction=True)
def test_a_process_signs_off_unless_it_is_killed(home: Path) -> None:
    with sequencer.running(home) as first:
        until(ProcessReport.objects.exists)
        assert sequencer.end(first, signal.SIGTERM) == 0
        assert not ProcessReport.objects.exists()
    with sequencer.running(home) as second:
        until(ProcessReport.objects.exists)
        sequencer.end(second, signal.SIGKILL)
        assert ProcessReport.objects.get().pid == second.pid
