"""The project's settings, with tables straight from the models where there are no migrations yet."""

from pathlib import Path

from statecore import migrations
from statecore.project.settings import *  # noqa: F403

if not any(Path(next(iter(migrations.__path__))).glob("0*.py")):
    MIGRATION_MODULES = {"statecore": None}

# The admin of the project is not measured; its models need the application all the same.
INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig" if app == "django.contrib.admin" else app
    for app in INSTALLED_APPS  # noqa: F405
]
