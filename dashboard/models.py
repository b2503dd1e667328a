"""The console's own data: preferences, saved views, selections and wall displays."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from statecore.records import BulkJob


class Preference(models.Model):
    """One user's choice of appearance."""

    class Theme(models.TextChoices):
        SYSTEM = "system"
        LIGHT = "light"
        DARK = "dark"

    class Contrast(models.TextChoices):
        SYSTEM = "system"
        MORE = "more"

    class Density(models.TextChoices):
        COMFORTABLE = "comfortable"
        COMPACT = "compact"

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="console_preference")
    theme = models.CharField(max_length=16, choices=Theme.choices, default=Theme.SYSTEM)
    contrast = models.CharField(max_length=16, choices=Contrast.choices, default=Contrast.SYSTEM)
    density = models.CharField(max_length=16, choices=Density.choices, default=Density.COMFORTABLE)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.user}: {self.theme}, {self.contrast}, {self.density}"

    def choices(self) -> dict[str, str]:
        return {"theme": self.theme, "contrast": self.contrast, "density": self.density}


class SavedView(models.Model):
    """A named search, private or shared."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=80)
    entity_type = models.CharField(max_length=32)
    query = models.CharField(max_length=500, blank=True)
    is_shared = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("owner", "entity_type", "name"), name="saved_view_name_once"),)
        indexes = (models.Index(fields=("entity_type", "name"), name="saved_view_by_machine"),)

    def __str__(self) -> str:
        return self.name


class Selection(models.Model):
    """The ids a user selected for a bulk action, stored so that the action applies to what the user saw."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    entity_type = models.CharField(max_length=32)
    ids = models.JSONField()
    query = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    # Set on submission: a second submission is redirected to the same job.
    job = models.ForeignKey(BulkJob, models.CASCADE, null=True, related_name="+", db_index=False)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{len(self.ids)} {self.entity_type}"


class Display(models.Model):
    """A wall display, paired with a code; it logs in as its own read-only user."""

    code = models.CharField(max_length=8, unique=True)
    secret_hash = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=80, blank=True)
    address = models.CharField(max_length=500, blank=True)
    # Limits the pairing requests of one address.
    requested_from = models.GenericIPAddressField(null=True)
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    paired_by = models.CharField(max_length=150, blank=True)
    requested_at = models.DateTimeField()
    paired_at = models.DateTimeField(null=True)
    last_seen_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ("view", "add", "change")

    def __str__(self) -> str:
        return self.name or self.code
