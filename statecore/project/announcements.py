"""Sentences that a process prints before its logging is set up, or outside of it, in the format of its log."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime


def format_sentence(sentence: str, level: str) -> str:
    """Returns one line: text, or JSON with the keys of a log line."""
    if not is_json():
        return f"statecore: {sentence}"
    at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"event": sentence, "level": level, "logger": "statecore", "timestamp": at})


def is_json() -> bool:
    """Whether log lines are JSON. Read from the environment: a wrong setting is itself reported in this format."""
    return os.environ.get("STATECORE_LOG_FORMAT") == "json"
