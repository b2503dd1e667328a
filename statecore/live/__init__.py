"""What happens, as it happens: one reader of the journal in each process, and whoever watches follows it."""

from .board import Board, the_board
from .following import Following, Wanted
from .hub import Hub, close_all, hub
from .ring import Told, TooOld
from .waiting import Waiting, the_line

__all__ = [
    "Board", "Following", "Hub", "Told", "TooOld", "Waiting", "Wanted", "close_all", "hub", "the_board", "the_line",
]  # fmt: skip
