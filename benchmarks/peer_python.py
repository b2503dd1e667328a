"""Interpreters of other libraries: each has a virtual environment in .peers/, apart from our requirements."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / ".peers"


def python(name: str, requirements: Path) -> str:
    """Returns the interpreter of an environment, which is built again when its requirements change."""
    folder = FOLDER / name
    own = str(folder / "bin" / "python")
    stamp = folder / requirements.name
    if not stamp.exists() or stamp.read_text() != requirements.read_text():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [own, "-m", "pip", "install", "--quiet", "--no-input", "--requirement", str(requirements)]
        subprocess.run(pip, check=True)
        shutil.copy(requirements, stamp)
    return own
