"""`approvals`, `approve` and `deny`: the requests that wait for a second person, and their decision."""

from __future__ import annotations

from argparse import Namespace
from itertools import islice
from typing import Any

from .. import Approval
from .context import Context, format_line
from .errors import CommandError
from .reading import parse_limit
from .transitions import print_outcome

STATUSES = ("pending", "approved", "denied", "expired", "outdated", "all")
COLUMNS = ("id", "status", "entity", "change", "requested by", "expires", "reason")


def add_commands(commands: Any) -> None:
    listing = commands.add_parser("approvals", help="list overrides that wait for a second person")
    listing.add_argument("--status", choices=STATUSES, default="pending", help="which requests (pending)")
    listing.add_argument("-n", "--limit", type=parse_limit, default=50, help="at most this many, 0 for all (50)")
    listing.set_defaults(run=list_approvals)
    for name, run, text in (
        ("approve", approve, "approve a request of another person, which executes the override"),
        ("deny", deny, "deny a request of another person"),
    ):
        parser = commands.add_parser(name, help=text)
        parser.add_argument("id", help="the request, appr_…")
        parser.add_argument("--comment", default="", help="recorded with the decision")
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        parser.set_defaults(run=run)


def list_approvals(options: Namespace, context: Context) -> None:
    filters = {} if options.status == "all" else {"status": options.status}
    found = islice(context.client.list_approvals(**filters), options.limit or None)
    if context.as_json:
        for each in found:
            context.print_json(each.fields)
        return
    rows = [_row(each) for each in found]
    if rows:
        context.print_table(rows, COLUMNS)
    else:
        context.print_line("no requests" if options.status == "all" else f"no {options.status} requests")


def _row(each: Approval) -> tuple[Any, ...]:
    change = f"{each.from_state} → {each.to_state}"
    entity = f"{each.entity_type} {each.entity_id}"
    return each.id, each.status, entity, change, each.requested_by, each.expires_at, each.reason


def approve(options: Namespace, context: Context) -> None:
    _confirm(options, context, "approve this override?")
    print_outcome(context, context.client.approve(options.id, comment=options.comment))


def deny(options: Namespace, context: Context) -> None:
    _confirm(options, context, "deny this override?")
    print_request(context, context.client.deny(options.id, comment=options.comment))


def _confirm(options: Namespace, context: Context, question: str) -> None:
    """Shows the request and asks; only at a terminal."""
    if options.yes or not context.is_interactive:
        return
    context.print_fields(context.client.get_approval(options.id).fields)
    if not context.confirm(question):
        raise CommandError("nothing was decided")


def print_request(context: Context, request: Approval) -> None:
    if context.as_json:
        context.print_json({"approval": request.fields})
        return
    change = f"{request.from_state} → {request.to_state}"
    context.print_line(
        format_line(f"{request.id} {request.status}: {request.entity_type} {request.entity_id} {change}")
    )
