"""The exception for a refusal to start."""


class Refused(SystemExit):
    """Ends the program: Python prints the sentence to stderr, without a traceback."""

    def __init__(self, sentence: str) -> None:
        super().__init__(f"statecore: {sentence}")
        self.sentence = sentence
