"""What every line of a request says: its id, which entity it is about and, at its end, who asked.

The id goes back with the answer (`X-Request-ID`), so that somebody who was refused can name the lines.
"""

from __future__ import annotations

import re
from typing import Any

import structlog
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django_structlog import signals

from statecore.kernel import registry
from statecore.kernel.ulid import ID_PATTERN
from statecore.project.traces import traces
from statecore.records.token import Token

HEADER = "X-Request-ID"
# Read off the path: the lines before the address is resolved, and those about one that is not, name it too.
ENTITY = re.compile(rf"/(?:api/v1/)?(?P<collection>[a-z-]+)/(?P<id>{ID_PATTERN.pattern})/")
NO_IDS = {"submit", "bulk-transitions"}


@receiver(signals.bind_extra_request_metadata)
def bind_entity(request: HttpRequest, **_: Any) -> None:
    trace_id = traces.begin(request)
    structlog.contextvars.bind_contextvars(**entity_of(request.path), **({"trace_id": trace_id} if trace_id else {}))


def entity_of(path: str) -> dict[str, str]:
    found = ENTITY.match(path)
    if found is None or found["id"] in NO_IDS:
        return {}
    machines = {flow.collection: flow.entity_type for flow in registry.flows()}
    if found["collection"] not in machines:
        return {}
    return {"entity_type": machines[found["collection"]], "entity_id": found["id"]}


@receiver(signals.bind_extra_request_finished_metadata)
def name_who_asked(request: HttpRequest, response: HttpResponse, log_kwargs: dict[str, Any], **_: Any) -> None:
    actor = actor_of(request)
    log_kwargs |= actor
    _answered(request, response, actor)


@receiver(signals.update_failure_response)
def name_the_failure(request: HttpRequest, response: HttpResponse, **_: Any) -> None:
    _answered(request, response, actor_of(request))


def actor_of(request: HttpRequest) -> dict[str, str]:
    """As the journal names them: a token of an agent by its own name, others by their user's."""
    auth = getattr(request, "auth", None)
    if isinstance(auth, Token):
        return {"actor": auth.actor().name, "by": f"token {auth.name}"}
    user = getattr(request, "user", None)
    return {"actor": user.get_username(), "by": "session"} if user is not None and user.is_authenticated else {}


def _answered(request: HttpRequest, response: HttpResponse, actor: dict[str, str]) -> None:
    known = structlog.contextvars.get_contextvars()
    response[HEADER] = str(known.get("request_id", ""))
    told = {name: str(known[name]) for name in ("request_id", "entity_type", "entity_id") if name in known}
    traces.end(request, response, told | actor)
