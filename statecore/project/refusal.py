"""The exception for a refusal to start."""

from .announcements import format_sentence


class Refused(SystemExit):
    """Ends the program: Python prints the sentence to stderr, without a traceback."""

    def __init__(self, sentence: str) -> None:
        super().__init__(format_sentence(sentence, "critical"))
        self.sentence = sentence
