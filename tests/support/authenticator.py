"""A passkey in software: it answers the options of a page as a browser does, or with single parts that are wrong."""

from __future__ import annotations

import json
import secrets
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2.cose import ES256
from fido2.utils import websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData

ORIGIN, SITE = "http://testserver", "testserver"
PRESENT, ATTESTED = 0x01, 0x40


class Authenticator:
    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.id = secrets.token_bytes(16)
        self.uses = 0

    def create(self, options: dict[str, Any], **wrong: Any) -> str:
        public = ES256.from_cryptography_key(self.key.public_key())
        credential = AttestedCredentialData.create(b"\0" * 16, self.id, public)
        data = self._data(options["rp"]["id"], PRESENT | ATTESTED, credential)
        client = self._client("webauthn.create", options, **wrong)
        attestation = bytes(AttestationObject.create("none", data, {}))
        return self._answer({"clientDataJSON": client, "attestationObject": attestation})

    def get(self, options: dict[str, Any], **wrong: Any) -> str:
        self.uses = wrong.get("uses", self.uses + 1)
        data = self._data(wrong.get("site", options["rpId"]), wrong.get("flags", PRESENT))
        client = self._client("webauthn.get", options, **wrong)
        signature = self.key.sign(bytes(data) + sha256(client).digest(), ec.ECDSA(SHA256()))
        return self._answer({"clientDataJSON": client, "authenticatorData": bytes(data), "signature": signature})

    def _data(self, site: str, flags: int, credential: Any = b"") -> AuthenticatorData:
        return AuthenticatorData.create(sha256(site.encode()).digest(), flags, self.uses, credential)

    def _client(self, kind: str, options: dict[str, Any], **wrong: Any) -> bytes:
        stated = {"type": kind, "challenge": options["challenge"], "origin": ORIGIN}
        return json.dumps(stated | {name: wrong[name] for name in stated if name in wrong}).encode()

    def _answer(self, response: dict[str, bytes]) -> str:
        name = websafe_encode(self.id)
        parts = {key: websafe_encode(value) for key, value in response.items()}
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": parts})
