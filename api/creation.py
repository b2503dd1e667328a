"""How the entities of a machine are made over REST, where that is more than making a row."""

from __future__ import annotations

from collections.abc import Callable

from statecore import scheduling
from statecore.door import Outcome

creators: dict[str, Callable[..., Outcome]] = {"worker": scheduling.register, "patch_ledger": scheduling.hand_in}
