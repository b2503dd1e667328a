"""The REST calls of witnesses: cosignatures are verified, stored with their checkpoint, and listed."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from statecore.journal import Event, SignedCheckpoint, proofs
from statecore.journal.checkpoints import find_checkpoint
from statecore.kernel.clock import now
from statecore.operations import doctor, integrity
from statecore.project import environment, startup
from statecore_client.transparency.checkpoint import cosign, open_checkpoint, sign_checkpoint, verify_cosignature
from statecore_client.transparency.notes import COSIGNATURE, Note, SignerKey
from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.integrity.rewriting import rewrite
from tests.support import world
from tests.support.sequencer import sign

pytestmark = pytest.mark.django_db(transaction=True)

ONE, TWO, STRANGER = (SignerKey.generate(f"witness.example/{name}", COSIGNATURE) for name in ("one", "two", "stranger"))


@pytest.fixture(autouse=True)
def _configured(home: Path, settings: Any) -> None:
    settings.STATECORE_WITNESSES = (ONE.verifier, TWO.verifier)
    world.workstream()
    sign()


def build(text: str, key: SignerKey = ONE, at: datetime | None = None) -> dict[str, str]:
    return {"checkpoint": text, "cosignature": str(cosign(Note.parse(text), key, at or now()))}


def get_checkpoint(caller: Caller) -> str:
    return str(caller.get("audit/checkpoint/").content.decode())


def test_a_cosignature_is_stored_and_appended_to_the_checkpoint() -> None:
    caller = Caller("read")
    text = get_checkpoint(caller)
    for key, names in ((ONE, [ONE.name]), (TWO, [ONE.name, TWO.name]), (ONE, [ONE.name, TWO.name])):
        assert expect_ok(caller.post("audit/cosignatures/", build(text, key)))["witnesses"] == names

    note = Note.parse(get_checkpoint(caller))
    assert [signature.name for signature in note.signatures] == [proofs.get_key().name, TWO.name, ONE.name]
    for key in (ONE, TWO):
        signature = next(each for each in note.signatures if each.is_by(key.verifier))
        assert verify_cosignature(note.text, signature, key.verifier).witness == key.name
    proof = proofs.prove_event(world.last_event(world.model("Run").objects.get())["event_id"])
    assert ONE.name in proof["checkpoint"]


def test_a_cosignature_of_a_checkpoint_that_was_replaced_is_stored() -> None:
    """The journal signs every few seconds and keeps few checkpoints, so the witness sends the one that it has seen."""
    caller = Caller("read")
    text = get_checkpoint(caller)
    world.run()
    sign()
    assert SignedCheckpoint.objects.count() == 1
    answer = expect_ok(caller.post("audit/cosignatures/", build(text)))

    assert (answer["size"], SignedCheckpoint.objects.count()) == (2, 2)
    assert find_checkpoint(1).size == 2
    sign()
    assert SignedCheckpoint.objects.filter(size=2).exists()


def test_of_each_hour_the_newest_checkpoint_of_each_witness_is_kept() -> None:
    caller, hour = Caller("read"), now().replace(minute=0, second=0, microsecond=0)
    before = Event.objects.count()
    for minute, key in ((1, ONE), (2, TWO), (3, ONE), (4, ONE)):
        with time_machine.travel(hour + timedelta(minutes=minute), tick=False):
            world.run()
            sign()
            expect_ok(caller.post("audit/cosignatures/", build(get_checkpoint(caller), key)))

    assert list(SignedCheckpoint.objects.order_by("size").values_list("size", flat=True)) == [before + 2, before + 4]


def test_what_does_not_verify_is_refused_and_not_stored() -> None:
    caller = Caller("read")
    text = get_checkpoint(caller)
    forger = SignerKey.generate(proofs.get_key().name)
    checkpoint = open_checkpoint(text, proofs.get_key())
    forged = str(sign_checkpoint(checkpoint, forger))
    bodies: dict[str, dict[str, Any]] = {
        "a witness that is not configured": build(text, STRANGER),
        "the name of a witness with another key": build(text, SignerKey.generate(ONE.name, COSIGNATURE)),
        "a time in the future": build(text, ONE, now() + timedelta(hours=1)),
        "a checkpoint by another key": build(forged),
        "a cosignature of another checkpoint": {**build(text.replace("\n2\n", "\n1\n")), "checkpoint": text},
        "no checkpoint": {**build(text), "checkpoint": "hello"},
        "no cosignature": {**build(text), "cosignature": "hello"},
        "missing fields": {},
    }
    for name, body in bodies.items():
        response = caller.post("audit/cosignatures/", body)
        assert response.status_code == 400, name
        expect_refusal(response, 400, "invalid")
    assert SignedCheckpoint.objects.get().cosignatures == ""


def test_a_checkpoint_that_contradicts_the_tree_is_refused() -> None:
    caller = Caller("read")
    text = get_checkpoint(caller)
    rewrite(lambda history: history[0].members.update(actor="mallory"))

    problem = expect_refusal(caller.post("audit/cosignatures/", build(text)), 400, "invalid")
    assert "contradicts the journal" in str(problem["errors"])


def test_cosignatures_need_the_permission_to_read_events() -> None:
    text = get_checkpoint(Caller("read"))
    expect_refusal(Client().post("/api/v1/audit/cosignatures/", build(text)), 401, "not_authenticated")
    user = User.objects.create_user("half")
    user.user_permissions.set(Permission.objects.filter(codename="view_run"))
    caller = Caller("read", user=user)
    expect_refusal(caller.post("audit/cosignatures/", build(text)), 403, "permission_denied")
    expect_refusal(caller.get("audit/witnesses/"), 403, "permission_denied")


def test_the_status_of_the_witnesses_is_shown_everywhere(settings: Any) -> None:
    caller, at = Caller("read"), now().replace(microsecond=0)
    expect_ok(caller.post("audit/cosignatures/", build(get_checkpoint(caller), ONE, at)))

    one, two = expect_ok(caller.get("audit/witnesses/"))["results"]
    assert one["cosigned_at"] == at.isoformat().replace("+00:00", ".000000Z")
    assert (one["name"], one["size"], one["silent"]) == (ONE.name, 2, False)
    assert (two["name"], two["size"], two["cosigned_at"], two["silent"]) == (TWO.name, 0, None, False)
    messages = [result.message for result in doctor.run_checks(["witnesses"])]
    assert [ONE.name in messages[0], f"{TWO.name} has cosigned nothing yet" in messages[1]] == [True, True]
    page = Client()
    page.force_login(caller.user)
    shown = page.get("/audit/").content.decode()
    assert (ONE.name in shown, "Never" in shown, "silent" in shown) == (True, True, False)


def test_a_silent_witness_is_a_finding_that_does_not_keep_processes_from_starting(settings: Any) -> None:
    caller = Caller("read")
    expect_ok(caller.post("audit/cosignatures/", build(get_checkpoint(caller))))
    assert integrity.check_recent() == []
    with time_machine.travel(now() + timedelta(seconds=settings.STATECORE_WITNESS_SECONDS + 1), tick=False):
        findings = integrity.check_recent()
        levels = [result.level for result in doctor.run_checks(["witnesses"])]
        startup.check_integrity(start_anyway=False)

    assert [(finding.check, finding.severity) for finding in findings] == [(integrity.WITNESS_CHECK, "error")] * 2
    assert levels == ["error", "error"]


def test_a_forged_cosignature_in_the_database_does_not_count() -> None:
    line = str(
        cosign(Note.parse(SignedCheckpoint.objects.get().note), SignerKey.generate(ONE.name, COSIGNATURE), now())
    )
    SignedCheckpoint.objects.update(cosignatures=f"{line}\n")

    assert expect_ok(Caller("read").get("audit/witnesses/"))["results"][0]["size"] == 0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("nonsense", "cannot be used"),
        (str(SignerKey.generate("a.example/journal").verifier), "is not the public key of a witness"),
        (f"{ONE.verifier},{ONE.verifier}", "twice"),
    ],
    ids=["nonsense", "key of a journal", "named twice"],
)
def test_an_unusable_setting_is_refused(given: str, sentence: str) -> None:
    with pytest.raises((ImproperlyConfigured, ValueError, SystemExit), match=sentence):
        environment.read({"STATECORE_WITNESSES": given})
