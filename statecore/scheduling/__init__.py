"""Who works on what, and until when: claims, heartbeats, time-outs, plans, breakers."""

from .claims import Handover, Report, claim, hand_over
from .heartbeats import beat, drain
from .plans import submit
from .registration import register

__all__ = ["Handover", "Report", "beat", "claim", "drain", "hand_over", "register", "submit"]
