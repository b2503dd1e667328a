"""Lists of words in JSON columns, which the databases search differently."""

from __future__ import annotations

from django.db import connection
from django.db.models import BooleanField, F, Func, Value

TEMPLATES = {
    "postgresql": "jsonb_exists(%(expressions)s)",
    "sqlite": "(SELECT count(*) FROM json_each(%(expressions)s)) > 0",
}
# Between the column and the word.
JOINERS = {"postgresql": ", ", "sqlite": ") AS word WHERE word.value IN ("}


def has_word(column: str, word: str) -> Func:
    """Whether the list of words in a column has this word."""
    vendor = connection.vendor
    return Func(
        F(column),
        Value(word),
        template=TEMPLATES[vendor],
        arg_joiner=JOINERS[vendor],
        output_field=BooleanField(),
    )
