"""Who works on what, and until when: claims, heartbeats, time-outs, plans, breakers."""

from .claims import claim
from .heartbeats import beat, drain
from .plans import submit
from .registration import register

__all__ = ["beat", "claim", "drain", "register", "submit"]
