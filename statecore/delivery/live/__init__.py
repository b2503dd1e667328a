"""Live streams: one reader of the journal per process, shared by all connected clients."""

from .board import Board, get_board
from .claim_queue import ClaimQueue, get_claim_queue
from .hub import Hub, close_all_hubs, get_hub
from .ring import EpochEnded, PositionTooOld, StreamEvent
from .subscription import EventFilter, Subscription, check_shared

__all__ = [
    "Board",
    "ClaimQueue",
    "EpochEnded",
    "EventFilter",
    "Hub",
    "PositionTooOld",
    "StreamEvent",
    "Subscription",
    "check_shared",
    "close_all_hubs",
    "get_board",
    "get_claim_queue",
    "get_hub",
]  # fmt: skip
