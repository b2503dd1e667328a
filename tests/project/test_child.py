"""One supervised process."""

import sys

import psutil

from statecore.project.child import MOST_CRASHES, SOUND_AFTER, Child
from tests.support.waiting import until

CRASH = [sys.executable, "-c", "raise SystemExit(3)"]
WAIT = [sys.executable, "-c", "import signal; signal.pause()"]


def next_news(child: Child) -> str:
    """Tend the child without its pauses until it has something to say."""
    child.start_again_at = 0.0
    news: list[str] = []
    until(lambda: news.append(sentence) or True if (sentence := child.tend()) else False)
    return news[0]


def test_a_crash_is_told_and_the_pauses_grow() -> None:
    child = Child("web", CRASH)

    assert next_news(child) == "web ended with exit code 3; it starts again in 1 s."
    assert next_news(child) == "web ended with exit code 3; it starts again in 2 s."
    assert next_news(child) == "web ended with exit code 3; it starts again in 4 s."


def test_it_does_not_start_again_before_its_pause_is_over() -> None:
    child = Child("web", CRASH)
    next_news(child)

    assert child.tend() is None
    assert child.process is None


def test_it_gives_up_after_crashing_again_and_again() -> None:
    child = Child("web", CRASH)

    news = [next_news(child) for _ in range(MOST_CRASHES)]

    assert child.has_given_up
    assert news[-1] == "web ended with exit code 3, 5 times in a row: giving up."


def test_a_crash_after_a_long_sound_run_counts_as_the_first() -> None:
    child = Child("web", CRASH, crashes=MOST_CRASHES - 1)
    child.start()
    child.started_at -= SOUND_AFTER

    assert next_news(child).endswith("starts again in 1 s.")


def test_the_signal_that_ended_it_is_named() -> None:
    child = Child("web", WAIT)
    child.tend()
    assert child.process is not None
    child.process.kill()

    assert next_news(child) == "web was ended by SIGKILL; it starts again in 1 s."


def test_killing_it_ends_what_it_started() -> None:
    nested = f"import subprocess, sys; subprocess.run({WAIT!r})"
    child = Child("web", [sys.executable, "-c", nested])
    child.start()
    assert child.process is not None
    leader = psutil.Process(child.process.pid)
    until(leader.children)
    (grandchild,) = leader.children()

    child.kill()

    until(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)
