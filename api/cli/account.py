"""Which server, and in whose name: the environment, or what `statecore login` has kept."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .exits import Exit, Stop

URL, TOKEN = "STATECORE_URL", "STATECORE_TOKEN"
LOG_IN = f"run `statecore login URL`, or set {URL} and {TOKEN}"


@dataclass(frozen=True, slots=True)
class Account:
    url: str
    token: str = field(repr=False)


def kept_in(environ: Mapping[str, str]) -> Path:
    """A folder of the user's own, as the XDG base directories say."""
    base = environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    return folder / "statecore" / "account.json"


def find(environ: Mapping[str, str]) -> Account:
    """The environment comes first, each of its variables on its own."""
    kept = _read(kept_in(environ))
    url, token = environ.get(URL) or kept.get("url"), environ.get(TOKEN)
    if token is None and url == kept.get("url"):  # a kept token is for the server it was given for
        token = kept.get("token")
    if not url or not token:
        missing = "no server is known" if not url else f"no token is known for {url}"
        raise Stop(f"{missing}: {LOG_IN}", Exit.NOT_ALLOWED)
    return Account(url, token)


def keep(account: Account, environ: Mapping[str, str]) -> Path:
    """For the eyes of its owner alone from the first byte on, and never half written."""
    path = kept_in(environ)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    with suppress(FileNotFoundError):
        fresh.unlink()
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"url": account.url, "token": account.token}, file)
    fresh.replace(path)
    return path


def forget(environ: Mapping[str, str]) -> bool:
    try:
        kept_in(environ).unlink()
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
        raise Stop(f"{path} cannot be read: {error.strerror}", Exit.NOT_ALLOWED) from None
    if mode & 0o077:
        raise Stop(f"{path} can be read by others: run `chmod 600 {path}`", Exit.NOT_ALLOWED)
    try:
        kept = json.loads(text)
    except (ValueError, RecursionError):
        kept = None
    if not isinstance(kept, dict):
        raise Stop(f"{path} is damaged: run `statecore login` again", Exit.NOT_ALLOWED)
    return {name: str(value) for name, value in kept.items()}
