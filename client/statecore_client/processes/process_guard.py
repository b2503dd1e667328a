"""A process between a runner and its command that ends the command when the runner ends.

    process_guard.py CONTROL[,KEPT…] PROGRAM [ARGUMENT…]

The command runs in a new session. A byte or the end of file on CONTROL means that the runner ends the command or has
died, even by kill -9; the guard then terminates every process the command has started, and kills those that remain.
It keeps the descriptors KEPT open until then, so that a lock among them is released only when no process is left that
could touch the locked files. The guard runs as a script without site packages and without Statecore's code, so that it
starts in milliseconds.
"""

import ctypes
import fcntl
import os
import select
import signal
import sys
import time

GRACE = 3.0
TICK = 0.02
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # the exit codes of a shell
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> int:
    descriptors = [int(number) for number in sys.argv[1].split(",")]
    for number in descriptors:  # the command does not inherit them
        fcntl.fcntl(number, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    leader = os.fork()
    if leader == 0:
        _exec(sys.argv[2:])
    _close_output()
    while not _has_ended(leader):
        ready, _, _ = select.select([descriptors[0], woken], [], [])
        if descriptors[0] in ready:
            _terminate(leader)
            break
        os.read(woken, 4096)
    _signal_group(leader, signal.SIGKILL)
    _, status = os.waitpid(leader, 0)
    _kill_remaining()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _exec(command: list[str]) -> None:
    """Become the command, in a new session and with default signal handlers; die with the guard."""
    os.setsid()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    # Includes the signals that the guard inherited as ignored, such as SIGHUP under nohup.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - a program from the allow-list, without a shell
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def _close_output() -> None:
    """Without this, the runner would see the end of the output only when the guard ends."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)


def _has_ended(leader: int) -> bool:
    """Checks without reaping, so that the id of its process group is not reused."""
    return os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _terminate(leader: int) -> None:
    _signal_group(leader, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while not _has_ended(leader) and time.monotonic() < deadline:
        time.sleep(TICK)


def _signal_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return  # no process is left, or (on macOS) only a zombie


def _kill_remaining() -> None:
    """Kill processes that left the group; Linux makes them children of the guard, the nearest subreaper."""
    while children := _children():
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for child in children:
            os.waitpid(child, 0)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123 - no pathlib here
            return [int(number) for number in file.read().split()]
    except OSError:
        return []


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
