"""Makes any text of a command safe to store and to show: on a terminal, in a page and in a file.

Log lines come from programs that Statecore does not control. Escape sequences could rewrite the terminal of a reader,
NUL cannot be stored by PostgreSQL, and a progress bar is one line that overwrites itself a thousand times. The text is
cleaned once, when it is stored, so that every reader gets the same plain text.
"""

from __future__ import annotations

import re

MAX_CHARACTERS = 8_192  # of one line
# CSI sequences such as colours, OSC sequences such as titles and links, and the other escape sequences. No sequence
# reaches beyond the beginning of the next one, so that a search is linear whatever an agent sends.
ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\x9d]*(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\|$)|\x1b[ -/]*[0-~]"
)
# Control characters are replaced by their pictures (U+2400 and following), except tab and line feed.
PICTURES = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {127: 0x2421}
PICTURES |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
# Characters that change the direction of text could show a line as something else.
PICTURES |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)
IS_PLAIN = re.compile(r"[\n\t -~\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\U0010ffff]*")


def clean_line(text: str) -> str:
    """Return the text without escape sequences, other control characters and what a carriage return overwrote."""
    if len(text) > MAX_CHARACTERS:
        # Progress bars may be far longer than what they show.
        text = clean_line(text[:MAX_CHARACTERS]) + f" … {len(text) - MAX_CHARACTERS} characters dropped"
    if IS_PLAIN.fullmatch(text):
        return text
    text = ESCAPES.sub("", text)
    text = "\n".join(_drop_overwritten(part) for part in text.split("\n")) if "\r" in text else text
    return text.translate(PICTURES).encode("utf-8", "replace").decode()


def _drop_overwritten(line: str) -> str:
    """Return the last state of a line that carriage returns began anew."""
    return next((part for part in reversed(line.split("\r")) if part), "")
