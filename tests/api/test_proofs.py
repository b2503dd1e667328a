"""The REST calls that prove the journal to outsiders."""

from __future__ import annotations

import base64

import orjson
import pytest
from django.contrib.auth.models import Permission, User

from statecore.journal import Event, Position
from statecore_client.transparency.checkpoint import open_checkpoint
from statecore_client.transparency.merkle import HASH_SIZE, prove_inclusion, verify_consistency
from statecore_client.transparency.notes import VerifierKey, encode
from statecore_client.transparency.proofs import InvalidProof, verify_proof
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.support import world
from tests.support.sequencer import catch_up, sign

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("home")]


def signed_task() -> str:
    task = world.queued_task()
    sign()
    return Event.objects.filter(entity_id=task.pk).latest("sequence").pk


def read_key(caller: Caller) -> VerifierKey:
    answer = expect_ok(caller.get("audit/key/"))
    assert answer.keys() == {"name", "algorithm", "verifier_key"}
    assert answer["algorithm"] == "ed25519"
    return VerifierKey.parse(answer["verifier_key"])


def test_an_outsider_verifies_a_proof_with_the_key_only() -> None:
    event_id, caller = signed_task(), Caller("read")

    proof = expect_ok(caller.get(f"audit/proof/?event={event_id}"))

    assert proof.keys() == {"position", "epoch", "body", "leaf_hash", "inclusion", "checkpoint"}
    proven = verify_proof(proof, read_key(caller))
    assert (proven.event["event_id"], proven.position) == (event_id, Position.objects.get(event=event_id).position)
    for changed in ({"body": proof["body"].replace("queued", "failed")}, {"position": proof["position"] - 1}):
        with pytest.raises(InvalidProof):
            verify_proof({**proof, **changed}, read_key(caller))


def test_a_proof_is_smaller_than_2_kb_at_a_million_events() -> None:
    """Beside the event itself, which is usually 1 kB.

    The size of the tree only changes the number of hashes, so the tree need not exist.
    """
    event_id, caller = signed_task(), Caller("read")
    proof = expect_ok(caller.get(f"audit/proof/?event={event_id}"))
    path = prove_inclusion(proof["position"] - 1, 1_000_000, lambda first, last: bytes(HASH_SIZE))

    sent = orjson.dumps({**proof, "position": 1_000_000, "inclusion": [encode(node) for node in path]})

    assert len(path) == 20
    assert len(sent) - len(proof["body"]) < 1_500
    assert len(sent) < 2_500


def test_the_checkpoint_is_a_signed_note() -> None:
    signed_task()
    caller = Caller("read")

    response = caller.get("audit/checkpoint/")

    assert response["Content-Type"] == "text/plain; charset=utf-8"
    text = response.content.decode()
    assert text.splitlines()[3:5] == ["epoch 1", ""]
    assert open_checkpoint(text, read_key(caller)).size == Position.objects.count()


def test_two_checkpoints_are_proven_to_be_consistent() -> None:
    caller, found = Caller("read"), []
    for _ in range(2):
        signed_task()
        found.append(open_checkpoint(caller.get("audit/checkpoint/").content.decode(), read_key(caller)))
    old, new = found

    answer = expect_ok(caller.get(f"audit/consistency/?first={old.size}&second={new.size}"))

    assert (answer["first"], answer["second"]) == (old.size, new.size)
    path = [base64.b64decode(node) for node in answer["proof"]]
    assert verify_consistency(old.size, new.size, old.root, new.root, path)


REFUSALS = {
    "proof/": "invalid",
    "proof/?event=": "invalid",
    "proof/?event=evt_01M7JS8BYZQ2W8MVSSGRTD20QP": "not_found",
    "proof/?event=x&nonsense=1": "invalid",
    "consistency/": "invalid",
    "consistency/?first=1": "invalid",
    "consistency/?first=2&second=1": "invalid",
    "consistency/?first=1&second=1000000": "invalid",
    "consistency/?first=-1&second=1": "invalid",
    "consistency/?first=one&second=1": "invalid",
}


@pytest.mark.parametrize("query", REFUSALS)
def test_bad_requests_are_refused(query: str) -> None:
    signed_task()
    code = REFUSALS[query]
    expect_refusal(Caller("read").get(f"audit/{query}"), 404 if code == "not_found" else 400, code)


@pytest.mark.parametrize("path", ["key/", "checkpoint/"])
def test_there_is_no_key_before_the_first_checkpoint(path: str) -> None:
    expect_refusal(Caller("read").get(f"audit/{path}"), 404, "not_found")


def test_an_event_that_is_not_signed_yet_is_refused() -> None:
    caller = Caller("read")
    task = world.task()
    event = Event.objects.get(entity_id=task.pk)
    expect_refusal(caller.get(f"audit/proof/?event={event.pk}"), 409, "not_signed")

    catch_up()
    problem = expect_refusal(caller.get(f"audit/proof/?event={event.pk}"), 409, "not_signed")
    assert problem["position"] == Position.objects.get(event=event).position


@pytest.mark.parametrize("path", ["key/", "checkpoint/", "proof/?event=x", "consistency/?first=0&second=1"])
def test_proofs_need_the_permission_to_read_events(client, path: str) -> None:
    signed_task()
    expect_refusal(client.get(f"/api/v1/audit/{path}"), 401, "not_authenticated")
    user = User.objects.create_user("half")
    user.user_permissions.set(Permission.objects.filter(codename="view_run"))
    expect_refusal(Caller("read", user=user).get(f"audit/{path}"), 403, "permission_denied")


def test_a_proof_needs_the_permission_to_see_the_machine() -> None:
    event_id = signed_task()
    user = User.objects.create_user("half")
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_event", "view_run"]))

    expect_refusal(Caller("read", user=user).get(f"audit/proof/?event={event_id}"), 403, "permission_denied")
