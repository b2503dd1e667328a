"""A refusal to start, told to a person in one sentence."""


class Refused(SystemExit):
    """Whichever program it ends, Python prints the sentence to stderr and no traceback."""

    def __init__(self, sentence: str) -> None:
        super().__init__(f"statecore: {sentence}")
        self.sentence = sentence
