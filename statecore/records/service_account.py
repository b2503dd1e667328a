"""Service accounts: accounts of programs. Each has an owner, a purpose, roles, possibly an end, and tokens.

A service account is a user without a password, so rights, tokens, identities and events are those of every account.
Its name begins with `service/`, which no person and no token of a person can have.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import models
from django.db.models import Q

from ..kernel.actors import NAME_LENGTH
from ..kernel.clock import now, rfc3339
from .account_names import SERVICE_PREFIX
from .token import Token

PURPOSE_LENGTH = 500
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MANAGE_ACCOUNTS = "statecore.manage_accounts"


class ServiceAccount(models.Model):
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="service_account"
    )
    # The person who answers for it. Without one it works until its tokens expire, and gets no new ones.
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="owned_services")
    purpose = models.CharField(max_length=PURPOSE_LENGTH)
    created_at = models.DateTimeField(default=now)
    created_by = models.CharField(max_length=NAME_LENGTH)
    # No token is valid for longer.
    expires_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        permissions = (("manage_accounts", "Can manage accounts, roles and service accounts"),)

    def __str__(self) -> str:
        return f"service account {self.name}"

    @property
    def name(self) -> str:
        """The name without its prefix, as in addresses."""
        return self.user.get_username().removeprefix(SERVICE_PREFIX)

    @property
    def has_active_owner(self) -> bool:
        return self.owner is not None and self.owner.is_active

    def is_expired(self, at: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= at

    def roles(self) -> list[str]:
        return sorted(group.name for group in self.user.groups.all())

    def tokens(self) -> list[Token]:
        """Return its tokens, newest first."""
        return sorted(self.user.tokens.all(), key=lambda token: token.pk, reverse=True)

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.name,
            "username": self.user.get_username(),
            "owner": self.owner.get_username() if self.owner else None,
            "has_active_owner": self.has_active_owner,
            "purpose": self.purpose,
            "roles": self.roles(),
            "is_enabled": self.user.is_active,
            "created_at": rfc3339(self.created_at),
            "created_by": self.created_by,
            "expires_at": rfc3339(self.expires_at) if self.expires_at else None,
            "tokens": [token.as_dict() for token in self.tokens()],
        }


def with_tokens() -> models.QuerySet[ServiceAccount]:
    """Return all service accounts by name, with what `as_dict` needs."""
    rows = ServiceAccount.objects.select_related("user", "owner").order_by("user__username")
    return rows.prefetch_related("user__groups", "user__tokens__user")


def find(name: str) -> ServiceAccount | None:
    return with_tokens().filter(user__username=f"{SERVICE_PREFIX}{name}").first() if NAME.fullmatch(name) else None


def person_of(account: int | None) -> int | None:
    """Return the account of the person who answers for an account: the owner of a service account, or the account."""
    if account is None:
        return None
    owner = ServiceAccount.objects.filter(user_id=account).values_list("owner_id", flat=True).first()
    return account if owner is None else owner


def is_service(account: int) -> bool:
    return ServiceAccount.objects.filter(user_id=account).exists()


def without_active_owner() -> models.QuerySet[ServiceAccount]:
    """Return the service accounts that work without a person who answers for them."""
    orphaned = Q(owner=None) | Q(owner__is_active=False)
    return with_tokens().filter(orphaned, user__is_active=True)


def find_person(username: str) -> Any:
    """Return the active user with this name, or None; a service account is not a person."""
    users = get_user_model()._default_manager.filter(username=username, is_active=True, service_account=None)
    return users.exclude(username__startswith=SERVICE_PREFIX).first()
