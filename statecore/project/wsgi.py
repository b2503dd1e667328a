"""The WSGI application: where REST is served at scale, beside the ASGI one for sockets and streams."""

import os

import django
from django.conf import settings
from granian.utils.proxies import wrap_wsgi_with_proxy_headers

from statecore.project import memory, open_files, preflight

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
django.setup(set_prefix=False)

from statecore.project.handler import Handler  # noqa: E402 - the API is loaded once Django is there

# Who calls, and whether it was by TLS, is what a trusted proxy says of it; the other server does the same by itself.
application = wrap_wsgi_with_proxy_headers(Handler(), trusted_hosts=settings.STATECORE_TRUSTED_PROXIES)
preflight.check_database()
preflight.check_broker()
memory.keep_what_is_loaded()
open_files.allow_many()
