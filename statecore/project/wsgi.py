"""The WSGI application: where REST is served at scale, beside the ASGI one for sockets and streams."""

import os

from django.core.wsgi import get_wsgi_application

from statecore.project import memory, preflight

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")

application = get_wsgi_application()
preflight.check_database()
preflight.check_broker()
memory.keep_what_is_loaded()
