"""`login` and `logout`."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import Namespace
from typing import Any

from . import account
from .account import Account
from .context import Context
from .errors import CommandError, Exit


def add_commands(commands: Any) -> None:
    login = commands.add_parser("login", help="store a token for a server; it is read from the terminal or a pipe")
    login.add_argument("url", nargs="?", help="such as https://statecore.example; may also be given with --url")
    login.set_defaults(run=log_in)
    logout = commands.add_parser("logout", help="delete the stored token")
    logout.set_defaults(run=log_out)


def log_in(options: Namespace, context: Context) -> None:
    """The token is never an argument: the shell's history and the list of processes show arguments."""
    url = options.url or options.server or os.environ.get(account.URL)
    if not url:
        raise CommandError("no server is given: `statecore login https://statecore.example`", Exit.USAGE)
    token = getpass.getpass("token: ") if sys.stdin.isatty() else sys.stdin.readline()
    token = token.strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise CommandError("the token is empty or has characters that no token has", Exit.INVALID)
    new = Account(url, token)
    context.open_client(new).get_page("runs", page_size=1)  # raises NotAuthenticated if the token is invalid
    path = account.store_account(new, os.environ)
    context.print_note(f"logged in at {new.url}; the token is stored in {path}")


def log_out(options: Namespace, context: Context) -> None:
    context.print_note(
        "logged out; the stored token is deleted" if account.delete_account(os.environ) else "no token was stored"
    )
