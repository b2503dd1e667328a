"""Sign-in with an OpenID provider, or as the person that a trusted proxy names in a header."""

from __future__ import annotations

import logging

from django.conf import settings
from django.contrib.auth import SESSION_KEY, login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from statecore import sessions
from statecore.accounts import caller, identity_header, openid
from statecore.accounts.single_sign_on import Person, SignInRefused, admit
from statecore.dashboard import rendering, second_factor

from .query_params import get_next_url

log = logging.getLogger(__name__)
COOKIE, SALT = "statecore_sign_in_", "statecore.sign_in"
COOKIE_SECONDS = 600
STATE_LENGTH = 16  # enough to distinguish the attempts of one browser
EXPIRED = "This sign-in has expired or belongs to another browser. Start again."
NO_HEADER = "The proxy has not named you. Open this site by its public address."


@login_not_required
@never_cache
@require_safe
def start(request: HttpRequest) -> HttpResponse:
    """Sends the browser to the provider; behind a proxy that authenticates, signs in at once."""
    if settings.STATECORE_IDENTITY_HEADER:
        person = identity_header.read_person(request)
        return _sign_in(request, person, get_next_url(request)) if person else _show_error(request, NO_HEADER, 403)
    if not settings.STATECORE_OIDC_ISSUER:
        raise Http404("Single sign-on is off: STATECORE_OIDC_ISSUER is not set.")
    sessions.note_asking(request.session)
    attempt = openid.new_attempt(get_next_url(request))
    try:
        response = HttpResponseRedirect(openid.build_authorization_url(attempt, _get_callback(request)))
    except openid.ProviderFailed as failure:
        return _report_failure(request, failure, attempt.next)
    return _keep_attempt(response, attempt, is_secure=request.is_secure())


@login_not_required
@never_cache
@require_safe
@sensitive_variables()
def callback(request: HttpRequest) -> HttpResponse:
    """The browser comes back from the provider, with a code for what it has found out."""
    attempt, code = _read_attempt(request), request.GET.get("code", "")
    if attempt is None:
        return _show_error(request, EXPIRED, 400)
    if not code:
        error = f"{settings.STATECORE_OIDC_NAME} refused: {request.GET.get('error', 'no reason given')[:100]}."
        return _forget_attempt(_show_error(request, error, 403), attempt)
    try:
        response = _sign_in(request, openid.identify(attempt, code, _get_callback(request)), attempt.next)
    except openid.ProviderFailed as failure:
        response = _report_failure(request, failure, attempt.next)
    return _forget_attempt(response, attempt)


def _sign_in(request: HttpRequest, person: Person, next_url: str) -> HttpResponse:
    try:
        user = admit(person, caller.get_address(request))
    except SignInRefused as refused:
        return _show_error(request, str(refused), 403)
    if not _is_renewal(request, person, user):
        login(request, user, backend=second_factor.BACKEND)
    sessions.confirm(request.session, person.issuer, person.subject)
    return HttpResponseRedirect(next_url)


def _is_renewal(request: HttpRequest, person: Person, user: User) -> bool:
    """Whether the provider confirms the session of this browser, so that the journal gets no further login."""
    known = request.session.get(sessions.SIGN_IN, {})
    is_same = (known.get("issuer"), known.get("subject")) == (person.issuer, person.subject)
    return is_same and request.session.get(SESSION_KEY) == str(user.pk)


# The attempt, kept in the browser: anyone may start one, so that a table of them would grow without limit.


def _keep_attempt(response: HttpResponse, attempt: openid.Attempt, *, is_secure: bool) -> HttpResponse:
    response.set_cookie(
        _name_cookie(attempt.state), signing.dumps(attempt, salt=SALT),
        max_age=COOKIE_SECONDS, httponly=True, samesite="Lax", secure=is_secure, path=_get_path(),
    )  # fmt: skip
    return response


def _read_attempt(request: HttpRequest) -> openid.Attempt | None:
    """The attempt of this browser that the answer belongs to."""
    state = request.GET.get("state", "")
    stored = request.COOKIES.get(_name_cookie(state), "")
    try:
        attempt = openid.Attempt(*signing.loads(stored, salt=SALT, max_age=COOKIE_SECONDS))
    except signing.BadSignature:
        return None
    return attempt if attempt.state == state else None


def _forget_attempt(response: HttpResponse, attempt: openid.Attempt) -> HttpResponse:
    response.delete_cookie(_name_cookie(attempt.state), path=_get_path(), samesite="Lax")
    return response


def _name_cookie(state: str) -> str:
    return COOKIE + state[:STATE_LENGTH]


def _get_path() -> str:
    return reverse("console:single_sign_on")


def _get_callback(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("console:single_sign_on_callback"))


# Errors


def _report_failure(request: HttpRequest, failure: openid.ProviderFailed, next_url: str) -> HttpResponse:
    """A session that is still good continues without the provider until its time is over."""
    log.error("Sign-in failed: %s", failure)
    if request.user.is_authenticated:
        return HttpResponseRedirect(next_url)
    return _show_error(request, f"{settings.STATECORE_OIDC_NAME} cannot be reached or does not work. Try again.", 503)


def _show_error(request: HttpRequest, sentence: str, status: int) -> HttpResponse:
    """On the login page, where a password may still be accepted."""
    context = {"sign_in_error": sentence, "next": get_next_url(request, ""), "sign_in": LoginOptions(request)}
    return rendering.render(request, "dashboard/login.html", context, status=status)


class LoginOptions:
    """What the login page offers."""

    def __init__(self, request: HttpRequest) -> None:
        self.is_offered = bool(sessions.find_issuer())
        self.is_required = bool(settings.STATECORE_SIGN_IN_ONLY)
        self.takes_passwords = not self.is_required or bool(settings.STATECORE_BREAK_GLASS_ACCOUNTS)
        self.name = settings.STATECORE_OIDC_NAME
        self.was_submitted = request.method == "POST"
