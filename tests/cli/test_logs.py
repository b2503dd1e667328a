"""The command `logs` prints and follows the log of a task."""

from __future__ import annotations

from statecore.machines.task import Task
from statecore.scheduling import log_writer
from statecore.scheduling.log_writer import NewLine
from tests.agent.process import claim_as_w1, submit
from tests.cli.process import Statecore
from tests.support import world


def write(*texts: str, stream: str = "stdout") -> None:
    log_writer.append("t1", 1, [NewLine(stream, text, None) for text in texts], actor=world.AGENT)


def test_a_log_is_printed_as_text_and_as_json_lines(statecore: Statecore) -> None:
    submit({"id": "t1"})
    claim_as_w1()
    write("one", "\x1b[31mtwo\x1b[0m")
    write("three", stream="stderr")
    assert statecore("logs", "t1").out.splitlines() == ["one", "two", "stderr: three"]
    assert [line["number"] for line in statecore("logs", "t1", "--after", "1", "--json").json] == [2, 3]
    assert statecore("logs", "t1", "--attempt", "2").out == ""
    assert statecore("logs", "t1", "-t").out.splitlines()[0].split()[::2] == ["1", "one"]


def test_following_ends_with_the_attempt(statecore: Statecore) -> None:
    submit({"id": "t1"})
    claim_as_w1()
    write("one")
    world.fire(Task.objects.get(), "execution_completed", actor=world.AGENT, attempt=1, exit_code=0)
    assert statecore("logs", "t1", "-f").out == "one\n"


def test_the_log_of_an_unknown_task_is_not_found(statecore: Statecore) -> None:
    for words in (("logs", "missing"), ("logs", "missing", "-f")):
        assert statecore(*words, code=5).out == ""
