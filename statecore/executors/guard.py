"""Stands between a runner and the command it runs, and sees to it that the command never outlives the runner.

    guard.py CONTROL[,KEPT…] PROGRAM [ARGUMENT…]

The command gets a session of its own. When a byte or the end of file arrives on CONTROL (the runner wants it ended,
or is gone, by kill -9 too), everything the command has started is asked to end, and killed if it does not. The
descriptors KEPT are held open until then: a lock among them is let go only when nobody is left to touch what it
guards. Run as a plain script without site packages: it starts in milliseconds and imports nothing of ours.
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
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as a shell says it
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> int:
    descriptors = [int(number) for number in sys.argv[1].split(",")]
    for number in descriptors:  # the guard's alone, not the command's
        fcntl.fcntl(number, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    leader = os.fork()
    if leader == 0:
        _become(sys.argv[2:])
    _let_go_of_the_output()
    while not _has_ended(leader):
        ready, _, _ = select.select([descriptors[0], woken], [], [])
        if descriptors[0] in ready:
            _ask_to_end(leader)
            break
        os.read(woken, 4096)
    _signal_group(leader, signal.SIGKILL)
    _, status = os.waitpid(leader, 0)
    _kill_the_rest()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(command: list[str]) -> None:
    """The child: a plain process again, in a session of its own, that dies with the guard."""
    os.setsid()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    # Those the guard handles or ignores, and what was ignored before it: under nohup everybody below ignores a hang-up.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - a program from the allow-list, without a shell
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def _let_go_of_the_output() -> None:
    """So that the runner sees the end of the output when the command is gone, not when the guard is."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)


def _has_ended(leader: int) -> bool:
    """Without reaping it: until then its group's number is nobody else's."""
    return os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _ask_to_end(leader: int) -> None:
    _signal_group(leader, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while not _has_ended(leader) and time.monotonic() < deadline:
        time.sleep(TICK)


def _signal_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return  # nobody left, or (on macOS) only a zombie


def _kill_the_rest() -> None:
    """Whoever left the group was handed to the guard as the nearest living ancestor; Linux only."""
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
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listed:  # noqa: PTH123 - no pathlib here
            return [int(number) for number in listed.read().split()]
    except OSError:
        return []


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
