"""The numbered steps of a playbook, and overrides with its reason."""

from __future__ import annotations

from argparse import Namespace

from ... import Outcome
from ..context import Context
from ..errors import CommandError
from ..overrides import confirm_and_force


class Steps:
    def __init__(self, options: Namespace, context: Context, category: str) -> None:
        self.options, self.context = options, context
        self.override_options = Namespace(
            reason=options.reason, category=category, dry_run=options.dry_run, expected_version=None, yes=True
        )
        self.number = 0

    def print_step(self, sentence: str) -> None:
        self.number += 1
        self.context.print_note(f"{self.number}. {sentence}")

    def confirm_and_force(self, collection: str, id_: str, to_state: str) -> Outcome:
        return confirm_and_force(self.context, self.override_options, collection, id_, to_state)

    def confirm(self, question: str) -> None:
        """Raises CommandError if the operator declines. Prompts only at a terminal, not in a dry run or with --yes."""
        if self.options.dry_run or self.options.yes or not self.context.is_interactive:
            return
        if not self.context.confirm(question):
            raise CommandError("nothing was changed")
