"""The composition root: settings, URLs and processes."""

from statecore.project.celery import app as celery_app

__all__ = ["celery_app"]
