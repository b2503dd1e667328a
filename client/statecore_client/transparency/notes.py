"""Signed notes (C2SP `signed-note`): a text with signatures, and the Ed25519 keys that make and verify them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ED25519, COSIGNATURE = 0x01, 0x04
DASH = "\u2014"
PRIVATE = "PRIVATE+KEY+"
KEY_ID_SIZE, KEY_SIZE, SIGNATURE_SIZE = 4, 32, 64
MAX_NOTE_SIZE = 1_000_000
# A name has no white space and no plus sign, which separates the parts of an encoded key.
NAME = re.compile(r"[^\s+]{1,200}")


class InvalidNote(ValueError):
    """A key, a note or a signature cannot be read, or does not verify. The message is the rest of a sentence."""


def encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


def decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise InvalidNote(f"{text[:60]!r} is not base64") from None


def compute_key_id(name: str, algorithm: int, public_key: bytes) -> bytes:
    return hashlib.sha256(f"{name}\n".encode() + bytes([algorithm]) + public_key).digest()[:KEY_ID_SIZE]


class VerifierKey(NamedTuple):
    """A public key, written `name+id+base64`."""

    name: str
    algorithm: int
    public_key: bytes

    @property
    def key_id(self) -> bytes:
        return compute_key_id(self.name, self.algorithm, self.public_key)

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{encode(bytes([self.algorithm]) + self.public_key)}"

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        name, key_id, encoded = _split_key(text.strip(), "NAME+ID+BASE64")
        material = decode(encoded)
        if len(material) != 1 + KEY_SIZE or material[0] not in (ED25519, COSIGNATURE):
            raise InvalidNote("the key is not an Ed25519 key")
        key = cls(name, material[0], material[1:])
        if key.key_id.hex() != key_id:
            raise InvalidNote("the key does not match its id: it was mistyped or cut off")
        return key

    def verify(self, signature: bytes, message: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.public_key).verify(signature, message)
        except InvalidSignature:
            return False
        return True


class Signer(Protocol):
    """Signs with a private key that may be in another place."""

    @property
    def verifier(self) -> VerifierKey: ...

    def sign(self, message: bytes) -> bytes: ...


@dataclass(frozen=True)
class SignerKey:
    """A private key, written `PRIVATE+KEY+name+id+base64`."""

    name: str
    algorithm: int
    seed: bytes

    def __repr__(self) -> str:
        return f"SignerKey({self.name!r})"  # without the secret

    @classmethod
    def generate(cls, name: str, algorithm: int = ED25519) -> SignerKey:
        if not NAME.fullmatch(name):
            raise InvalidNote(f"{name[:60]!r} cannot be a name: it is empty, too long, or contains spaces or +")
        return cls(name, algorithm, Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def parse(cls, text: str) -> SignerKey:
        text = text.strip()
        if not text.startswith(PRIVATE):
            raise InvalidNote(f"a private key begins with {PRIVATE}")
        name, key_id, encoded = _split_key(text.removeprefix(PRIVATE), f"{PRIVATE}NAME+ID+BASE64")
        material = decode(encoded)
        if len(material) != 1 + KEY_SIZE or material[0] not in (ED25519, COSIGNATURE):
            raise InvalidNote("the private key is not an Ed25519 key")
        key = cls(name, material[0], material[1:])
        if key.verifier.key_id.hex() != key_id:
            raise InvalidNote("the private key does not match its id: it was mistyped or cut off")
        return key

    def export(self) -> str:
        material = encode(bytes([self.algorithm]) + self.seed)
        return f"{PRIVATE}{self.name}+{self.verifier.key_id.hex()}+{material}"

    @property
    def verifier(self) -> VerifierKey:
        private = Ed25519PrivateKey.from_private_bytes(self.seed)
        return VerifierKey(self.name, self.algorithm, private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)


def _split_key(text: str, form: str) -> list[str]:
    # Base64 may contain a plus sign, so only the first two separate.
    parts = text.split("+", 2)
    if len(parts) != 3 or not NAME.fullmatch(parts[0]) or not re.fullmatch("[0-9a-f]{8}", parts[1]):
        raise InvalidNote(f"a key has the form {form}")
    return parts


class Signature(NamedTuple):
    name: str
    key_id: bytes
    content: bytes

    def __str__(self) -> str:
        return f"{DASH} {self.name} {encode(self.key_id + self.content)}"

    @classmethod
    def parse(cls, line: str) -> Signature:
        parts = line.split(" ")
        if len(parts) != 3 or parts[0] != DASH or not NAME.fullmatch(parts[1]):
            raise InvalidNote(f"{line[:60]!r} is not a signature line")
        content = decode(parts[2])
        if len(content) <= KEY_ID_SIZE:
            raise InvalidNote(f"the signature of {parts[1]} is too short")
        return cls(parts[1], content[:KEY_ID_SIZE], content[KEY_ID_SIZE:])

    def is_by(self, key: VerifierKey) -> bool:
        return (self.name, self.key_id) == (key.name, key.key_id)


class Note(NamedTuple):
    """A text of complete lines, and its signatures."""

    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        return self.text + "\n" + "".join(f"{signature}\n" for signature in self.signatures)

    @classmethod
    def parse(cls, content: str) -> Note:
        text, found, signatures = content.rpartition("\n\n")
        if not found or not signatures.endswith("\n") or len(content) > MAX_NOTE_SIZE:
            raise InvalidNote("this is not a signed note: a text, an empty line and signatures")
        return cls(text + "\n", tuple(map(Signature.parse, signatures.removesuffix("\n").split("\n"))))

    def add(self, *signatures: Signature) -> Note:
        return Note(self.text, (*self.signatures, *signatures))


def sign_note(text: str, signer: Signer) -> Note:
    key = signer.verifier
    return Note(text, (Signature(key.name, key.key_id, signer.sign(text.encode())),))


def verify_note(note: Note, key: VerifierKey) -> None:
    """Raises InvalidNote unless the note has a valid signature by this key; other signatures are ignored."""
    for signature in note.signatures:
        if signature.is_by(key):
            if len(signature.content) == SIGNATURE_SIZE and key.verify(signature.content, note.text.encode()):
                return
            raise InvalidNote(f"the signature of {key.name} is wrong")
    raise InvalidNote(f"there is no signature by the key {key.name}+{key.key_id.hex()}")
