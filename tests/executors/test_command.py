"""One command: its environment, its stored output, and the end of all its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from statecore.executors import allowed_commands, command
from statecore.executors.errors import CommandRejected, NotEnabled
from statecore_client.processes.output import Output
from tests.support.waiting import until

pytestmark = pytest.mark.once_on("sqlite")  # they use no database

HANGS = "import time; time.sleep(600)"
# Starts two children, one of them in another process group, writes both pids, and hangs.
SCRIPT_WITH_CHILDREN = """
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


def script_with_children(*, hangs: bool = True, term: str = "SIG_DFL") -> str:
    wait = "while not all(pathlib.Path(n).exists() and pathlib.Path(n).read_text() for n in ('near','far')): pass\n"
    return SCRIPT_WITH_CHILDREN.format(hangs=hangs, term=term).replace("time.sleep(600 if", f"{wait}time.sleep(600 if")


def child_pids(folder: Path) -> list[int]:
    return [int((folder / name).read_text()) for name in ("near", "far")]


def have_started(folder: Path) -> bool:
    """Whether each child has written its pid; a file may exist while it is still empty."""
    return all((folder / name).exists() and (folder / name).read_text() for name in ("near", "far"))


def have_ended(pids: list[int]) -> bool:
    return not any(map(_is_running, pids))


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_timeout_of_many_years_works(tmp_path) -> None:
    assert run("print('done')", tmp_path, timeout=2.0**31).exit_code == 0


def test_a_command_returns_its_exit_code_and_both_outputs(tmp_path) -> None:
    result = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)

    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert result.ran
    assert result.duration_sec > 0


def test_a_command_runs_in_its_folder(tmp_path) -> None:
    assert run("import os; print(os.getcwd())", tmp_path).stdout.strip() == str(tmp_path.resolve())


