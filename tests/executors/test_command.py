"""One command: how it is started, what is kept of it, and that nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from statecore.executors import allowed, command
from statecore.executors.off import Off
from statecore.executors.output import Output
from tests.support.waiting import until

HANGS = "import time; time.sleep(600)"
# Starts a child that leaves the group, notes both, and hangs.
FAMILY = """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.{term})
for name in ("near", "far"):
    if os.fork() == 0:
        if name == "far":
            os.setsid()
        pathlib.Path(name).write_text(str(os.getpid()))
        time.sleep(600)
time.sleep(600 if {hangs} else 0)
"""


def run(script: str, folder: Path, timeout: float = 60.0, **given) -> command.Result:
    return command.run([sys.executable, "-c", script], folder=folder, timeout=timeout, **given)


def family(*, hangs: bool = True, term: str = "SIG_DFL") -> str:
    wait = "while not all(pathlib.Path(n).exists() and pathlib.Path(n).read_text() for n in ('near','far')): pass\n"
    return FAMILY.format(hangs=hangs, term=term).replace("time.sleep(600 if", f"{wait}time.sleep(600 if")


def members(folder: Path) -> list[int]:
    return [int((folder / name).read_text()) for name in ("near", "far")]


def all_there(folder: Path) -> bool:
    """Each has said who it is: a file is there before anything is in it."""
    return all((folder / name).exists() and (folder / name).read_text() for name in ("near", "far"))


def all_gone(pids: list[int]) -> bool:
    return not any(map(_is_at_work, pids))


def _is_at_work(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_command_may_be_given_years(tmp_path) -> None:
    assert run("print('done')", tmp_path, timeout=2.0**31).exit_code == 0


def test_a_command_tells_its_exit_code_and_both_outputs(tmp_path) -> None:
    result = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)

    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert result.ran
    assert result.duration_sec > 0


def test_a_command_runs_in_its_folder(tmp_path) -> None:
    assert run("import os; print(os.getcwd())", tmp_path).stdout.strip() == str(tmp_path.resolve())


def test_a_command_sees_nothing_secret(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("STATECORE_SECRET_KEY", "hush")
    monkeypatch.setenv("DATABASE_URL", "postgres://user:hush@host/name")

    seen = run("import os; print(sorted(os.environ), os.environ['HOME'])", tmp_path).stdout

    assert seen.startswith("['HOME', 'LANG', 'PATH']")
    assert os.environ["HOME"] not in seen.split()


def test_a_command_has_no_open_files_of_ours(tmp_path) -> None:
    held = (tmp_path / "held").open("w")

    seen = run("import os; print(os.listdir('/proc/self/fd'))", tmp_path, keep=[held.fileno()]).stdout

    assert seen.strip() == "['0', '1', '2', '3']"  # the last is the listing itself
    held.close()


def test_a_signal_counts_as_a_shell_counts_it(tmp_path) -> None:
    assert run("import os; os.kill(os.getpid(), 9)", tmp_path).exit_code == 137


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_command_starts_with_no_signal_ignored(tmp_path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        status = command.run(["/bin/cat", "/proc/self/status"], folder=tmp_path, timeout=60).stdout
    finally:
        signal.signal(signal.SIGHUP, before)

    assert "SigIgn:\t0000000000000000\n" in status


def test_a_program_that_cannot_be_run_is_said_like_a_shell_says_it(tmp_path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("not a program")

    missing = command.run([str(tmp_path / "missing")], folder=tmp_path, timeout=60)
    not_executable = command.run([str(plain)], folder=tmp_path, timeout=60)
    nowhere = command.run([sys.executable], folder=tmp_path / "missing", timeout=60)

    assert (missing.exit_code, "No such file" in missing.stderr) == (127, True)
    assert (not_executable.exit_code, "Permission denied" in not_executable.stderr) == (126, True)
    assert (nowhere.exit_code, nowhere.ran) == (126, False)


def test_what_a_command_is_fed_it_may_read_or_not(tmp_path) -> None:
    assert run("import sys; print(sys.stdin.read())", tmp_path, feed="words").stdout == "words\n"
    assert run("print('deaf')", tmp_path, feed="x" * 1_000_000).stdout == "deaf\n"
    assert run("import sys; print(repr(sys.stdin.read()))", tmp_path).stdout == "''\n"


def test_output_is_bounded_and_says_how_much_is_missing(tmp_path) -> None:
    result = run("import sys; sys.stdout.write('a' * 500_000 + 'b' * 500_000)", tmp_path)

    assert len(result.stdout) < 70_000
    assert result.stdout.startswith("aaa")
    assert result.stdout.endswith("bbb")
    assert f"{1_000_000 - 65_536} bytes left out" in result.stdout


def test_output_is_text_that_both_databases_keep(tmp_path) -> None:
    result = run(r"import sys; sys.stdout.buffer.write(b'\0a\xff\xfeb\0')", tmp_path)

    assert result.stdout == "a��b"


@pytest.mark.parametrize("sizes", [[10], [3, 4, 3], [1] * 30, [25, 1], [40, 40]])
def test_the_beginning_and_the_end_are_kept_however_it_arrives(sizes) -> None:
    said = bytes(65 + n % 26 for n in range(sum(sizes)))
    output = Output(limit=20)
    start = 0
    for size in sizes:
        output.add(said[start : start + size])
        start += size

    text = output.text()

    if len(said) <= 20:
        assert text == said.decode()
    else:
        left_out = len(said) - 20
        assert text == f"{said[:10].decode()}\n… {left_out} bytes left out …\n{said[-10:].decode()}"


@pytest.mark.parametrize("term", ["SIG_DFL", "SIG_IGN"])
def test_a_time_out_ends_the_command_and_all_it_started(tmp_path, term) -> None:
    result = run(family(term=term), tmp_path, timeout=2.0)

    assert result.timed_out
    assert all_gone(members(tmp_path))
    assert 2.0 <= result.duration_sec < 15.0


def test_a_command_that_closed_its_output_is_timed_out_too(tmp_path) -> None:
    assert run("import os, time; os.close(1); os.close(2); time.sleep(600)", tmp_path, timeout=0.5).timed_out


def test_what_a_command_leaves_running_ends_with_it(tmp_path) -> None:
    result = run(family(hangs=False), tmp_path)

    assert result.exit_code == 0
    assert all_gone(members(tmp_path))


RUNNER = """
import sys
from pathlib import Path
import django
django.setup()
from statecore.executors import command
command.run([sys.executable, "-c", sys.argv[1]], folder=Path(sys.argv[2]), timeout=600)
"""


def test_a_killed_runner_leaves_no_process_behind(tmp_path) -> None:
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, family(), str(tmp_path)])
    until(lambda: all_there(tmp_path))

    os.kill(runner.pid, signal.SIGKILL)

    assert runner.wait(20) == -signal.SIGKILL
    until(lambda: all_gone(members(tmp_path)))


def test_a_worker_that_is_asked_to_stop_ends_what_it_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(command, "runners", command.Runners())
    results: list[command.Result] = []
    thread = threading.Thread(target=lambda: results.append(run(family(), tmp_path)))
    thread.start()
    until(lambda: all_there(tmp_path))

    command.runners.stop()
    thread.join(20)

    assert (results[0].stopped, results[0].timed_out, results[0].told()) == (True, False, "was stopped")
    until(lambda: all_gone(members(tmp_path)))
    assert run("print()", tmp_path).stopped, "nothing is started any more"


def test_a_stop_that_comes_while_a_command_is_about_to_start_is_not_missed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(command, "runners", command.Runners())

    class Slow(command.Control):
        def __init__(self) -> None:
            super().__init__()
            command.runners.stop()

    monkeypatch.setattr(command, "Control", Slow)
    result = run(f"open({str(tmp_path / 'trace')!r}, 'w')", tmp_path)

    assert (result.stopped, result.ran) == (True, False)
    assert not (tmp_path / "trace").exists()


def test_an_allowed_program_is_found_once_and_run_by_its_path(commands) -> None:
    assert allowed.arguments(f"{sys.executable} -c 'print(1 + 1)'") == [sys.executable, "-c", "print(1 + 1)"]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("rm -rf /", 126, "rm is not among"),
        ("./python -c 1", 126, "./python is not among"),
        ("python 'unclosed", 126, "cannot be read: No closing quotation"),
        ("", 126, "empty"),
        ("nowhere-to-be-found --now", 127, "no such program here"),
    ],
)
def test_any_other_command_is_not_run_and_says_why(commands, text, code, said) -> None:
    with pytest.raises(allowed.NotAllowed, match=said) as refused:
        allowed.arguments(text)

    assert refused.value.exit_code == code


def test_a_shell_is_not_at_work(commands, tmp_path) -> None:
    words = allowed.arguments(f"{sys.executable} -c 'import sys; print(sys.argv[1:])' $HOME ; > x && y | z")

    assert command.run(words, folder=tmp_path, timeout=60).stdout == "['$HOME', ';', '>', 'x', '&&', 'y', '|', 'z']\n"


def test_nothing_runs_until_an_operator_allows_it(settings) -> None:
    settings.STATECORE_GATE_COMMANDS = ()

    with pytest.raises(Off, match="STATECORE_GATE_COMMANDS names no program"):
        allowed.arguments("python")
