"""Proofs for outsiders: the key, the newest checkpoint, and the inclusion and consistency proofs."""

from __future__ import annotations

from django.http import HttpResponse

from statecore.journal import Event, accounts, proofs, witnesses
from statecore.kernel import registry
from statecore.kernel.clock import rfc3339
from statecore.kernel.refusals import Invalid
from statecore.records.token import Scope

from ..access import VIEW_EVENT, require_permission, require_visible
from ..query_params import RequestParams
from ..request import Request
from ..request_body import Body, RequestBody
from ..responses import json_response
from ..views import ApiView


class Key(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Return the public key of the journal."""
        RequestParams(request)
        require_permission(request, VIEW_EVENT)
        key = proofs.get_key()
        return json_response({"name": key.name, "algorithm": "ed25519", "verifier_key": str(key)})


class NewestCheckpoint(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Return the newest checkpoint with its cosignatures."""
        RequestParams(request)
        require_permission(request, VIEW_EVENT)
        return HttpResponse(proofs.get_checkpoint().text, content_type="text/plain; charset=utf-8")


class Proof(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Return the proof that an event is in the journal."""
        params = RequestParams(request, "event")
        require_permission(request, VIEW_EVENT)
        event_id = params.get_text("event")
        if not event_id:
            raise Invalid({"event": ["must be the id of an event."]})
        entity_type = Event.objects.filter(pk=event_id).values_list("entity_type", flat=True).first()
        if entity_type == accounts.ENTITY_TYPE:
            require_permission(request, accounts.VIEW_ACCOUNTS)
        elif entity_type is not None:
            require_visible(request, registry.flow(entity_type))
        return json_response(proofs.prove_event(event_id))


class Consistency(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Return the proof that the journal only grew between two sizes."""
        params = RequestParams(request, "first", "second")
        require_permission(request, VIEW_EVENT)
        first, second = params.get_number("first"), params.get_number("second")
        if first is None or second is None:
            raise Invalid({name: ["is required."] for name in ("first", "second") if params.get_number(name) is None})
        return json_response(proofs.prove_growth(first, second))


class Witnesses(ApiView):
    def get(self, request: Request) -> HttpResponse:
        """Return the newest checkpoint that each witness has cosigned."""
        RequestParams(request)
        require_permission(request, VIEW_EVENT)
        return json_response({"results": [status.as_dict() for status in witnesses.list_witnesses()]})


class Cosignatures(ApiView):
    # The signature of a configured witness authorises the call.
    writes_need = (Scope.READ,)

    class Fields(Body):
        checkpoint: str
        cosignature: str

    def post(self, request: Request) -> HttpResponse:
        """Store the cosignature of a witness with its checkpoint. Repeating the call changes nothing."""
        require_permission(request, VIEW_EVENT)
        fields = RequestBody(request, self.Fields).fields
        signed = witnesses.add_cosignature(fields.checkpoint, fields.cosignature)
        names = sorted(signed.list_witnesses())
        return json_response({"size": signed.size, "signed_at": rfc3339(signed.signed_at), "witnesses": names})
