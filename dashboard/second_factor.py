"""Two-factor authentication: codes from an authenticator app, passkeys, and recovery codes for when these are lost.

Between the password and the code the user is not logged in: the session stores the user's id for a few minutes.
Wrong codes count towards the lockout like wrong passwords.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import timedelta
from typing import Any

import segno
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.db import transaction
from django.http import HttpRequest
from django.utils.safestring import SafeString, mark_safe
from django_otp import verify_token
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from statecore import sessions
from statecore.accounts import caller
from statecore.journal import accounts
from statecore.kernel.clock import now
from statecore.records import Passkey

from . import passkeys

OFF = "off"
BACKEND = "django.contrib.auth.backends.ModelBackend"
PENDING = "password_was_right"  # key in the session
PENDING_LIFETIME = timedelta(minutes=5)
RECOVERY_CODES, RECOVERY_BYTES = 8, 10
HASH_LENGTH = 16  # the length of the column


def is_off() -> bool:
    return bool(settings.STATECORE_SECOND_FACTOR == OFF)


def get_device(user: Any) -> TOTPDevice | None:
    return None if is_off() else TOTPDevice.objects.filter(user=user, confirmed=True).first()


def is_set_up(user: Any) -> bool:
    return get_device(user) is not None or (not is_off() and Passkey.objects.filter(user=user).exists())


def is_due(user: Any) -> bool:
    """Whether this user needs more than a password."""
    return sessions.second_factor_is_required() or is_set_up(user)


# Login


def set_pending_user(request: HttpRequest, user: Any) -> None:
    request.session[PENDING] = {"user": user.pk, "at": now().timestamp()}


def get_pending_user(request: HttpRequest) -> User | None:
    """The user whose password was right a few minutes ago at most."""
    stored = request.session.get(PENDING)
    if stored is None or stored["at"] < (now() - PENDING_LIFETIME).timestamp():
        return None
    return User.objects.filter(pk=stored["user"], is_active=True).first()


def log_in(request: HttpRequest, user: Any) -> None:
    request.session.pop(PENDING, None)
    login(request, user, backend=BACKEND)
    request.session[sessions.SECOND_FACTOR_PASSED] = True


def is_locked(request: HttpRequest, user: Any) -> bool:
    return not AxesProxyHandler.is_allowed(request, {"username": user.get_username()})


def verify(request: HttpRequest, user: Any) -> bool:
    """Whether the form has a valid code, or the response of one of the user's passkeys."""
    response = request.POST.get("passkey", "")
    if not response:
        return verify_code(request, user, request.POST.get("code", ""))
    return passkeys.prove(request, user, response) or _count_failure(request, user)


def _count_failure(request: HttpRequest, user: Any) -> bool:
    """Towards the lockout."""
    user_login_failed.send(sender=__name__, credentials={"username": user.get_username()}, request=request)
    return False


def verify_code(request: HttpRequest, user: Any, given: str) -> bool:
    """Whether this is a valid code from the user's app, or a recovery code, which is then used up."""
    code = normalize_code(given)
    devices: list[Any] = [*TOTPDevice.objects.filter(user=user, confirmed=True)]
    if not (code.isdigit() and len(code) <= 8):
        devices, code = [*StaticDevice.objects.filter(user=user, confirmed=True)], hash_code(code)
    with transaction.atomic():
        used = next((device for device in devices if verify_token(user, device.persistent_id, code)), None)
        if isinstance(used, StaticDevice):
            actor = caller.get_request_actor(request, user)
            accounts.record(accounts.Action.RECOVERY_CODE_USED, accounts.Account.of_user(user), actor=actor)
    return used is not None or _count_failure(request, user)


def normalize_code(given: str) -> str:
    """Without spaces and dashes."""
    return "".join(letter for letter in given[:64] if letter.isascii() and letter.isalnum()).lower()


# Set-up


def start_enrolment(user: Any) -> TOTPDevice:
    """A device with a new secret; it cannot be used before `confirm_enrolment`."""
    found: TOTPDevice | None = TOTPDevice.objects.filter(user=user, confirmed=False).first()
    return found or TOTPDevice.objects.create(user=user, name="authenticator app", confirmed=False)


def confirm_enrolment(user: Any, given: str) -> list[str]:
    """Activates the device and returns recovery codes; returns none when the code is wrong."""
    device = start_enrolment(user)
    if verify_token(user, device.persistent_id, normalize_code(given)) is None:
        return []
    with transaction.atomic():
        TOTPDevice.objects.filter(user=user, confirmed=True).delete()
        device.refresh_from_db()  # verifying has stored the time of the code
        device.confirmed = True
        device.save(update_fields=["confirmed"])
        return make_recovery_codes(user)


def add_passkey(request: HttpRequest, user: Any) -> list[str] | None:
    """Adds the passkey of the form; returns recovery codes if there are none yet, None if the response is not valid."""
    with transaction.atomic():
        if passkeys.create(request, user, request.POST.get("name", ""), request.POST.get("passkey", "")) is None:
            return None
        return [] if count_recovery_codes(user) else make_recovery_codes(user)


def make_recovery_codes(user: Any) -> list[str]:
    """New codes, stored as hashes; earlier ones become invalid."""
    texts = [base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode().lower() for _ in range(RECOVERY_CODES)]
    with transaction.atomic():
        StaticDevice.objects.filter(user=user).delete()
        device = StaticDevice.objects.create(user=user, name="recovery codes", confirmed=True)
        for text in texts:
            device.token_set.create(token=hash_code(text))
    return ["-".join(text[place : place + 4] for place in range(0, len(text), 4)) for text in texts]


def count_recovery_codes(user: Any) -> int:
    return sum(device.token_set.count() for device in StaticDevice.objects.filter(user=user))


def remove(user: Any) -> bool:
    """Removes the app, all passkeys and the recovery codes."""
    with transaction.atomic():
        StaticDevice.objects.filter(user=user).delete()
        counts = [model.objects.filter(user=user).delete()[0] for model in (TOTPDevice, Passkey)]
        return any(counts)


def hash_code(code: str) -> str:
    """Truncated to the column's length; a code has 80 random bits, so its hash cannot be guessed."""
    return hashlib.sha256(code.encode()).hexdigest()[:HASH_LENGTH]


def format_secret(device: TOTPDevice) -> str:
    """In groups of four, for typing into an app without a camera."""
    text = base64.b32encode(device.bin_key).decode().rstrip("=")
    return " ".join(text[place : place + 4] for place in range(0, len(text), 4))


def draw_qr_code(device: TOTPDevice) -> SafeString:
    drawn = segno.make(device.config_url, micro=False)
    return mark_safe(drawn.svg_inline(omitsize=True, border=3, light="#fff", svgclass="qr", lineclass=None))  # noqa: S308 - generated SVG
