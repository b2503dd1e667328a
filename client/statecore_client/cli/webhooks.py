"""`statecore webhook …`: subscribe to events, test, replay, and read the log of deliveries."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError, Namespace
from itertools import islice
from typing import Any

from .. import Webhook
from ..records import Json
from .context import Context, format_line, format_time
from .errors import CommandError, Exit
from .reading import parse_limit

COLUMNS = ("id", "status", "last success", "failures", "url", "description")
LOG_COLUMNS = ("at", "type", "entity", "position", "attempt", "result", "ms")
TEST_SECONDS, TEST_POLL_SECONDS = 60.0, 0.5


def parse_filter(text: str) -> tuple[str, list[str]]:
    """`to_state=failed,completed`"""
    name, equals, values = text.partition("=")
    if not (name and equals and values):
        raise ArgumentTypeError("must be NAME=VALUE or NAME=VALUE,VALUE")
    return name, values.split(",")


def parse_position(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError("must be a position, 0 or more")
    return int(text)


def add_commands(commands: Any) -> None:
    webhook = commands.add_parser("webhook", help="send events to other systems over HTTP")
    actions = webhook.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="subscribe to events, and print the secret, which is shown only once")
    create.add_argument("url", metavar="URL", help="where messages are sent")
    create.add_argument("--filter", action="append", type=parse_filter, default=[], metavar="NAME=VALUE",
                        help="entity_type, entity, run, to_state, kind, severity or event_name; values separated by "
                        "commas are alternatives; may be repeated")  # fmt: skip
    create.add_argument("--description", default="", help="what it is for")
    create.set_defaults(run=subscribe)
    listing = actions.add_parser("list", help="list webhooks with their health")
    listing.add_argument("--run", dest="of_run", metavar="RUN", default="", help="only the webhook of this run's plan")
    listing.add_argument("-n", "--limit", type=parse_limit, default=50, help="at most this many, 0 for all (50)")
    listing.set_defaults(run=list_webhooks)
    for name, run, about in (
        ("show", show, "show one webhook"),
        ("test", send_test, "send a test message, and wait for its result"),
        ("enable", enable, "continue with the events that wait"),
        ("rotate", rotate, "make a new secret, and print it; the old one is valid for another day"),
        ("delete", delete, "delete a webhook and its log"),
    ):
        parser = actions.add_parser(name, help=about)
        parser.add_argument("id", help="the webhook, webhook_…")
        parser.set_defaults(run=run)
    disable_parser = actions.add_parser("disable", help="send nothing until it is enabled")
    disable_parser.add_argument("id", help="the webhook, webhook_…")
    disable_parser.add_argument("--reason", default="", help="shown with the webhook")
    disable_parser.set_defaults(run=disable)
    again = actions.add_parser("replay", help="send events again")
    again.add_argument("id", help="the webhook, webhook_…")
    again.add_argument("--after", type=parse_position, required=True, help="the position after which events are sent")
    again.set_defaults(run=replay)
    log = actions.add_parser("log", help="list attempts to deliver, newest first")
    log.add_argument("id", help="the webhook, webhook_…")
    log.add_argument("--failed", action="store_true", help="only attempts that failed")
    log.add_argument("-n", "--limit", type=parse_limit, default=50, help="at most this many, 0 for all (50)")
    log.set_defaults(run=print_log)


def subscribe(options: Namespace, context: Context) -> None:
    chosen = dict(options.filter)
    _print_secret(context, context.client.create_webhook(options.url, filter=chosen, description=options.description))


def rotate(options: Namespace, context: Context) -> None:
    _print_secret(context, context.client.rotate_webhook_secret(options.id))


def _print_secret(context: Context, webhook: Webhook) -> None:
    if context.as_json:
        context.print_json(webhook.fields)
        return
    context.print_line(webhook.id)
    if webhook.secret is None:
        context.print_note("the response with the secret got lost: run `statecore webhook rotate`")
        return
    context.print_line(webhook.secret)
    context.print_note("note the secret now: it is not shown again")


def list_webhooks(options: Namespace, context: Context) -> None:
    filters = {"run": options.of_run} if options.of_run else {}
    found = list(islice(context.client.list_webhooks(**filters), options.limit or None))
    if context.as_json:
        for each in found:
            context.print_json(each.fields)
    elif found:
        rows = [(w.id, w.status, w.last_success_at, w.failures, w.url, w.description) for w in found]
        context.print_table(rows, COLUMNS)
    else:
        context.print_line("no webhooks")


def show(options: Namespace, context: Context) -> None:
    _print(context, context.client.get_webhook(options.id))


def enable(options: Namespace, context: Context) -> None:
    _print(context, context.client.enable_webhook(options.id))


def disable(options: Namespace, context: Context) -> None:
    _print(context, context.client.disable_webhook(options.id, reason=options.reason))


def replay(options: Namespace, context: Context) -> None:
    _print(context, context.client.replay_webhook(options.id, options.after))


def delete(options: Namespace, context: Context) -> None:
    context.client.delete_webhook(options.id)
    context.print_note(f"{options.id} deleted")


def _print(context: Context, webhook: Webhook) -> None:
    if context.as_json:
        context.print_json(webhook.fields)
    else:
        context.print_fields(webhook.fields)


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
        context.print_line(format_line(f"{_describe(found[0])} after {found[0]['duration_ms']} ms"))
    if not found[0]["delivered"]:
        raise CommandError("the receiver did not take the message", Exit.UNSUCCESSFUL)


def print_log(options: Namespace, context: Context) -> None:
    filters = {"delivered": "false"} if options.failed else {}
    found = list(islice(context.client.list_webhook_deliveries(options.id, **filters), options.limit or None))
    if context.as_json:
        for each in found:
            context.print_json(each)
    elif found:
        context.print_table([_row(each) for each in found], LOG_COLUMNS)
    else:
        context.print_line("no deliveries")


def _row(each: Json) -> tuple[Any, ...]:
    entity = f"{each['entity_type']} {each['entity_id']}" if each["entity_id"] else None
    at, result = format_time(each["at"]), _describe(each)
    return at, each["type"], entity, each["position"], each["attempt"], result, each["duration_ms"]


def _describe(each: Json) -> str:
    return f"{'delivered' if each['delivered'] else 'failed'}: {each['status'] or each['error']}"
