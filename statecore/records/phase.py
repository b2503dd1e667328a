"""A phase of the programme, which groups runs, workstreams, gates and patches."""

from collections.abc import Iterable
from fnmatch import fnmatch
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models

from ..journal import accounts
from ..kernel import evidence, repositories
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.ids import ID_LENGTH, IdField
from ..kernel.refusals import Invalid
from ..kernel.repositories import DEFAULT
from ..kernel.validation import validate_word_list


def validate_repositories(value: Any) -> None:
    """Validate names. Without executors the integrators know the repositories, so every name is accepted."""
    validate_word_list(value)
    known = repositories.get_all()
    for name in value:
        if repositories.NAME.fullmatch(name) is None:
            raise ValidationError(f"must hold names of repositories, which {name!r} is not.")
        if known and name not in known:
            raise ValidationError(f"must be among the repositories {', '.join(known)}, unlike {name}.")


class Phase(models.Model):
    # All columns are part of the digest in the entry of the journal.
    volatile: ClassVar[tuple[str, ...]] = ()
    event_columns: ClassVar[frozenset[str]] = frozenset()

    id = IdField(primary_key=True, max_length=ID_LENGTH)
    title = models.CharField(max_length=200, blank=True)
    # File name patterns that patches may change; an empty `allowed_paths` allows every path.
    allowed_paths = models.JSONField(default=list, blank=True, validators=[validate_word_list])
    forbidden_paths = models.JSONField(default=list, blank=True, validators=[validate_word_list])
    # The names of the repositories that workstreams may use, the first by default; empty allows the default one.
    repositories = models.JSONField(default=list, db_default=[], blank=True, validators=[validate_repositories])
    created_at = models.DateTimeField(default=now, editable=False)

    def __str__(self) -> str:
        return f"phase {self.pk}"

    def digest(self) -> str:
        return evidence.digest(type(self), self.__dict__)

    def record(self, action: accounts.Action, actor: Actor) -> None:
        """Append the rules to the account journal, with a digest of the row; after the row was written."""
        rules = {name: getattr(self, name) for name in ("title", "allowed_paths", "forbidden_paths", "repositories")}
        facts = {"phase": self.pk, **rules, "digest": self.digest()}
        accounts.record(action, accounts.Account.of_actor(actor), actor=actor, facts=facts)

    def choose_repository(self, name: object) -> str:
        """Return the repository of a new workstream, the first one if it names none; raises Invalid."""
        allowed: list[str] = self.repositories or [DEFAULT]
        if name is None:
            return allowed[0]
        if not isinstance(name, str) or name not in allowed:
            raise Invalid({"repository": [f"must be one of {', '.join(allowed)}, which phase {self.pk} allows."]})
        return name

    def objection(self, paths: Iterable[str]) -> str | None:
        """Return a sentence about the first path that the phase does not allow, or None."""
        for path in paths:
            if any(fnmatch(path, pattern) for pattern in self.forbidden_paths):
                return f"{path} is forbidden in phase {self.pk}"
            if self.allowed_paths and not any(fnmatch(path, pattern) for pattern in self.allowed_paths):
                return f"{path} is not allowed in phase {self.pk}"
        return None
