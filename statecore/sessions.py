"""Whether the session of a browser still gives access; checked by pages, API calls and streams.

A session that began with a password needs the second factor where one is required. A session that began with single
sign-on ends unless the provider confirms it regularly: this bounds how long a person who lost access there keeps it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings

from .kernel.clock import now

# Keys in the session.
SECOND_FACTOR_PASSED = "second_factor"
SIGN_IN = "sign_in"
ONE_TIME_PASSWORD = "one_time_password"  # noqa: S105 - no password


def second_factor_is_required() -> bool:
    return bool(settings.STATECORE_SECOND_FACTOR == "required")


def is_accepted(user: Any, session: Any) -> bool:
    """Whether the settings of today accept the session of a logged-in user. Displays have no password to log in by."""
    if SIGN_IN in session:
        return is_confirmed(session)
    if not user.has_usable_password():
        return True
    return may_use_password(user.get_username()) and not lacks_second_factor(session)


def lacks_second_factor(session: Any) -> bool:
    return second_factor_is_required() and SECOND_FACTOR_PASSED not in session


# Passwords


def may_use_password(username: str) -> bool:
    """Whether an account may log in with a password: all may, unless single sign-on is required."""
    return not settings.STATECORE_SIGN_IN_ONLY or username in settings.STATECORE_BREAK_GLASS_ACCOUNTS


def is_break_glass(session: Any) -> bool:
    """Whether a session began with a password although single sign-on is required."""
    return bool(settings.STATECORE_SIGN_IN_ONLY) and SIGN_IN not in session


def must_change_password(session: Any) -> bool:
    """Whether a session began with a password that an administrator has handed out."""
    return ONE_TIME_PASSWORD in session


# Single sign-on


def find_issuer() -> str:
    """Return what confirms identities: the OpenID provider, `header:NAME` for a trusted proxy, or nothing."""
    header = settings.STATECORE_IDENTITY_HEADER
    return settings.STATECORE_OIDC_ISSUER or (header and f"header:{header.lower()}")


def confirm(session: Any, issuer: str, subject: str) -> None:
    """Keep in the session that the provider has just confirmed this person."""
    session[SIGN_IN] = {"issuer": issuer, "subject": subject, "at": now().timestamp()}


def is_confirmed(session: Any) -> bool:
    """Whether the provider of today has confirmed the session in time."""
    return bool(session[SIGN_IN]["issuer"] == find_issuer()) and not _is_older(session, _lifetime())


def should_be_renewed(session: Any) -> bool:
    """Whether the next page asks the provider: once and early, so that a form that is open then can still be sent."""
    return not session[SIGN_IN].get("is_asked") and _is_older(session, _lifetime() / 2)


def note_asking(session: Any) -> None:
    """Keep that the provider is asked: pages do not wait for one that does not answer while the session is good."""
    if SIGN_IN in session:
        session[SIGN_IN] = {**session[SIGN_IN], "is_asked": True}


def _lifetime() -> timedelta:
    return timedelta(minutes=settings.STATECORE_SIGN_IN_MINUTES)


def _is_older(session: Any, age: timedelta) -> bool:
    return bool(session[SIGN_IN]["at"] < (now() - age).timestamp())
