"""The ASGI application, which uvicorn serves."""

import os

from django.core.asgi import get_asgi_application

from statecore.project import lifespan, memory, open_files, preflight

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
# Under ASGI every request has a thread of its own: a connection kept by the thread would be
# left behind with it, so connections are kept by a pool.
os.environ.setdefault("STATECORE_DATABASE_POOL", "16")

django = get_asgi_application()

# What they import has models: not before Django is set up.
from api.live import application as live  # noqa: E402
from api.tools.application import WithTools  # noqa: E402

application = lifespan.with_lifespan(WithTools(live(django)))
preflight.check_database()
preflight.check_broker()
memory.keep_what_is_loaded()
open_files.allow_many()
