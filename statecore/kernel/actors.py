"""The actor of a change: an agent, an operator or the system, and the channel it uses."""

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


# Names are copied unescaped into the canonical bytes of an event: no quotes, backslashes or control characters.
NAME_LENGTH = 150
IDENTITY_LENGTH = NAME_LENGTH + 10
NAME_PATTERN = re.compile(rf'[^"\\\x00-\x1f\x7f\ud800-\udfff]{{1,{NAME_LENGTH}}}')


class Kind(StrEnum):
    AGENT = "agent"
    # An agent that runs gates and merges patches where no executors do; it does no other work.
    INTEGRATOR = "integrator"
    OPERATOR = "operator"
    SYSTEM = "system"


class Channel(StrEnum):
    REST = "rest"
    CONSOLE = "console"
    ADMIN = "admin"
    CLI = "cli"
    SYSTEM = "system"


AGENT, INTEGRATOR, OPERATOR, SYSTEM = Kind.AGENT, Kind.INTEGRATOR, Kind.OPERATOR, Kind.SYSTEM


def _never(permission: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Actor:
    name: str
    kind: Kind
    channel: Channel
    has_permission: Callable[[str], bool] = field(default=_never, repr=False, compare=False)
    # The tool through which a language model acts, recorded in the journal.
    tool: str = ""
    # The id of the user account, which stays when the account is renamed, and the prefix of the token that was used.
    account: int | None = None
    token: str = ""
    # The id of the account that owns the token.
    owner: int | None = None
    # The network address of the caller, where one is known; recorded in the account journal only.
    address: str = ""
    # The account or token behind the name, which is never given to another actor; empty for the system and for
    # callers that have not logged in.
    identity: str = field(init=False, repr=False, compare=False)
    # Whether it holds what it works on; operators and the system work on everything.
    holds: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if NAME_PATTERN.fullmatch(self.name) is None:
            raise ValueError(
                f"an actor name has 1 to 150 characters and no quotes or control characters: {self.name!r}"
            )
        holds = self.kind in (Kind.AGENT, Kind.INTEGRATOR)
        if self.account is not None:
            identity = f"user:{self.account}"
        elif self.token:
            identity = f"token:{self.token}"
        else:
            identity = f"{self.kind}:{self.name}" if holds else ""
        object.__setattr__(self, "identity", identity)
        object.__setattr__(self, "holds", holds)

    @property
    def account_or_owner(self) -> int | None:
        """The id of the account that answers for the actor: its own, or that of the owner of its token."""
        return self.owner if self.account is None else self.account

    @classmethod
    def operator(cls, user: User | AnonymousUser, channel: Channel, address: str = "") -> Actor:
        """Returns an actor with the user's Django permissions; an inactive user has none."""
        return cls(
            user.get_username(), Kind.OPERATOR, channel, has_permission=user.has_perm, account=user.pk, address=address
        )

    @classmethod
    def agent(cls, name: str, channel: Channel = Channel.REST) -> Actor:
        return cls(name, Kind.AGENT, channel)


THE_SYSTEM = Actor("system", Kind.SYSTEM, Channel.SYSTEM)
ANONYMOUS = "anonymous"  # the name of a caller that has not logged in
