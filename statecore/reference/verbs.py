"""The page of the verbs of the command line `statecore`."""

from __future__ import annotations

from api.cli.main import build

from . import options, written

USUAL = {"help", "json", "patience"}


def page() -> str:
    sections = [
        line
        for typed, parser, about in options.below(build(), "statecore")
        for line in (f"## {typed}", "", f"{about[:1].upper()}{about[1:]}.", "", *options.listed(parser, USUAL))
    ]
    return written.page(
        "Verbs of `statecore`",
        "Every one also takes `--help`, `--json` (one JSON document per line) and `--patience SECONDS` (how long a",
        "server that does not answer is tried). [The command line](command-line.md) says how they are used.",
        "",
        *sections,
    )
