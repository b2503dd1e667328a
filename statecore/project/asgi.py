"""The ASGI application, served by uvicorn."""

import os

import django
from django.conf import settings
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from statecore.project import lifespan, preflight, process_limits

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
# Django serves each request in a new thread under ASGI, so connections are kept in a pool instead of by threads.
os.environ.setdefault("STATECORE_DATABASE_POOL", "16")
django.setup(set_prefix=False)

# These import models, which must not happen before Django is set up.
from statecore.accounts import identity_header  # noqa: E402
from statecore.api.live import application as live  # noqa: E402
from statecore.api.tools.application import ToolsMiddleware  # noqa: E402
from statecore.project.asgi_handler import Handler  # noqa: E402

# Takes the client's address and scheme from trusted proxies. Not by uvicorn's option: the header that names a person
# depends on the address of the proxy, which is replaced here.
behind_proxies = ProxyHeadersMiddleware(ToolsMiddleware(live(Handler())), settings.STATECORE_TRUSTED_PROXIES)
application = lifespan.with_lifespan(identity_header.wrap_asgi(behind_proxies))
preflight.check_database()
preflight.check_broker()
process_limits.freeze_loaded_objects()
process_limits.raise_open_file_limit()
