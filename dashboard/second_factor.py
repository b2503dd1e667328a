"""The second factor: a code from a telephone after the password, and codes on paper for when that is lost.

Nobody is logged in between the two: the session remembers whose password was right, for a few minutes. Wrong codes
count for the lockout like wrong passwords.
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
from statecore.kernel.clock import now

OFF = "off"
BACKEND = "django.contrib.auth.backends.ModelBackend"
PENDING = "password_was_right"  # in the session
PATIENCE = timedelta(minutes=5)
RECOVERY_CODES, RECOVERY_BYTES = 8, 10
HASH_LENGTH = 16  # as long as what keeps it


def is_off() -> bool:
    return bool(settings.STATECORE_SECOND_FACTOR == OFF)


def device_of(user: Any) -> TOTPDevice | None:
    return None if is_off() else TOTPDevice.objects.filter(user=user, confirmed=True).first()


def is_due(user: Any) -> bool:
    """Whether a password alone lets this person in no further."""
    return sessions.second_factor_is_required() or device_of(user) is not None


# Between the password and the code


def remember(request: HttpRequest, user: Any) -> None:
    request.session[PENDING] = {"user": user.pk, "at": now().timestamp()}


def pending(request: HttpRequest) -> User | None:
    """Whose password was right a moment ago."""
    told = request.session.get(PENDING)
    if told is None or told["at"] < (now() - PATIENCE).timestamp():
        return None
    return User.objects.filter(pk=told["user"], is_active=True).first()


def let_in(request: HttpRequest, user: Any) -> None:
    request.session.pop(PENDING, None)
    login(request, user, backend=BACKEND)
    request.session[sessions.SECOND_FACTOR_PASSED] = True


def is_locked(request: HttpRequest, user: Any) -> bool:
    return not AxesProxyHandler.is_allowed(request, {"username": user.get_username()})


def passes(request: HttpRequest, user: Any, given: str) -> bool:
    """Whether this is a code of this person: from the telephone, or one from the paper, which is used up."""
    code = plain(given)
    devices: list[Any] = [*TOTPDevice.objects.filter(user=user, confirmed=True)]
    if not (code.isdigit() and len(code) <= 8):
        devices, code = [*StaticDevice.objects.filter(user=user, confirmed=True)], hashed(code)
    if any(verify_token(user, device.persistent_id, code) for device in devices):
        return True
    user_login_failed.send(sender=__name__, credentials={"username": user.get_username()}, request=request)
    return False


def plain(given: str) -> str:
    """Without the spaces and dashes it is read out with."""
    return "".join(letter for letter in given[:64] if letter.isascii() and letter.isalnum()).lower()


# Having one


def begin(user: Any) -> TOTPDevice:
    """The secret that is shown; it is good for nothing until a code made from it was typed."""
    found: TOTPDevice | None = TOTPDevice.objects.filter(user=user, confirmed=False).first()
    return found or TOTPDevice.objects.create(user=user, name="telephone", confirmed=False)


def confirm(user: Any, given: str) -> list[str]:
    """The codes for the paper, once a code of the new secret was typed; none when it was wrong."""
    device = begin(user)
    if verify_token(user, device.persistent_id, plain(given)) is None:
        return []
    with transaction.atomic():
        TOTPDevice.objects.filter(user=user, confirmed=True).delete()
        TOTPDevice.objects.filter(pk=device.pk).update(confirmed=True)
        return new_recovery_codes(user)


def new_recovery_codes(user: Any) -> list[str]:
    """Shown once and kept as hashes; those from before are void."""
    texts = [base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode().lower() for _ in range(RECOVERY_CODES)]
    with transaction.atomic():
        StaticDevice.objects.filter(user=user).delete()
        paper = StaticDevice.objects.create(user=user, name="paper", confirmed=True)
        for text in texts:
            paper.token_set.create(token=hashed(text))
    return ["-".join(text[place : place + 4] for place in range(0, len(text), 4)) for text in texts]


def recovery_codes_left(user: Any) -> int:
    return sum(paper.token_set.count() for paper in StaticDevice.objects.filter(user=user))


def remove(user: Any) -> bool:
    with transaction.atomic():
        StaticDevice.objects.filter(user=user).delete()
        return bool(TOTPDevice.objects.filter(user=user).delete()[0])


def hashed(code: str) -> str:
    """Enough of it: a code has eighty bits by chance, and nothing is won by guessing at the hash."""
    return hashlib.sha256(code.encode()).hexdigest()[:HASH_LENGTH]


def secret_of(device: TOTPDevice) -> str:
    """As it is typed where no camera is."""
    text = base64.b32encode(device.bin_key).decode().rstrip("=")
    return " ".join(text[place : place + 4] for place in range(0, len(text), 4))


def picture_of(device: TOTPDevice) -> SafeString:
    drawn = segno.make(device.config_url, micro=False)
    return mark_safe(drawn.svg_inline(omitsize=True, border=3, light="#fff", svgclass="qr", lineclass=None))  # noqa: S308 - a picture of squares
