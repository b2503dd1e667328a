"""The key that signs checkpoints. It is never in the database: a file, an environment variable, or a program."""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from statecore_client.transparency.notes import SIGNATURE_SIZE, InvalidNote, Signer, SignerKey, VerifierKey, decode

KEY_FILE = "journal.key"
PROGRAM_SECONDS = 10.0


class SigningFailed(Exception):
    """The key is missing or the program does not sign. The message is a sentence."""


@dataclass(frozen=True)
class ProgramSigner:
    """Signs with a program, such as a client of a KMS: standard input is the message, the output its signature."""

    command: tuple[str, ...]
    verifier: VerifierKey

    def sign(self, message: bytes) -> bytes:
        try:
            done = subprocess.run(self.command, input=message, capture_output=True, timeout=PROGRAM_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise SigningFailed(f"STATECORE_JOURNAL_SIGNER failed: {error}.") from None
        signature = done.stdout
        if len(signature) != SIGNATURE_SIZE:
            try:
                signature = decode(signature.decode("ascii", "replace").strip())
            except InvalidNote:
                raise SigningFailed("STATECORE_JOURNAL_SIGNER printed neither 64 bytes nor base64.") from None
        if not self.verifier.verify(signature, message):
            raise SigningFailed("STATECORE_JOURNAL_SIGNER signs with another key than STATECORE_JOURNAL_VERIFIER_KEY.")
        return signature


def get_key_path() -> Path:
    return Path(settings.STATECORE_HOME) / KEY_FILE


def find_signer() -> Signer | None:
    """Returns the configured signer, or None if there is no key yet. Raises SigningFailed if the key is unusable."""
    try:
        if settings.STATECORE_JOURNAL_SIGNER:
            key = VerifierKey.parse(settings.STATECORE_JOURNAL_VERIFIER_KEY)
            return ProgramSigner(tuple(shlex.split(settings.STATECORE_JOURNAL_SIGNER)), key)
        if settings.STATECORE_JOURNAL_KEY:
            return SignerKey.parse(settings.STATECORE_JOURNAL_KEY)
        return _read_key(get_key_path())
    except InvalidNote as error:
        raise SigningFailed(f"The key of the journal is unusable: {error}.") from None


def _read_key(path: Path) -> SignerKey | None:
    try:
        if path.stat().st_mode & 0o077:
            raise SigningFailed(f"{path} can be read by others: run `chmod 600 {path}`.")
        return SignerKey.parse(path.read_text())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SigningFailed(f"{path} cannot be read: {error.strerror}.") from None


def create_key() -> SignerKey:
    """Generates a key and stores it in its file. Raises FileExistsError if there is one."""
    key = SignerKey.generate(settings.STATECORE_JOURNAL_NAME or f"statecore/{secrets.token_hex(6)}")
    path = get_key_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(key.export() + "\n")
        file.flush()
        os.fsync(file.fileno())
    return key
