"""What is said about recoveries in the settings must mean something."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from .plan import recoveries


def settings_name_recoveries(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Whoever asks to approve what is never proposed would wait for it."""
    known = sorted({recovery.entity_type for recovery in recoveries})
    return [
        Error(
            f"STATECORE_RECOVERY names {name!r}, for which there is nothing to approve: it may name {', '.join(known)}",
            id="statecore.E010",
        )
        for name in settings.STATECORE_RECOVERY
        if name not in known
    ]
