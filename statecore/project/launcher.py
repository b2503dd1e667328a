"""Executes a program that is killed when its supervisor dies.

This is a script because a `preexec_fn` would run Python between fork and exec, which can deadlock. Only Linux can tie a
process to its parent; on other systems a supervisor that is killed with SIGKILL leaves its processes running.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    supervisor, program = int(sys.argv[1]), sys.argv[2:]
    die_with_parent()
    # The supervisor may have died before the line above.
    if sys.platform == "linux" and os.getppid() != supervisor:
        sys.exit(1)
    os.execv(program[0], program)  # noqa: S606  a fixed command, without a shell


def die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main()
