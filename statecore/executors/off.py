"""What an operator has not switched on."""

from ..kernel.refusals import Refusal


class Off(Refusal):
    code = "off"
