"""Properties of every machine, parser and journal, tested with generated values."""
