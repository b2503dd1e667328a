"""A git repository, and diffs that apply to it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

GIT = shutil.which("git") or ""
HELLO = "one\ntwo\nthree\n"


class WorkTree:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.write("hello.txt", HELLO)
        self.commit("The beginning")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        done = subprocess.run(
            [GIT, *identity, *arguments], cwd=self.path, check=True, capture_output=True, text=True, timeout=120
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def read(self, name: str = "hello.txt") -> str:
        return (self.path / name).read_text()

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", message)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def log(self) -> list[str]:
        return self.git("log", "--format=%s").split("\n")

    def is_clean(self) -> bool:
        return self.git("status", "--porcelain") == ""


def diff_replacing(old: str, new: str, name: str = "hello.txt") -> str:
    """Return a diff that replaces one line of the file."""
    lines = HELLO.splitlines()
    body = "".join(f"-{line}\n+{new}\n" if line == old else f" {line}\n" for line in lines)
    return f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1,3 +1,3 @@\n{body}"


def diff_adding(name: str, text: str = "new") -> str:
    return f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{text}\n"
