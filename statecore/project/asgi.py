"""The ASGI application, served by uvicorn."""

import os

from django.core.asgi import get_asgi_application

from statecore.project import lifespan, preflight, process_limits

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
# Under ASGI each request runs in a new thread, so connections are kept in a pool instead of by threads.
os.environ.setdefault("STATECORE_DATABASE_POOL", "16")

django = get_asgi_application()

# These import models, which must not happen before Django is set up.
from statecore.api.live import application as live  # noqa: E402
from statecore.api.tools.application import ToolsMiddleware  # noqa: E402

application = lifespan.with_lifespan(ToolsMiddleware(live(django)))
preflight.check_database()
preflight.check_broker()
process_limits.freeze_loaded_objects()
process_limits.raise_open_file_limit()
