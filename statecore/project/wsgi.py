"""The WSGI application, for a server that has no use for ASGI."""

import os

from django.core.wsgi import get_wsgi_application

from statecore.project import preflight
from statecore.project.refusal import one_sentence

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")

with one_sentence():
    application = get_wsgi_application()
    preflight.check_database()
    preflight.check_broker()
