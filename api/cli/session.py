"""login and logout."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import Namespace
from typing import Any

from . import account
from .account import Account
from .desk import Desk
from .exits import Exit, Stop


def add(commands: Any) -> None:
    login = commands.add_parser("login", help="keep a token for a server; it is read from the terminal or a pipe")
    login.add_argument("url", help="such as https://statecore.example")
    login.set_defaults(run=log_in)
    logout = commands.add_parser("logout", help="forget the token")
    logout.set_defaults(run=log_out)


def log_in(options: Namespace, desk: Desk) -> None:
    """Never from an argument: arguments are in the history of the shell and in everybody's list of processes."""
    token = getpass.getpass("token: ") if sys.stdin.isatty() else sys.stdin.readline()
    token = token.strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise Stop("that is not a token", Exit.INVALID)
    who = Account(options.url, token)
    desk.client_for(who).page("runs", page_size=1)  # refused unless the token is good
    path = account.keep(who, os.environ)
    desk.say(f"logged in at {who.url}; the token is kept in {path}")


def log_out(options: Namespace, desk: Desk) -> None:
    desk.say("the token is forgotten" if account.forget(os.environ) else "no token was kept")