def test_a_command_inherits_no_secrets(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("STATECORE_SECRET_KEY", "hush")
    monkeypatch.setenv("DATABASE_URL", "postgres://user:hush@host/name")

    seen = run("import os; print(sorted(os.environ), os.environ['HOME'])", tmp_path).stdout

    assert seen.startswith("['HOME', 'LANG', 'PATH']")
    assert os.environ["HOME"] not in seen.split()


def test_a_command_inherits_no_open_files(tmp_path) -> None:
    held = (tmp_path / "held").open("w")

    seen = run("import os; print(os.listdir('/proc/self/fd'))", tmp_path, keep=[held.fileno()]).stdout

    assert seen.strip() == "['0', '1', '2', '3']"  # the last one is the directory listing itself
    held.close()


def test_a_signal_gives_the_exit_code_of_a_shell(tmp_path) -> None:
    assert run("import os; os.kill(os.getpid(), 9)", tmp_path).exit_code == 137


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_command_starts_with_no_signal_ignored(tmp_path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as with nohup
    try:
        status = command.run(["/bin/cat", "/proc/self/status"], folder=tmp_path, timeout=60).stdout
    finally:
        signal.signal(signal.SIGHUP, before)

    assert "SigIgn:\t0000000000000000\n" in status


def test_a_program_that_cannot_run_gives_the_exit_code_of_a_shell(tmp_path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("not a program")

    missing = command.run([str(tmp_path / "missing")], folder=tmp_path, timeout=60)
    not_executable = command.run([str(plain)], folder=tmp_path, timeout=60)
    nowhere = command.run([sys.executable], folder=tmp_path / "missing", timeout=60)

    assert (missing.exit_code, "No such file" in missing.stderr) == (127, True)
    assert (not_executable.exit_code, "Permission denied" in not_executable.stderr) == (126, True)
    assert (nowhere.exit_code, nowhere.ran) == (126, False)


def test_a_command_may_ignore_its_standard_input(tmp_path) -> None:
    assert run("import sys; print(sys.stdin.read())", tmp_path, feed="words").stdout == "words\n"
    assert run("print('deaf')", tmp_path, feed="x" * 1_000_000).stdout == "deaf\n"
    assert run("import sys; print(repr(sys.stdin.read()))", tmp_path).stdout == "''\n"


def test_output_is_truncated_with_a_note_of_the_omitted_bytes(tmp_path) -> None:
    result = run("import sys; sys.stdout.write('a' * 500_000 + 'b' * 500_000)", tmp_path)

    assert len(result.stdout) < 70_000
    assert result.stdout.startswith("aaa")
    assert result.stdout.endswith("bbb")
    assert f"{1_000_000 - 65_536} bytes omitted" in result.stdout


def test_output_is_text_that_both_databases_can_store(tmp_path) -> None:
    result = run(r"import sys; sys.stdout.buffer.write(b'\0a\xff\xfeb\0')", tmp_path)

    assert result.stdout == "a��b"


@pytest.mark.parametrize("sizes", [[10], [3, 4, 3], [1] * 30, [25, 1], [40, 40]])
def test_the_beginning_and_the_end_are_kept_for_any_chunk_size(sizes) -> None:
    data = bytes(65 + n % 26 for n in range(sum(sizes)))
    output = Output(limit=20)
    start = 0
    for size in sizes:
        output.add(data[start : start + size])
        start += size

    text = output.text()

    if len(data) <= 20:
        assert text == data.decode()
    else:
        left_out = len(data) - 20
        assert text == f"{data[:10].decode()}\n… {left_out} bytes omitted …\n{data[-10:].decode()}"


@pytest.mark.parametrize("term", ["SIG_DFL", "SIG_IGN"])
def test_a_timeout_kills_the_command_and_its_children(tmp_path, term) -> None:
    result = run(script_with_children(term=term), tmp_path, timeout=2.0)

    assert result.timed_out
    assert have_ended(child_pids(tmp_path))
    assert 2.0 <= result.duration_sec < 15.0


def test_a_command_that_closed_its_output_times_out(tmp_path) -> None:
    assert run("import os, time; os.close(1); os.close(2); time.sleep(600)", tmp_path, timeout=0.5).timed_out


def test_background_processes_end_with_their_command(tmp_path) -> None:
    result = run(script_with_children(hangs=False), tmp_path)

    assert result.exit_code == 0
    assert have_ended(child_pids(tmp_path))


RUNNER = """
import sys
from pathlib import Path
import django
django.setup()
from statecore.executors import command
command.run([sys.executable, "-c", sys.argv[1]], folder=Path(sys.argv[2]), timeout=600)
"""


def test_a_killed_runner_leaves_no_process_behind(tmp_path) -> None:
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, script_with_children(), str(tmp_path)])
    until(lambda: have_started(tmp_path))

    os.kill(runner.pid, signal.SIGKILL)

    assert runner.wait(20) == -signal.SIGKILL
    until(lambda: have_ended(child_pids(tmp_path)))


def test_stopping_a_worker_kills_its_running_command(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(command, "runners", command.Runners())
    results: list[command.Result] = []
    thread = threading.Thread(target=lambda: results.append(run(script_with_children(), tmp_path)))
    thread.start()
    until(lambda: have_started(tmp_path))

    command.runners.stop()
    thread.join(20)

    assert (results[0].stopped, results[0].timed_out, results[0].describe()) == (True, False, "was stopped")
    until(lambda: have_ended(child_pids(tmp_path)))
    assert run("print()", tmp_path).stopped, "no further command is started"


def test_a_stop_just_before_a_command_starts_is_not_missed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(command, "runners", command.Runners())

    class Slow(command.Control):
        def __init__(self) -> None:
            super().__init__()
            command.runners.stop()

    monkeypatch.setattr(command, "Control", Slow)
    result = run(f"open({str(tmp_path / 'trace')!r}, 'w')", tmp_path)

    assert (result.stopped, result.ran) == (True, False)
    assert not (tmp_path / "trace").exists()


def test_an_allowed_program_is_run_by_its_path(commands) -> None:
    assert allowed_commands.resolve_arguments(f"{sys.executable} -c 'print(1 + 1)'") == [
        sys.executable,
        "-c",
        "print(1 + 1)",
    ]


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("rm -rf /", 126, "rm is not allowed"),
        ("./python -c 1", 126, "./python is not allowed"),
        ("python 'unclosed", 126, "cannot be parsed: No closing quotation"),
        ("", 126, "empty"),
        ("nowhere-to-be-found --now", 127, "not found on this host"),
    ],
)
def test_any_other_command_is_refused_with_a_reason(commands, text, code, reason) -> None:
    with pytest.raises(CommandRejected, match=reason) as refused:
        allowed_commands.resolve_arguments(text)

    assert refused.value.exit_code == code


def test_commands_run_without_a_shell(commands, tmp_path) -> None:
    words = allowed_commands.resolve_arguments(
        f"{sys.executable} -c 'import sys; print(sys.argv[1:])' $HOME ; > x && y | z"
    )

    assert command.run(words, folder=tmp_path, timeout=60).stdout == "['$HOME', ';', '>', 'x', '&&', 'y', '|', 'z']\n"


def test_nothing_runs_until_an_operator_allows_it(settings) -> None:
    settings.STATECORE_GATE_COMMANDS = ()

    with pytest.raises(NotEnabled, match="STATECORE_GATE_COMMANDS is empty"):
        allowed_commands.resolve_arguments("python")
