"""The calls that every machine has, made from the registry: a new machine needs no line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from django.http import HttpResponse
from django.urls import URLPattern, path

from statecore import door, stuck
from statecore.door import Outcome, rows
from statecore.journal import Event
from statecore.kernel import registry
from statecore.kernel.actors import Actor
from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import Invalid, PermissionDenied, Refusal
from statecore.records.retirement import anchors_of
from statecore.records.token import Scope, Token

from . import authentication, bodies, entities, idempotency, pages, permissions, sequences
from .actors import acting, firing
from .creation import creators
from .posted import Posted
from .refusals import NotAuthenticated
from .request import Request
from .views import ApiView, answer


class OfMachine(ApiView):
    """A view of one machine; `flow` is given where its address is made."""

    flow: ClassVar[Flow]

    @property
    def model(self) -> type[Entity]:
        return self.flow.model

    def linked(self, row: dict[str, Any]) -> dict[str, Any]:
        return entities.with_links(self.model, [row])[0]

    def moved(self, outcome: Outcome) -> HttpResponse:
        """What happened, and the entity as every call tells it: only a machine with links costs a query more."""
        told = outcome.as_dict()
        return idempotency.reply(outcome, {**told, "entity": self.linked(dict(told["entity"]))})

    def newborn(self, outcome: Outcome) -> HttpResponse:
        """The new entity itself, and what happened."""
        told = outcome.as_dict()
        body = {**self.linked(dict(told["entity"])), "event": told["event"], "caused": told["caused"]}
        return idempotency.reply(outcome, body, 201)


class Collection(OfMachine):
    def get(self, request: Request) -> HttpResponse:
        def tell(found: list[Entity]) -> list[dict[str, Any]]:
            return entities.told(self.model, found)

        return answer(pages.page(request, self.model.objects.all(), tell, pages.NEWEST_FIRST, rows.read))

    def post(self, request: Request) -> HttpResponse:
        asked = Posted(request, bodies.Body, takes_more=True)
        fields = asked.further
        entity_id, reason = fields.pop("id", None), fields.pop("reason", "")
        create: Callable[..., Outcome] = creators.get(self.flow.entity_type, door.create)
        given = {name: value for name, value in fields.items() if name.isidentifier()}
        if strange := fields.keys() - given.keys() or fields.keys() & SAID_BY_THE_SERVER:
            raise Invalid({name: ["is not a field that can be set."] for name in sorted(strange)})
        outcome = create(self.model, actor=acting(request), id=entity_id, reason=reason, request=asked.key, **given)
        return self.newborn(outcome)


# Words of the door's own that stand beside the fields of an entity.
SAID_BY_THE_SERVER = {"actor", "model", "cause", "request", "dry_run"}


class Detail(OfMachine):
    def get(self, request: Request, entity_id: str) -> HttpResponse:
        return answer(self.linked(entities.found(self.model, entity_id).as_dict()))

    def patch(self, request: Request, entity_id: str) -> HttpResponse:
        fields = bodies.read(request)
        version = bodies.shaped({"expected_version": fields.pop("expected_version", None)}, Expected).expected_version
        entity = door.edit(self.model, entity_id, fields, actor=acting(request), expected_version=version)
        return answer(self.linked(entity.as_dict()))


class Expected(bodies.Body):
    expected_version: int | None = None


class Transitions(OfMachine):
    def get(self, request: Request, entity_id: str) -> HttpResponse:
        """The history, oldest first."""
        entities.found(self.model, entity_id)
        events = Event.objects.filter(entity_type=self.flow.entity_type, entity_id=entity_id)
        told = sequences.page(request, events)
        return answer({**told, "retired": self._retired(entity_id, told["results"])})

    def _retired(self, entity_id: str, events: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Where the events are that the first of these follows; null where it follows none, or they are here."""
        if events and events[0]["sequence"] == 1:
            return None
        anchor = anchors_of(self.flow.entity_type, entity_id).first()
        return {"upto_sequence": anchor.sequence, **anchor.retirement.as_dict()} if anchor else None

    def post(self, request: Request, entity_id: str) -> HttpResponse:
        posted = Posted(request, Firing, takes_more=True)
        asked = posted.said
        outcome = door.transition(
            self.model,
            entity_id,
            asked.trigger,
            actor=firing(request, self.flow, asked.trigger),
            params=posted.further,
            reason=asked.reason,
            metadata=asked.metadata,
            expected_version=asked.expected_version,
            request=posted.key,
            dry_run=asked.dry_run,
        )
        return self.moved(outcome)


