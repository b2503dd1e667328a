"""Clients of the API in the test process, each with a token."""

from __future__ import annotations

from itertools import count
from typing import Any

from django.contrib.auth.models import Group, User
from django.test import Client

from statecore.records import token as tokens

_numbers = count(1)


def member(name: str, group: str = "viewer") -> User:
    """Creates a user who belongs to one of the console's groups."""
    user = User.objects.create_user(name)
    user.groups.add(Group.objects.get(name=group))
    return user


class Caller:
    """Calls the API with a new token; its user is a superuser unless given."""

    def __init__(self, scope: str = "agent", *, user: User | None = None, name: str = "") -> None:
        number = next(_numbers)
        self.user = user or User.objects.create_superuser(f"user-{number}")
        self.token, self.text = tokens.make(name or f"token-{number}", self.user, scope)
        self.client = Client()

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        given: dict[str, Any] = {"headers": {"Authorization": f"Bearer {self.text}", **headers}}
        if body is not None:
            given |= {"data": body, "content_type": "application/json"}
        return getattr(self.client, method)(f"/api/v1/{path}", **given)

    def get(self, path: str, **headers: str) -> Any:
        return self("get", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self("post", path, {} if body is None else body, **headers)

    def patch(self, path: str, body: Any) -> Any:
        return self("patch", path, body)

    def put(self, path: str, body: Any) -> Any:
        return self("put", path, body)

    def delete(self, path: str) -> Any:
        return self("delete", path)


def expect_refusal(response: Any, status: int, code: str) -> dict[str, Any]:
    """Asserts that the response is a problem with this status and code, and returns it."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == code
    assert problem["status"] == status
    assert {"type", "title", "detail"} <= problem.keys()
    return dict(problem)


def expect_ok(response: Any, status: int = 200) -> Any:
    assert response.status_code == status, response.content
    return response.json()
