"""Passkeys as a second factor (WebAuthn): adding one, and proving to hold one.

The page has the options for the browser, and the session the challenge in them. Each challenge is used once.
"""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from statecore.kernel.clock import now
from statecore.records import Passkey
from statecore.records.passkey import NAME_LENGTH

CREATE, GET = "passkey_create", "passkey_get"  # keys in the session
# The password was the first factor: the key need not ask for another one.
UNVERIFIED = UserVerificationRequirement.DISCOURAGED
MAX_PASSKEYS = 20
MAX_RESPONSE = 65_536
# What the library raises for a response that is not one, or not a valid one.
INVALID = (ValueError, KeyError, TypeError, AttributeError, AssertionError)


def list_passkeys(user: Any) -> list[Passkey]:
    return list(Passkey.objects.filter(user=user).order_by("created_at"))


def start_creation(request: HttpRequest, user: User, known: list[Passkey]) -> dict[str, Any]:
    """Options for `navigator.credentials.create`; the browser refuses a key that is known."""
    named = PublicKeyCredentialUserEntity(id=str(user.pk).encode(), name=user.username, display_name=user.username)
    options, request.session[CREATE] = _server(request).register_begin(
        named,
        credentials=_credentials(known),
        resident_key_requirement=ResidentKeyRequirement.DISCOURAGED,
        user_verification=UNVERIFIED,
    )
    return dict(options.public_key)


def create(request: HttpRequest, user: User, name: str, response: str) -> Passkey | None:
    """Stores the new passkey; returns None if the response of the browser is not valid."""
    state = request.session.pop(CREATE, None)
    try:
        data = _server(request).register_complete(state, _parse(response)).credential_data
    except INVALID:
        return None
    if data is None or Passkey.objects.filter(user=user).count() >= MAX_PASSKEYS:
        return None
    named = name.replace("\0", "").strip()[:NAME_LENGTH] or "passkey"
    if Passkey.objects.filter(credential_id=data.credential_id).exists():
        return None
    return Passkey.objects.create(user=user, name=named, credential_id=data.credential_id, credential=bytes(data))


def start_proof(request: HttpRequest, known: list[Passkey]) -> dict[str, Any] | None:
    """Options for `navigator.credentials.get`; None if the user has no passkey."""
    if not known:
        return None
    options, request.session[GET] = _server(request).authenticate_begin(_credentials(known), UNVERIFIED)
    return dict(options.public_key)


def prove(request: HttpRequest, user: Any, response: str) -> bool:
    """Whether the response of the browser is signed by a passkey of the user, for the challenge of the page."""
    state = request.session.pop(GET, None)
    with transaction.atomic():
        known = {bytes(each.credential_id): each for each in Passkey.objects.select_for_update().filter(user=user)}
        try:
            answer = AuthenticationResponse.from_dict(_parse(response))
            used = _server(request).authenticate_complete(state, _credentials(known.values()), answer)
        except INVALID:
            return False
        return _note_use(known[used.credential_id], answer.response.authenticator_data.counter)


def _note_use(passkey: Passkey, uses: int) -> bool:
    """Refuses a counter that does not go up: the key was copied."""
    if (uses or passkey.uses) and uses <= passkey.uses:
        return False
    Passkey.objects.filter(pk=passkey.pk).update(uses=uses, last_used_at=now())
    return True


def remove(user: Any, passkey_id: str) -> bool:
    """Removes it; False if the user has no such passkey."""
    if not passkey_id.isascii() or not passkey_id.isdigit() or len(passkey_id) > 18:
        return False
    return bool(Passkey.objects.filter(user=user, pk=passkey_id).delete()[0])


def _server(request: HttpRequest) -> Fido2Server:
    """For this site only: its name without the port identifies it, and the whole origin has to be right."""
    origin = request.build_absolute_uri("/").rstrip("/")
    site = PublicKeyCredentialRpEntity(name="Statecore", id=request.get_host().partition(":")[0])
    return Fido2Server(site, verify_origin=lambda given: given == origin)


def _credentials(known: Any) -> list[AttestedCredentialData]:
    return [AttestedCredentialData(bytes(each.credential)) for each in known]


def _parse(response: str) -> dict[str, Any]:
    if len(response) > MAX_RESPONSE:
        raise ValueError("the response is too long")
    found = json.loads(response)
    if not isinstance(found, dict):
        raise ValueError("the response is not an object")
    return found
