"""Who works on what, and until when: claims, heartbeats, time-outs, plans, breakers."""

from .claims import Exchanged, Report, claim, report_and_claim
from .handing_in import hand_in
from .heartbeats import beat, beat_if, drain
from .plans import submit
from .registration import register

__all__ = [
    "Exchanged",
    "Report",
    "beat",
    "beat_if",
    "claim",
    "drain",
    "hand_in",
    "register",
    "report_and_claim",
    "submit",
]
