"""Proofs for outsiders: the key, the newest checkpoint, and the inclusion and consistency proofs."""

from __future__ import annotations

from django.http import HttpResponse

from statecore.journal import Event, accounts, proofs, witnesses
from statecore.kernel import registry
from statecore.kernel.clock import rfc3339
from statecore.kernel.refusals import Invalid
from statecore.records.token import Scope

from ..access import VIEW_EVENT, require_permission, require_visible
from ..openapi.fields import TIME, nullable
from ..openapi.operation import POSITION, TEXT_PARAM, operation, query, required
from ..openapi.schemas import COUNT, FLAG, STRING, array, component, obj
from ..request import Request
from ..request_body import Body, RequestBody
from ..responses import json_response
from ..views import ApiView

PROOF = component(
    "EventProof",
    obj(
        {
            "position": COUNT,
            "epoch": COUNT,
            "body": STRING,
            "leaf_hash": STRING,
            "inclusion": array(STRING),
            "checkpoint": STRING,
        }
    ),
    "The proof that an event is in the journal.",
)
WITNESS = obj({"name": STRING, "verifier_key": STRING, "size": COUNT, "cosigned_at": nullable(TIME), "silent": FLAG})


class Key(ApiView):
    route = "audit/key/"
    read_permission = VIEW_EVENT

    @operation(
        "Read the public key of the journal",
        {
            200: component(
                "AuditKey",
                obj({"name": STRING, "algorithm": {"const": "ed25519"}, "verifier_key": STRING}),
                "The public key of the journal.",
            )
        },
        name="get_audit_key",
    )
    def get(self, request: Request) -> HttpResponse:
        self.params(request)
        key = proofs.get_key()
        return json_response({"name": key.name, "algorithm": "ed25519", "verifier_key": str(key)})


class NewestCheckpoint(ApiView):
    route = "audit/checkpoint/"
    read_permission = VIEW_EVENT

    @operation(
        "Read the newest signed checkpoint",
        {200: None},
        description="A signed note: the name of the journal, the number of positions, the root of the tree in base64, "
        "a line `epoch N`, an empty line, the signature of the journal and the cosignatures of witnesses.",
        other_types={"text/plain": STRING},
        name="get_audit_checkpoint",
    )
    def get(self, request: Request) -> HttpResponse:
        self.params(request)
        return HttpResponse(proofs.get_checkpoint().text, content_type="text/plain; charset=utf-8")


class Proof(ApiView):
    route = "audit/proof/"
    read_permission = VIEW_EVENT

    @operation(
        "Prove that an event is in the journal",
        {200: PROOF},
        params=[required(query("event", TEXT_PARAM, "The id of the event."))],
        description="`body` has the canonical bytes of the event. `statecore verify` checks the proof with the public "
        "key only. The newest events are refused with `not_signed` until the next checkpoint, a few seconds later.",
        refusals=(409, 410),
        name="prove_event",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
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
    route = "audit/consistency/"
    read_permission = VIEW_EVENT

    @operation(
        "Prove that the journal only grew between two sizes",
        {
            200: component(
                "ConsistencyProof",
                obj({"first": COUNT, "second": COUNT, "proof": array(STRING)}),
                "The proof that the journal only grew between two sizes.",
            )
        },
        params=[
            required(query("first", POSITION, "The size in the older checkpoint.")),
            required(query("second", POSITION, "The size in the newer checkpoint.")),
        ],
        name="prove_consistency",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
        first, second = params.get_number("first"), params.get_number("second")
        if first is None or second is None:
            raise Invalid({name: ["is required."] for name in ("first", "second") if params.get_number(name) is None})
        return json_response(proofs.prove_growth(first, second))


class Witnesses(ApiView):
    route = "audit/witnesses/"
    read_permission = VIEW_EVENT

    @operation(
        "List the witnesses and what they have cosigned",
        {
            200: component(
                "Witnesses", obj({"results": array(WITNESS)}), "The newest checkpoint that each witness has cosigned."
            )
        },
        description="The witnesses are those in `STATECORE_WITNESSES`. `silent` is true if a witness has cosigned "
        "nothing for `STATECORE_WITNESS_SECONDS`.",
        name="list_witnesses",
    )
    def get(self, request: Request) -> HttpResponse:
        self.params(request)
        return json_response({"results": [status.as_dict() for status in witnesses.list_witnesses()]})


class Cosignatures(ApiView):
    route = "audit/cosignatures/"
    # The signature of a configured witness authorises the call.
    writes_need = (Scope.READ,)
    write_permission = VIEW_EVENT

    class Fields(Body):
        checkpoint: str
        cosignature: str

    @operation(
        "Store the cosignature of a witness",
        {
            200: component(
                "CosignedCheckpoint",
                obj({"size": COUNT, "signed_at": TIME, "witnesses": array(STRING)}),
                "A checkpoint and the witnesses that have cosigned it.",
            )
        },
        body=Fields,
        description="`checkpoint` is the text of `audit/checkpoint/`, `cosignature` a signature line as C2SP "
        "`tlog-cosignature` defines it. The key of the witness must be in `STATECORE_WITNESSES`. A token of scope "
        "`read` is enough, because the cosignature authorises the call. Repeating the call changes nothing.",
        name="cosign_checkpoint",
    )
    def post(self, request: Request) -> HttpResponse:
        fields = RequestBody(request, self.Fields).fields
        signed = witnesses.add_cosignature(fields.checkpoint, fields.cosignature)
        names = sorted(signed.list_witnesses())
        return json_response({"size": signed.size, "signed_at": rfc3339(signed.signed_at), "witnesses": names})
