"""A real OpenID provider over HTTP: discovery, the code flow with PKCE, keys, tokens and user info.

Its tokens are made by another library than the one that verifies them. Tests choose the person at the browser, rotate
the key, and have single claims or endpoints go wrong.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "statecore", "a secret of the client: 100%"
REFUSED = "refused"  # the person does not consent


class Provider(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server_port}/staff"
        self.codes: dict[str, dict[str, str]] = {}
        self.rotate_key()
        self.reset()

    def reset(self) -> None:
        self.person: Any = {"sub": "p-1", "preferred_username": "ann", "groups": ["engineers"]}
        self.claims: dict[str, Any] = {}  # replace those of the token
        self.failing: set[str] = set()  # paths that answer 500
        self.hidden: set[str] = set()  # claims that only user info has
        self.signing_key: RSAKey | None = None  # instead of the published one

    def rotate_key(self) -> None:
        self.key = RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True)

    def discover(self) -> dict[str, Any]:
        names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "userinfo_endpoint": "me"}
        names["jwks_uri"] = "keys"
        addresses = {name: f"{self.issuer}/{path}" for name, path in names.items()}
        return {"issuer": self.issuer, "code_challenge_methods_supported": ["S256"], **addresses}

    def authorize(self, asked: dict[str, str]) -> str:
        """Returns the address to which the browser is sent back."""
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["code_challenge_method"] == "S256"
        code, state = secrets.token_urlsafe(8), asked["state"]
        self.codes[code] = asked
        answer = (
            {"error": "access_denied", "state": state} if self.person is REFUSED else {"code": code, "state": state}
        )
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def exchange(self, given: dict[str, str], authorization: str) -> dict[str, Any]:
        """Returns the tokens for a code, which works once, for its client, address and verifier."""
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        assert (unquote(client), unquote(secret)) == (CLIENT, SECRET)
        asked = self.codes.pop(given["code"])
        assert given["redirect_uri"] == asked["redirect_uri"]
        challenge = base64.urlsafe_b64encode(hashlib.sha256(given["code_verifier"].encode()).digest())
        assert challenge.rstrip(b"=").decode() == asked["code_challenge"]
        return {"access_token": "of-the-person", "token_type": "Bearer", "id_token": self.sign(asked["nonce"])}

    def sign(self, nonce: str) -> str:
        at = int(time.time())
        stated = {name: value for name, value in self.person.items() if name not in self.hidden}
        claims = {"iss": self.issuer, "aud": CLIENT, "nonce": nonce, "iat": at, "exp": at + 300} | stated | self.claims
        header = {"alg": self.claims.get("alg", "RS256"), "kid": self.key.kid}
        return jwt.encode(header, claims, self.signing_key or self.key)


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = url.path.removeprefix("/staff/")
        if path in self.server.failing:
            self.send_error(500)
        elif path == "authorize":
            self.send_response(302)
            self.send_header("Location", self.server.authorize(dict(parse_qsl(url.query))))
            self.end_headers()
        elif path == "keys":
            self._send({"keys": [self.server.key.as_dict(private=False)]})
        elif path == "me":
            assert self.headers["Authorization"] == "Bearer of-the-person"
            self._send(self.server.person)
        else:
            self._send(self.server.discover())

    def do_POST(self) -> None:
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        if "token" in self.server.failing:
            self.send_error(500)
        else:
            self._send(self.server.exchange(form, self.headers["Authorization"]))

    def _send(self, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keeps the output of the tests clean."""


@contextmanager
def running() -> Iterator[Provider]:
    provider = Provider()
    thread = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.shutdown()
        provider.server_close()
        thread.join(10)
