"""Signed notes, checkpoints and cosignatures."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from statecore_client.transparency.checkpoint import (
    Checkpoint,
    cosign,
    open_checkpoint,
    sign_checkpoint,
    verify_cosignature,
)
from statecore_client.transparency.notes import (
    COSIGNATURE,
    InvalidNote,
    Note,
    SignerKey,
    VerifierKey,
    verify_note,
)

# The example of the specification.
NEUMANN = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
SIGNER = SignerKey.generate("example.com/journal")
WITNESS = SignerKey.generate("witness.example/w1", COSIGNATURE)
CHECKPOINT = Checkpoint("example.com/journal", 7, b"r" * 32, 2)


def test_the_example_of_the_specification_verifies() -> None:
    note = Note.parse(NOTE)

    verify_note(note, VerifierKey.parse(NEUMANN))
    assert (str(note), str(VerifierKey.parse(NEUMANN))) == (NOTE, NEUMANN)


def test_a_changed_note_does_not_verify() -> None:
    with pytest.raises(InvalidNote, match="is wrong"):
        verify_note(Note.parse(NOTE.replace("think", "know")), VerifierKey.parse(NEUMANN))


def test_a_checkpoint_has_origin_size_root_and_epoch() -> None:
    note = str(sign_checkpoint(CHECKPOINT, SIGNER))

    assert note.startswith("example.com/journal\n7\ncnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=\nepoch 2\n\n— example")
    assert open_checkpoint(note, SIGNER.verifier) == CHECKPOINT


def test_a_checkpoint_of_another_key_is_refused() -> None:
    with pytest.raises(InvalidNote, match="no signature by the key"):
        open_checkpoint(str(sign_checkpoint(CHECKPOINT, SIGNER)), SignerKey.generate("example.com/journal").verifier)


def test_a_key_signs_for_its_origin_only() -> None:
    note = str(sign_checkpoint(CHECKPOINT._replace(origin="example.com/other"), SIGNER))
    with pytest.raises(InvalidNote, match=r"is of 'example\.com/other'"):
        open_checkpoint(note, SIGNER.verifier)


def test_a_private_key_can_be_stored_and_read() -> None:
    assert SignerKey.parse(SIGNER.export() + "\n") == SIGNER
    assert "PRIVATE" not in repr(SIGNER)


BROKEN_KEYS = {
    "": "has the form",
    "name": "has the form",
    "na me+c74f20a3+ARpc": "has the form",
    NEUMANN.replace("c74f20a3", "c74f20a4"): "mistyped",
    NEUMANN[:-4]: "not an Ed25519 key",
    NEUMANN.replace("ARpc", "A!pc"): "not base64",
}


@pytest.mark.parametrize("text", BROKEN_KEYS)
def test_a_mistyped_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidNote, match=BROKEN_KEYS[text]):
        VerifierKey.parse(text)


@pytest.mark.parametrize(
    "text", ["", "a\n", "a\n\n", "a\n\nb\n", "a\n\n— name\n", "a\n\n— name !!\n", "a\n\n— name AAAA\n"]
)
def test_a_text_without_signatures_is_not_a_note(text: str) -> None:
    with pytest.raises(InvalidNote):
        Note.parse(text)


@pytest.mark.parametrize("text", ["", "a\n", "a\n1\n", "a\n-1\nAAAA\n", "a\n01\nAAAA\n", "a\n1\nAAAA\n"])
def test_a_text_that_is_not_a_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(InvalidNote):
        Checkpoint.parse(text)


def test_a_cosignature_has_the_time_of_the_witness() -> None:
    note = sign_checkpoint(CHECKPOINT, SIGNER)
    signature = cosign(note, WITNESS, AT)

    assert verify_cosignature(note.text, signature, WITNESS.verifier) == ("witness.example/w1", AT)
    assert open_checkpoint(str(note.add(signature)), SIGNER.verifier) == CHECKPOINT
    with pytest.raises(InvalidNote, match="is wrong"):
        verify_cosignature(note.text.replace("7", "8"), signature, WITNESS.verifier)
    with pytest.raises(InvalidNote, match="not a cosignature by"):
        verify_cosignature(note.text, signature, SignerKey.generate("w2", COSIGNATURE).verifier)
