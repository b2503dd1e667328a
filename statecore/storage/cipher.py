"""Encrypts secrets that have to be read again, such as those that sign webhooks, with the key of the installation.

The key is derived from Django's secret key, which every process has and which is not in the database. A text is bound
to its row: moved to another row, it cannot be read.
"""

from __future__ import annotations

import base64
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

PURPOSE = b"statecore stored secrets"
KEY_BYTES, NONCE_BYTES = 32, 12


class UnreadableSecret(Exception):
    """The text was encrypted with another secret key, for another row, or was changed."""


def encrypt(secret: str, row: str) -> str:
    nonce = os.urandom(NONCE_BYTES)
    sealed = AESGCM(_derive_key()).encrypt(nonce, secret.encode(), row.encode())
    return base64.b64encode(nonce + sealed).decode()


def decrypt(text: str, row: str) -> str:
    try:
        sealed = base64.b64decode(text, validate=True)
        return AESGCM(_derive_key()).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], row.encode()).decode()
    except (InvalidTag, ValueError):
        raise UnreadableSecret(f"the secret of {row} cannot be read: was STATECORE_SECRET_KEY changed?") from None


def _derive_key() -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=PURPOSE).derive(settings.SECRET_KEY.encode())
