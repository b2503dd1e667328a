"""Log formats and redaction."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from logging.config import dictConfig

import pytest
import structlog

from statecore.project import logs


@pytest.mark.parametrize(
    "name", ["password", "Authorization", "csrf_token", "SECRET_KEY", "set-cookie", "new_password1"]
)
def test_values_of_keys_that_name_a_secret_are_redacted(name: str) -> None:
    event = {
        "event": "x",
        name: "hunter2",
        "headers": {name: "hunter2"},
        "all": [{name: "hunter2"}],
    }

    shown = logs.redact(None, "info", event)

    assert "hunter2" not in str(shown)
    assert shown["event"] == "x"


def test_a_token_in_a_url_is_redacted() -> None:
    from statecore.records.token import MARK

    text = f"{MARK}_0123abcd_xYz-_0123456789xYz-_0123456789xYz-_0123456789"
    shown = logs.redact(None, "info", {"request": f"GET /api/v1/events/?access={text}&after=3", "all": [text]})

    assert shown["request"] == f"GET /api/v1/events/?access={logs.REDACTED}&after=3"
    assert text not in str(shown)


@pytest.fixture
def json_lines() -> Iterator[Callable[[], list[dict[str, str]]]]:
    """Captures lines in the format of the settings, on a separate logger."""
    formatter = logs.configuration("json", "INFO")["formatters"]["statecore"]
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter.pop("()")(**formatter))
    logger = logging.getLogger("tests.logs")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.removeHandler(handler)


def test_standard_logging_is_formatted_as_json_and_redacted(
    json_lines: Callable[[], list[dict[str, str]]],
) -> None:
    logging.getLogger("tests.logs").info("hello %s", "you", extra={"token": "hunter2"})

    (line,) = json_lines()
    assert line["event"] == "hello you"
    assert line["token"] == logs.REDACTED
    assert line["level"] == "info"


def test_structlog_is_formatted_and_redacted_too(
    json_lines: Callable[[], list[dict[str, str]]],
) -> None:
    structlog.get_logger("tests.logs").warning("moved", entity="task", password="hunter2")

    (line,) = json_lines()
    assert (line["event"], line["entity"], line["password"]) == ("moved", "task", logs.REDACTED)


def test_configuring_logging_in_either_format_does_not_raise() -> None:
    for log_format in ("json", "console"):
        configuration = logs.configuration(log_format, "INFO")
        configuration.pop("root")
        dictConfig(configuration)


def test_a_traceback_has_no_local_variables(json_lines: Callable[[], list[dict[str, str]]]) -> None:
    password = "hunter2"
    try:
        raise ValueError(f"{len(password)} characters")
    except ValueError:
        logging.getLogger("tests.logs").exception("it broke")

    (line,) = json_lines()
    assert "ValueError" in json.dumps(line)
    assert password not in json.dumps(line)
