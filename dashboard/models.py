"""What the console itself remembers; nothing of the machines."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from statecore.records import BulkJob


class Preference(models.Model):
    """How one person wants the console to look."""

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
    """A search worth keeping, for oneself or for everybody."""

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
    """The entities somebody chose, frozen: what is moved is what was seen, whatever else matches by then."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    entity_type = models.CharField(max_length=32)
    ids = models.JSONField()
    query = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    # What became of it: sent twice, it is one job, and both are led there.
    job = models.ForeignKey(BulkJob, models.CASCADE, null=True, related_name="+", db_index=False)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{len(self.ids)} {self.entity_type}"


class Screen(models.Model):
    """A wall display: asks to be let in with a code, is let in as a user of its own who may only look."""

    code = models.CharField(max_length=8, unique=True)
    secret_hash = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=80, blank=True)
    address = models.CharField(max_length=500, blank=True)
    # From where it asked, so that one place cannot ask for all.
    asked_from = models.GenericIPAddressField(null=True)
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    paired_by = models.CharField(max_length=150, blank=True)
    asked_at = models.DateTimeField()
    paired_at = models.DateTimeField(null=True)
    last_seen_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ("view", "add", "change")

    def __str__(self) -> str:
        return self.name or self.code
