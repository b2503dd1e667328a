"""The layout of the files that are written."""

from __future__ import annotations

import textwrap

WIDTH = 120
HEAD = '''"""{about}

Generated from the declarations of the calls: `manage.py machines --docs` writes this file.
"""

# fmt: off
# ruff: noqa
'''


def wrap(head: str, items: list[str], tail: str, indent: str = "    ") -> str:
    """Returns a call or a signature in as few lines as fit."""
    line = f"{indent}{head}{', '.join(items)}{tail}"
    if len(line) <= WIDTH:
        return line
    inner = f"{indent}    {', '.join(items)}"
    if len(inner) > WIDTH:
        inner = "\n".join(f"{indent}    {each}," for each in items)
    return f"{indent}{head}\n{inner}\n{indent}{tail}"


def render_doc(text: str, indent: str = "        ") -> str:
    first, _, rest = text.partition("\n\n")
    width = WIDTH - len(indent)
    paragraphs = [textwrap.fill(each, width, break_on_hyphens=False) for each in rest.split("\n\n") if each]
    if not paragraphs and len(first) <= width - 6:
        return f'{indent}"""{first}"""'
    lines = "\n\n".join([textwrap.fill(f'"""{first}', width, break_on_hyphens=False), *paragraphs])
    return textwrap.indent(f'{lines}\n"""', indent, lambda line: bool(line.strip()))
