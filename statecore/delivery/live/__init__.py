"""Live streams: one reader of the journal per process, shared by all connected clients."""

from .board import Board, get_board
from .claim_queue import ClaimQueue, get_claim_queue
from .hub import Hub, close_all_hubs, get_hub
from .log_reader import FollowedLog, LogReader, Part, get_log_reader
from .ring import EpochEnded, PositionTooOld, StreamEvent
from .subscription import EventFilter, Subscription, check_shared

__all__ = [
    "Board",
    "ClaimQueue",
    "EpochEnded",
    "EventFilter",
    "FollowedLog",
    "Hub",
    "LogReader",
    "Part",
    "PositionTooOld",
    "StreamEvent",
    "Subscription",
    "check_shared",
    "close_all_hubs",
    "get_board",
    "get_claim_queue",
    "get_hub",
    "get_log_reader",
]  # fmt: skip
