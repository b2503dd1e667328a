"""The WSGI application: where REST is served at scale, beside the ASGI one for sockets and streams."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from granian.utils.proxies import wrap_wsgi_with_proxy_headers

from statecore.project import memory, preflight

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")

# Who calls, and whether it was by TLS, is what a trusted proxy says of it; the other server does the same by itself.
application = wrap_wsgi_with_proxy_headers(get_wsgi_application(), trusted_hosts=settings.STATECORE_TRUSTED_PROXIES)
preflight.check_database()
preflight.check_broker()
memory.keep_what_is_loaded()
