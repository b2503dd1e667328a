"""The alert rules: those the sequencer judges, and what only somebody outside can see."""

from __future__ import annotations

from typing import NamedTuple

from ..derive.tables import table
from ..kernel.moves import Severity
from ..project.environment import ALERT_LIMITS
from ..sequencer.gauge import SequencerLag
from ..sinks.alert_rules import COUNT_RULES, ENTRY_RULES
from ..sinks.gauge import OpenAlerts
from . import written

HOW_TO = "docs/how-to/alerts.md"


class Told(NamedTuple):
    """An alert as Prometheus is to raise it."""

    name: str
    severity: str
    means: str
    expression: str
    lasting: str = ""

    @property
    def section(self) -> str:
        return f"{HOW_TO}#{self.name}"


# If the sequencer stands still, or nothing answers, no rule of our own is judged.
FROM_OUTSIDE = (
    Told(
        "sequencer_behind", str(Severity.CRITICAL),
        "committed events wait for more than a minute for their position or for a sink, so no rule is judged",
        f"max by (what) ({SequencerLag.name}) > 60", "1m",
    ),
    Told(
        "nothing_answers", str(Severity.CRITICAL), "no web process could be scraped for two minutes",
        f"absent({OpenAlerts.name})", "2m",
    ),
)  # fmt: skip


def rules() -> list[Told]:
    """Each rule is judged once, by the sequencer, with the limits of the settings; Prometheus asks what is open."""
    ours = [
        Told(
            rule.name, str(rule.severity), rule.means.format(**ALERT_LIMITS),
            f'max({OpenAlerts.name}{{rule="{rule.name}"}}) > 0',
        )
        for rule in (*COUNT_RULES, *ENTRY_RULES)
    ]  # fmt: skip
    return [*ours, *FROM_OUTSIDE]


def page() -> str:
    rows = [(f"[`{each.name}`](../how-to/alerts.md#{each.name})", each.severity, each.means) for each in rules()]
    return written.page(
        "Alert rules",
        "Raised once for each thing they are about, resolved by themselves, shown in the console, told to",
        "`STATECORE_NOTIFY_URLS`. The numbers are those that hold unless `STATECORE_ALERTS` says otherwise. The rules",
        "for Prometheus in `deploy/prometheus/alerts.yml` tell the same; the last two are for Prometheus alone.",
        "",
        *table(("rule", "severity", "is broken when"), rows),
    )