class Firing(bodies.Body):
    """What stands beside a trigger's own fields, which the door reads."""

    trigger: str
    reason: str = ""
    metadata: dict[str, Any] = {}
    expected_version: int | None = None
    dry_run: bool = False


class Explain(OfMachine):
    def get(self, request: Request, entity_id: str) -> HttpResponse:
        """For somebody who only reads: as seen by whoever may fire each move."""
        reads_only = isinstance(request.auth, Token) and not request.auth.may(Scope.AGENT)
        actor = None if reads_only else acting(request)
        told = stuck.explain(self.model, entity_id, actor=actor, sight=permissions.sight(request))
        return answer(told.as_dict())


class Override(OfMachine):
    # Whether somebody may override is for the door to say: what it refuses, it keeps on record.
    writes_need, action, leaves_rights_to_the_door = Scope.READ, "override", True

    class Asked(bodies.Body):
        to_state: str
        reason: str
        category: str
        metadata: dict[str, Any] = {}
        expected_version: int | None = None
        dry_run: bool = False

    def post(self, request: Request, entity_id: str) -> HttpResponse:
        posted = Posted(request, self.Asked)
        asked = posted.said
        outcome = door.override(
            self.model,
            entity_id,
            asked.to_state,
            actor=acting(request),
            reason=asked.reason,
            category=asked.category,
            approver=_approver(request),
            metadata=asked.metadata,
            expected_version=asked.expected_version,
            request=posted.key,
            dry_run=asked.dry_run,
        )
        return self.moved(outcome)


def _approver(request: Request) -> Actor | Refusal | None:
    """The second person, who shows a token of their own: whose name it is need not be believed.

    One that is no good is for the door to refuse, which keeps what it refuses.
    """
    try:
        token = authentication.read(request.META.get(APPROVER, ""))
    except NotAuthenticated:
        return PermissionDenied("the second person's token is not valid", required="second_person")
    return token.as_operator() if token else None


APPROVER = "HTTP_APPROVER_AUTHORIZATION"


class Retry(OfMachine):
    class Asked(bodies.Body):
        reason: str = ""
        dry_run: bool = False

    def post(self, request: Request, entity_id: str) -> HttpResponse:
        posted, actor = Posted(request, self.Asked), acting(request)
        asked, key = posted.said, posted.key
        return self.newborn(
            door.retry(self.model, entity_id, actor=actor, reason=asked.reason, request=key, dry_run=asked.dry_run)
        )


BY_ENTITY = (("transitions", Transitions), ("explain", Explain), ("override", Override), ("retry", Retry))


def addresses(flows: Iterable[Flow] | None = None) -> list[URLPattern]:
    from .bulk import BulkTransitions

    made = []
    for flow in registry.flows() if flows is None else flows:
        name, entity = flow.collection, f"{flow.collection}/<str:entity_id>"
        made += [
            path(f"{name}/", Collection.made_for(flow=flow), name=f"{name}-list"),
            path(f"{name}/bulk-transitions/", BulkTransitions.made_for(flow=flow), name=f"{name}-bulk"),
            path(f"{entity}/", Detail.made_for(flow=flow), name=f"{name}-detail"),
        ]
        for call, view in BY_ENTITY:
            made.append(path(f"{entity}/{call}/", view.made_for(flow=flow), name=f"{name}-{call}"))
    return made
