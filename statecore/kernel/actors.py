"""Who asks for a change: an agent, an operator or the system, and through which channel."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, PermissionsMixin

    class User(AbstractBaseUser, PermissionsMixin):
        class Meta:
            abstract = True


# Names are written into the canonical bytes of an event as they are: no quote, no backslash, no control character.
NAME_LENGTH = 150
NAME_PATTERN = re.compile(rf'[^"\\\x00-\x1f\x7f\ud800-\udfff]{{1,{NAME_LENGTH}}}')


class Kind(StrEnum):
    AGENT = "agent"
    OPERATOR = "operator"
    SYSTEM = "system"


class Channel(StrEnum):
    REST = "rest"
    CONSOLE = "console"
    ADMIN = "admin"
    CLI = "cli"
    SYSTEM = "system"


AGENT, OPERATOR, SYSTEM = Kind.AGENT, Kind.OPERATOR, Kind.SYSTEM


def _never(permission: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Actor:
    name: str
    kind: Kind
    channel: Channel
    holds: Callable[[str], bool] = field(default=_never, repr=False, compare=False)
    # What it acts with, where that is worth a note in the journal: the tool of a language model.
    tool: str = ""

    def __post_init__(self) -> None:
        if NAME_PATTERN.fullmatch(self.name) is None:
            raise ValueError(f"an actor's name is 1 to 150 characters without quotes or controls: {self.name!r}")

    @classmethod
    def operator(cls, user: User | AnonymousUser, channel: Channel) -> Actor:
        """An operator may do what Django says the user may; an inactive user may do nothing."""
        return cls(user.get_username(), Kind.OPERATOR, channel, holds=user.has_perm)

    @classmethod
    def agent(cls, name: str, channel: Channel = Channel.REST) -> Actor:
        return cls(name, Kind.AGENT, channel)

    @property
    def operator_name(self) -> str | None:
        return self.name if self.kind is Kind.OPERATOR else None


THE_SYSTEM = Actor("system", Kind.SYSTEM, Channel.SYSTEM)
