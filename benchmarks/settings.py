"""The project's settings without its admin site."""

from statecore.project.settings import *  # noqa: F403
from statecore.project.settings import INSTALLED_APPS

INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig" if app == "django.contrib.admin" else app for app in INSTALLED_APPS
]
