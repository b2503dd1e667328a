"""The home directory and the secret key in it, which is generated once and readable only by its owner."""

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path

from statecore.project.refusal import Refused


def create(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"STATECORE_HOME {home} cannot be created: {error.strerror}.") from None


def read_secret_key(home: Path) -> str:
    """Returns the secret key, and generates it first if there is none."""
    create(home)
    path = home / "secrets.json"
    try:
        if not path.exists():
            _write_once(path, {"secret_key": secrets.token_urlsafe(50)})
        key = json.loads(path.read_text(encoding="utf-8"))["secret_key"]
    except OSError as error:
        raise Refused(f"{path} cannot be read or written: {error.strerror}.") from None
    except (ValueError, LookupError, TypeError):
        raise Refused(f"{path} is damaged: it must be JSON with a `secret_key`.") from None
    if not isinstance(key, str) or not key:
        raise Refused(f"{path} is damaged: its `secret_key` must be text.")
    return key


def _write_once(path: Path, content: dict[str, str]) -> None:
    """Creates the file atomically: of two processes that start together one wins, and neither reads a partial file."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
