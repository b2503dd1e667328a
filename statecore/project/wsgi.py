"""The WSGI application, which serves REST at scale; the ASGI application serves WebSockets and streams."""

import os

import django
from django.conf import settings
from granian.utils.proxies import wrap_wsgi_with_proxy_headers

from statecore.project import preflight, process_limits, starter

starter.die_with_starter()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
django.setup(set_prefix=False)

# These import models, so after django.setup().
from statecore.operations import process_reporter  # noqa: E402
from statecore.project.wsgi_handler import Handler  # noqa: E402

# Takes the client's address and scheme from trusted proxies.
application = wrap_wsgi_with_proxy_headers(Handler(), trusted_hosts=settings.STATECORE_TRUSTED_PROXIES)
preflight.check_database()
preflight.check_broker()
process_limits.freeze_loaded_objects()
process_limits.raise_open_file_limit()
process_reporter.ProcessReporter("rest").start()
