"""The calls for webhooks: subscriptions, and the log of what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .call import Call, build_path, call, drop_none, paged_call
from .connection import Connection
from .readers import read_as, read_nothing, read_object, read_page_of
from .records import Json, Page, Webhook


class WebhookCalls(Connection):
    @paged_call
    def list_webhooks(self, /, **filters: Any) -> Call[Page[Webhook]]:
        """Yields webhooks, newest first; with `run`, the one of that run's plan."""
        return Call("GET", build_path("webhooks"), read_page_of(read_as(Webhook)), params=filters)

    @call
    def get_webhook(self, webhook_id: str) -> Call[Webhook]:
        """Returns one webhook, without its secret."""
        return Call("GET", build_path("webhooks", webhook_id), read_as(Webhook))

    @call
    def create_webhook(
        self,
        url: str,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - named as in the API
        description: str = "",
        request_id: str | None = None,
    ) -> Call[Webhook]:
        """Subscribes to the events that the filter selects, from now on.

        `secret` verifies the signatures. It is None if an earlier response with it got lost: rotate it then.
        """
        body = {"url": url, "filter": dict(filter or {}), "description": description}
        return Call("POST", build_path("webhooks"), read_as(Webhook), body=body, keyed=True, request_id=request_id)

    @call
    def edit_webhook(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - named as in the API
        description: str | None = None,
    ) -> Call[Webhook]:
        """Changes what is given; only the owner changes `url` and `filter`."""
        body = drop_none(url=url, filter=None if filter is None else dict(filter), description=description)
        return Call("PATCH", build_path("webhooks", webhook_id), read_as(Webhook), body=body)

    @call
    def delete_webhook(self, webhook_id: str) -> Call[None]:
        """Deletes a webhook and its log."""
        return Call("DELETE", build_path("webhooks", webhook_id), read_nothing)

    @call
    def enable_webhook(self, webhook_id: str, *, request_id: str | None = None) -> Call[Webhook]:
        """Continues with the events that wait."""
        path = build_path("webhooks", webhook_id, "enable")
        return Call("POST", path, read_as(Webhook), body={}, keyed=True, request_id=request_id)

    @call
    def disable_webhook(self, webhook_id: str, *, reason: str = "", request_id: str | None = None) -> Call[Webhook]:
        """Sends nothing more until the webhook is enabled."""
        path = build_path("webhooks", webhook_id, "disable")
        return Call("POST", path, read_as(Webhook), body={"reason": reason}, keyed=True, request_id=request_id)

    @call
    def rotate_webhook_secret(self, webhook_id: str, *, request_id: str | None = None) -> Call[Webhook]:
        """Makes a new `secret`; for a day the previous one signs as well."""
        path = build_path("webhooks", webhook_id, "rotate-secret")
        return Call("POST", path, read_as(Webhook), body={}, keyed=True, request_id=request_id)

    @call
    def test_webhook(self, webhook_id: str, *, request_id: str | None = None) -> Call[Json]:
        """Sends a test message; the log has the result under the `message_id` that is returned."""
        path = build_path("webhooks", webhook_id, "test")
        return Call("POST", path, read_object, body={}, keyed=True, request_id=request_id)

    @call
    def replay_webhook(self, webhook_id: str, after: int, *, request_id: str | None = None) -> Call[Webhook]:
        """Sends the events after a position again, with the ids they had."""
        path = build_path("webhooks", webhook_id, "replay")
        return Call("POST", path, read_as(Webhook), body={"after": after}, keyed=True, request_id=request_id)

    @paged_call
    def list_webhook_deliveries(self, webhook_id: str, /, **filters: Any) -> Call[Page[Json]]:
        """Yields attempts to deliver, newest first."""
        return Call("GET", build_path("webhooks", webhook_id, "deliveries"), read_page_of(read_object), params=filters)
