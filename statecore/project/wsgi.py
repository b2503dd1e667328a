"""The WSGI application, for a server that has no use for ASGI."""

import os

from django.core.wsgi import get_wsgi_application

from statecore.project import preflight

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")

application = get_wsgi_application()
preflight.check_database()
preflight.check_broker()
