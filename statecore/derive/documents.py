"""Every file that is written from declarations: what it should say, and whether it does."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.utils.module_loading import import_string

ROOT = Path(__file__).parents[2]
# Whatever else lies in these is left over from a declaration that is gone.
WRITTEN_WHOLE = ("docs/reference/machines", "deploy/grafana", "deploy/prometheus")


def documents() -> dict[str, str]:
    """The text of each by its path. Settings name the writer, as some of what it reads is of the layers above."""
    made: dict[str, str] = import_string(settings.STATECORE_DOCUMENTS)()
    return made


def outdated() -> list[str]:
    """The files that are missing, differ, or should not be there."""
    wanted = documents()
    there = {path: (ROOT / path).read_text() for path in wanted.keys() | _lying_about() if (ROOT / path).is_file()}
    return sorted(path for path in wanted.keys() | there.keys() if wanted.get(path) != there.get(path))


def write() -> list[str]:
    """Bring every file up to date; what was done, a line for each."""
    wanted, done = documents(), []
    for path in outdated():
        place, text = ROOT / path, wanted.get(path)
        if text is None:
            place.unlink()
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        done.append(f"{'removed' if text is None else 'wrote'} {path}")
    return done


def _lying_about() -> set[str]:
    found = (path for folder in WRITTEN_WHOLE for path in (ROOT / folder).glob("*.*"))
    return {path.relative_to(ROOT).as_posix() for path in found}
