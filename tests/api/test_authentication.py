"""Authentication of API clients; they are never redirected to a page."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from statecore.records import token as tokens
from tests.api.callers import member

pytestmark = pytest.mark.django_db


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer", "Bearer  ", "Basic YTpi", "nonsense", "Bearer \udc00x", "Bearer " + "x" * 5000]
)
def test_an_invalid_token_gets_401(client: Client, header: str) -> None:
    response = client.get("/api/v1/tasks/", headers={"Authorization": header})
    assert response.status_code == 401
    assert response["Content-Type"] == "application/problem+json"
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert response.json()["code"] == "not_authenticated"


def test_no_api_client_is_redirected_to_the_login_page(client: Client) -> None:
    for path in ("/api/v1/tasks/", "/api/v1/nowhere/", "/api/v1/"):
        assert client.get(path).status_code == 401
        assert client.post(path, {}, content_type="application/json").status_code == 401


def test_an_unknown_address_is_a_json_problem(client: Client) -> None:
    _token, text = tokens.make("t", member("ada"), "read")
    response = client.get("/api/v1/nowhere/", headers=bearer(text))
    assert response.status_code == 404
    assert response.json()["code"] == "not_found"


def test_a_session_reads_and_needs_the_csrf_token_to_write() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_user("ada"))
    assert client.get("/api/v1/nowhere/").status_code == 404
    refused = client.post("/api/v1/nowhere/", {}, content_type="application/json")
    assert refused.status_code == 403
    assert "CSRF" in refused.json()["detail"]
