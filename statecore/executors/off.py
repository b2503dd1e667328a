"""What an operator has not switched on."""

from ..kernel.refusals import Refusal


class Off(Refusal):
    """No operator has set what this takes: the commands that may run, or the repository."""

    code = "off"
