"""The default permissions of the standard groups that `migrate` has granted, so that it grants each of them once."""

from __future__ import annotations

from django.db import models


class DefaultGrant(models.Model):
    """A permission that a group was given by default; it stays on record when an administrator removes it."""

    group_name = models.CharField(max_length=150)
    codename = models.CharField(max_length=100)

    class Meta:
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("group_name", "codename"), name="default_grant_is_made_once"),)

    def __str__(self) -> str:
        return f"{self.group_name}: {self.codename}"
