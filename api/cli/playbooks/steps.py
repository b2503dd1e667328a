"""Steps of a playbook: told one by one, counted, and forced with the playbook's reason."""

from __future__ import annotations

from argparse import Namespace

from api.client import Outcome

from ..desk import Desk
from ..exits import Stop
from ..forcing import ask_to_force


class Steps:
    def __init__(self, options: Namespace, desk: Desk, category: str) -> None:
        self.options, self.desk = options, desk
        self.forced = Namespace(
            reason=options.reason, category=category, dry_run=options.dry_run, expected_version=None, yes=True
        )
        self.number = 0

    def step(self, sentence: str) -> None:
        self.number += 1
        self.desk.say(f"{self.number}. {sentence}")

    def ask_to_force(self, collection: str, id_: str, to_state: str) -> Outcome:
        return ask_to_force(self.desk, self.forced, collection, id_, to_state)

    def ask(self, question: str) -> None:
        """Before the first change; a dry run makes none."""
        if self.options.dry_run or self.options.yes or not self.desk.somebody_is_there:
            return
        if not self.desk.confirmed(question):
            raise Stop("nothing was changed")
