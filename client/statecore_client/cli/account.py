"""The server and the token: from the environment, or stored by `statecore login`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .errors import CommandError, Exit

URL, TOKEN = "STATECORE_URL", "STATECORE_TOKEN"
LOG_IN = f"run `statecore login URL`, or set {URL} and {TOKEN}"


@dataclass(frozen=True, slots=True)
class Account:
    url: str
    token: str = field(repr=False)


def get_account_path(environ: Mapping[str, str]) -> Path:
    """Returns the path of the stored account, in the XDG configuration folder of the user."""
    base = environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    return folder / "statecore" / "account.json"


def find_account(environ: Mapping[str, str], url: str | None = None) -> Account:
    """Returns the server and the token: `url` first, then the environment, then what `statecore login` stored."""
    kept = _read(get_account_path(environ))
    url, token = url or environ.get(URL) or kept.get("url"), environ.get(TOKEN)
    if token is None and url == kept.get("url"):  # a stored token is sent only to its server
        token = kept.get("token")
    if not url or not token:
        missing = "no server is known" if not url else f"no token is known for {url}"
        raise CommandError(f"{missing}: {LOG_IN}", Exit.NOT_ALLOWED)
    return Account(url, token)


def store_account(account: Account, environ: Mapping[str, str]) -> Path:
    """Stores the account in a file that only its owner can read, and replaces the file in one step."""
    path = get_account_path(environ)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    with suppress(FileNotFoundError):
        fresh.unlink()
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"url": account.url, "token": account.token}, file)
    fresh.replace(path)
    return path


def delete_account(environ: Mapping[str, str]) -> bool:
    try:
        get_account_path(environ).unlink()
    except FileNotFoundError:
        return False
    return True


def _read(path: Path) -> dict[str, str]:
    try:
        text = path.read_bytes()
        mode = path.stat().st_mode
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}", Exit.NOT_ALLOWED) from None
    if mode & 0o077:
        raise CommandError(f"{path} can be read by others: run `chmod 600 {path}`", Exit.NOT_ALLOWED)
    try:
        kept = json.loads(text)
    except (ValueError, RecursionError):
        kept = None
    if not isinstance(kept, dict):
        raise CommandError(f"{path} is damaged: run `statecore login` again", Exit.NOT_ALLOWED)
    return {name: str(value) for name, value in kept.items()}
