"""Beat's scheduler: of several beats, the one with the lease `beat` schedules the sweeps, and the others stand by."""

from __future__ import annotations

from typing import Any

import structlog
from celery.beat import PersistentScheduler
from django.db import Error, connection

from statecore.records.leader_lease import Leadership, LeadershipLost

log = structlog.get_logger(__name__)

STANDBY_SECONDS = 1.0


class LeadingScheduler(PersistentScheduler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.leadership = Leadership("beat")
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Schedules what is due, and returns the seconds until the next call."""
        return float(super().tick(*args, **kwargs)) if self.leads() else STANDBY_SECONDS

    def leads(self) -> bool:
        """Without the database no beat schedules: the sweeps need it too."""
        try:
            if self.leadership.is_held:
                if self.leadership.is_renewal_due():
                    self.leadership.renew()
                return True
            if self.leadership.acquire():
                log.info("beat_leads", term=self.leadership.term)
        except LeadershipLost:
            log.warning("beat_replaced")
        except Error as error:
            log.warning("beat_lost_database", error=str(error).strip().partition("\n")[0])
            connection.close()
            return False
        return self.leadership.is_held

    def close(self) -> None:
        self.leadership.release()
        super().close()
