"""`approvals`, `approve` and `deny`: the requests that wait for a second person, and their decision."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from .. import Approval
from .context import Context, format_line
from .errors import CommandError
from .transitions import print_outcome
from .verbs import Columns, Verb, add_verbs

COLUMNS: Columns = {
    "id": "id", "status": "status", "entity": lambda each: f"{each.entity_type} {each.entity_id}",
    "change": lambda each: f"{each.from_state} → {each.to_state}", "requested by": "requested_by",
    "expires": "expires_at", "reason": "reason",
}  # fmt: skip


def add_commands(commands: Any) -> None:
    add_verbs(
        commands,
        Verb("approvals", "list_approvals", "list overrides that wait for a second person", columns=COLUMNS,
             noun="requests", defaults={"status": "pending"}, hides=frozenset({"entity_type", "entity"})),
    )  # fmt: skip
    for name, run, text in (
        ("approve", approve, "approve a request of another person, which executes the override"),
        ("deny", deny, "deny a request of another person"),
    ):
        parser = commands.add_parser(name, help=text)
        parser.add_argument("id", help="the request, appr_…")
        parser.add_argument("--comment", default="", help="recorded with the decision")
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        parser.set_defaults(run=run)


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
