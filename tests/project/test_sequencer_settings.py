"""The settings of the sequencer and its sinks that come from the environment."""

from pathlib import Path

import pytest

from statecore.project import environment
from statecore.project.environment import ALERT_LIMITS
from statecore.project.refusal import Refused


def test_limits_of_alerts_are_changed_one_by_one() -> None:
    read = environment.read({"STATECORE_ALERTS": "blocked_count=20, failure_percent = 5"})
    assert read.alerts == {**ALERT_LIMITS, "blocked_count": 20, "failure_percent": 5}


@pytest.mark.parametrize("given", ["blocked=5", "blocked_count", "blocked_count=many", "blocked_count=-1"])
def test_a_limit_that_cannot_be_read_is_refused_by_name(given: str) -> None:
    with pytest.raises(Refused, match=r"STATECORE_ALERTS.*blocked_count"):
        environment.read({"STATECORE_ALERTS": given})


def test_backups_are_kept_in_the_home_by_default(tmp_path: Path) -> None:
    assert environment.read({"STATECORE_HOME": str(tmp_path)}).backup_dir == tmp_path / "backup"
    assert environment.read({"STATECORE_BACKUP_DIR": "/elsewhere"}).backup_dir == Path("/elsewhere")


def test_notification_urls_are_a_list() -> None:
    assert environment.read({"STATECORE_NOTIFY_URLS": "json://a, mailto://b"}).notify_urls == ("json://a", "mailto://b")
