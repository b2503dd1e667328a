"""The OpenID Connect code flow with PKCE: where to send the browser, and whom the provider has identified.

Nothing of a provider is configured but its issuer: addresses come from its discovery document, and keys are read at
each sign-in, so that a provider may change its keys at any time.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import httpx
import jwt
from django.conf import settings
from django.core.cache import cache

from .single_sign_on import Person

DISCOVERY = "/.well-known/openid-configuration"
DISCOVERY_SECONDS = 300
TIMEOUT = httpx.Timeout(5.0)
LEEWAY_SECONDS = 60
BASIC = "client_secret_basic"
MAX_SUBJECT = 255
REQUIRED = ["iss", "sub", "aud", "exp", "iat"]
# Signatures with public keys only. With a shared secret, or none, a token would prove nothing.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


class ProviderFailed(Exception):
    """The provider cannot be reached or answers with what OpenID Connect does not allow; the message is for logs."""


class Attempt(NamedTuple):
    """What the browser keeps between its two requests, in a signed cookie."""

    state: str
    nonce: str
    verifier: str  # of PKCE
    next: str


def new_attempt(next_url: str) -> Attempt:
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return Attempt(state, nonce, verifier, next_url)


def build_authorization_url(attempt: Attempt, redirect_uri: str) -> str:
    """Return the address at the provider to which the browser goes; raises ProviderFailed."""
    challenge = urlsafe_b64encode(sha256(attempt.verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": settings.STATECORE_OIDC_CLIENT_ID,
        "redirect_uri": redirect_uri,
        "scope": " ".join(settings.STATECORE_OIDC_SCOPES),
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    address = _get_address(_discover(), "authorization_endpoint")
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"


def identify(attempt: Attempt, code: str, redirect_uri: str) -> Person:
    """Exchange the code for the identity of the person; raises ProviderFailed."""
    discovered = _discover()
    answer = _fetch_tokens(discovered, code, attempt.verifier, redirect_uri)
    claims = _verify(str(answer.get("id_token", "")), discovered, attempt.nonce)
    if settings.STATECORE_OIDC_GROUPS_CLAIM not in claims:
        claims = {**_fetch_user_info(discovered, str(answer.get("access_token", "")), claims["sub"]), **claims}
    name = str(claims.get(settings.STATECORE_OIDC_NAME_CLAIM) or "")
    return Person(settings.STATECORE_OIDC_ISSUER, claims["sub"], name, _read_groups(claims))


def _read_groups(claims: dict[str, Any]) -> frozenset[str]:
    groups = claims.get(settings.STATECORE_OIDC_GROUPS_CLAIM) or []
    return frozenset([groups] if isinstance(groups, str) else map(str, groups))


# Requests to the provider


def _discover() -> dict[str, Any]:
    """Return the discovery document, which must name the issuer exactly as configured."""
    issuer = settings.STATECORE_OIDC_ISSUER
    found: dict[str, Any] | None = cache.get(DISCOVERY + issuer)
    if found is None:
        found = _request("GET", issuer.rstrip("/") + DISCOVERY)
        if found.get("issuer") != issuer:
            raise ProviderFailed(f"the provider names itself {found.get('issuer')!r}, not {issuer!r}")
        cache.set(DISCOVERY + issuer, found, DISCOVERY_SECONDS)
    return found


def _get_address(discovered: dict[str, Any], name: str) -> str:
    address = str(discovered.get(name, ""))
    if not address.startswith(("https://", "http://")):
        raise ProviderFailed(f"the provider has no {name}")
    return address


def _fetch_tokens(discovered: dict[str, Any], code: str, verifier: str, redirect_uri: str) -> dict[str, Any]:
    client, secret = settings.STATECORE_OIDC_CLIENT_ID, settings.STATECORE_OIDC_CLIENT_SECRET
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
    takes_basic = BASIC in discovered.get("token_endpoint_auth_methods_supported", [BASIC])
    basic = (quote(client, safe=""), quote(secret, safe="")) if secret and takes_basic else None
    if basic is None:
        form |= {"client_id": client, "client_secret": secret} if secret else {"client_id": client}
    return _request("POST", _get_address(discovered, "token_endpoint"), data=form, auth=basic)


def _fetch_user_info(discovered: dict[str, Any], access_token: str, subject: str) -> dict[str, Any]:
    """Return the claims that a provider keeps out of its tokens; nothing if it has no such endpoint."""
    if "userinfo_endpoint" not in discovered or not access_token:
        return {}
    address = _get_address(discovered, "userinfo_endpoint")
    found = _request("GET", address, headers={"Authorization": f"Bearer {access_token}"})
    if found.get("sub") != subject:
        raise ProviderFailed("the claims are those of another person than the token")
    return found


def _request(method: str, address: str, **more: Any) -> dict[str, Any]:
    """Return the JSON object of an answer. Errors are reported without the answer, which may contain tokens."""
    try:
        answer = httpx.request(method, address, timeout=TIMEOUT, **more)
        found = answer.raise_for_status().json()
    except httpx.HTTPStatusError as error:
        raise ProviderFailed(f"{method} {address} was answered with {error.response.status_code}") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise ProviderFailed(f"{method} {address} failed: {type(error).__name__}") from None
    if not isinstance(found, dict):
        raise ProviderFailed(f"{method} {address} was not answered with an object")
    return found


# The token


def _verify(token: str, discovered: dict[str, Any], nonce: str) -> dict[str, Any]:
    """Return the claims of an identity token that is signed, for us, for this attempt and not expired."""
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            _find_key(token, discovered),
            algorithms=ALGORITHMS,
            audience=settings.STATECORE_OIDC_CLIENT_ID,
            issuer=settings.STATECORE_OIDC_ISSUER,
            leeway=LEEWAY_SECONDS,
            options={"require": REQUIRED},
        )
    except jwt.PyJWTError as error:
        raise ProviderFailed(f"the identity token is not valid: {error}") from None
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise ProviderFailed("the identity token is not valid: it belongs to another attempt")
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", "" if several else settings.STATECORE_OIDC_CLIENT_ID) != settings.STATECORE_OIDC_CLIENT_ID:
        raise ProviderFailed("the identity token is not valid: it was issued for another client")
    if not 0 < len(claims["sub"]) <= MAX_SUBJECT:
        raise ProviderFailed("the identity token is not valid: its subject is empty or too long")
    return claims


def _find_key(token: str, discovered: dict[str, Any]) -> jwt.PyJWK:
    """Return the key that the token names; a provider with a single key need not name it."""
    header = jwt.get_unverified_header(token)
    listed = _request("GET", _get_address(discovered, "jwks_uri")).get("keys", [])
    usable = [key for key in listed if key.get("use", "sig") == "sig"]
    found = [key for key in usable if key.get("kid") == header["kid"]] if "kid" in header else usable
    if len(found) != 1 or header.get("alg") not in ALGORITHMS:
        raise ProviderFailed("the identity token is not valid: it is not signed with a key of the provider")
    return jwt.PyJWK(found[0], algorithm=header["alg"])
