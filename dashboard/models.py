"""What the console itself remembers; nothing of the machines."""

from __future__ import annotations

from django.conf import settings
from django.db import models


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
