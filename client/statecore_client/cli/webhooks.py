"""`statecore webhook …`: subscribe to events, test, replay, and read the log of deliveries."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

from .. import Webhook
from .context import Context, format_line
from .errors import CommandError, Exit
from .verbs import Columns, Verb, add_group, add_verbs

WEBHOOKS: Columns = {
    "id": "id", "status": "status", "last success": "last_success_at", "failures": "failures", "url": "url",
    "description": "description",
}  # fmt: skip
DELIVERIES: Columns = {
    "at": "at", "type": "type",
    "entity": lambda each: f"{each.entity_type} {each.entity_id}" if each.entity_id else None,
    "position": "position", "attempt": "attempt", "result": lambda each: describe_delivery(each), "ms": "duration_ms",
}  # fmt: skip
FAILED = {"failed": ("only attempts that failed", {"delivered": False})}
TEST_SECONDS, TEST_POLL_SECONDS = 60.0, 0.5


def add_commands(commands: Any) -> None:
    actions = add_group(commands, "webhook", "send events to other systems over HTTP")
    add_verbs(
        actions,
        Verb("create", "create_webhook", "subscribe to events, and print the secret, which is shown only once",
             print_secret),
        Verb("list", "list_webhooks", "list webhooks with their health", columns=WEBHOOKS, noun="webhooks"),
        Verb("show", "get_webhook", "show one webhook"),
        Verb("enable", "enable_webhook", "continue with the events that wait"),
        Verb("disable", "disable_webhook", "send nothing until it is enabled"),
        Verb("rotate", "rotate_webhook_secret",
             "make a new secret, and print it; the old one is valid for another day", print_secret),
        Verb("replay", "replay_webhook", "send the events after a position again"),
        Verb("log", "list_webhook_deliveries", "list attempts to deliver, newest first", columns=DELIVERIES,
             noun="deliveries", flags=FAILED, hides=frozenset({"message_id", "delivered"})),
        Verb("delete", "delete_webhook", "delete a webhook and its log"),
    )  # fmt: skip
    testing = actions.add_parser("test", help="send a test message, and wait for its result")
    testing.add_argument("id", help="the webhook, webhook_…")
    testing.set_defaults(run=send_test)


def print_secret(context: Context, webhook: Webhook) -> None:
    context.print_line(webhook.id)
    if webhook.secret is None:
        context.print_note("the response with the secret got lost: run `statecore webhook rotate`")
        return
    context.print_line(webhook.secret)
    context.print_note("note the secret now: it is not shown again")


def send_test(options: Namespace, context: Context) -> None:
    """Ends with the exit code 1 if the receiver did not take the message."""
    message_id = context.client.test_webhook(options.id)["message_id"]
    deadline = time.monotonic() + TEST_SECONDS
    while not (found := list(context.client.list_webhook_deliveries(options.id, message_id=message_id))):
        if time.monotonic() > deadline:
            raise CommandError("the test was not sent yet: is the process `webhooks` running?", Exit.UNSUCCESSFUL)
        time.sleep(TEST_POLL_SECONDS)
    if context.as_json:
        context.print_json(found[0])
    else:
        context.print_line(format_line(f"{describe_delivery(found[0])} after {found[0].duration_ms} ms"))
    if not found[0].delivered:
        raise CommandError("the receiver did not take the message", Exit.UNSUCCESSFUL)


def describe_delivery(each: Any) -> str:
    return f"{'delivered' if each.delivered else 'failed'}: {each.status or each.error}"
