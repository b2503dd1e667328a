"""`find-regression`: bisects the committed patches of a workstream in a local clone of the repository."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .. import Entity
from .context import Context
from .errors import CommandError, Exit

COMMITTED, FAILED = "committed", "FAILED"


class Check(NamedTuple):
    """The command of a gate, which tells a good commit from a bad one."""

    arguments: list[str]
    expected_exit_code: int
    timeout_sec: float


def add_commands(commands: Any) -> None:
    find = commands.add_parser("find-regression", help="name the patch of a workstream that broke a gate")
    find.add_argument("workstream", help="the workstream whose committed patches are tested")
    find.add_argument("--gate", help="the gate whose command decides; default: the failed gate of the workstream")
    find.add_argument("--repository", default=".", metavar="DIRECTORY", help="a clone with the commits (.)")
    find.set_defaults(run=find_regression)


def find_regression(options: Namespace, context: Context) -> None:
    """Prints the first bad patch; raises CommandError if the command does not tell the patches apart."""
    check = _choose_check(options, context)
    clone = Clone(Path(options.repository), check, context)
    patches = clone.sort([*context.client.list("patches", workstream=options.workstream, state=COMMITTED)])
    if not patches:
        raise CommandError(f"no commit of a patch of {options.workstream} is in {options.repository}", Exit.NOT_FOUND)
    if clone.passes("HEAD"):
        raise CommandError("the command passes at the newest commit: there is no regression", Exit.UNSUCCESSFUL)
    bad = _find_bad(patches, clone.passes)
    if bad is None or not clone.passes(f"{bad['commit_sha']}^"):
        raise CommandError("a commit that is no patch of this workstream broke it", Exit.UNSUCCESSFUL)
    if context.as_json:
        context.print_json(bad)
    else:
        context.print_line(f"patch {bad.id} broke it, commit {bad['commit_sha']}")
        context.print_note(f"to roll it back: statecore playbook rollback-patch {bad.id} --reason …")


def _choose_check(options: Namespace, context: Context) -> Check:
    gate = context.client.get("gates", options.gate) if options.gate else _find_failed_gate(options, context)
    return Check(shlex.split(gate["command"]), gate["expected_exit_code"], gate["timeout_sec"])


def _find_failed_gate(options: Namespace, context: Context) -> Entity:
    gates = [*context.client.list("gates", workstream=options.workstream, state=FAILED)]
    if len(gates) != 1:
        names = ", ".join(gate.id for gate in gates) or "none"
        raise CommandError(f"name the gate with --gate; failed gates of {options.workstream}: {names}", Exit.USAGE)
    return gates[0]


def _find_bad(patches: list[Entity], passes: Callable[[str], bool]) -> Entity | None:
    """Returns the first patch after which the command fails; None if it passes after the last one.

    If it fails before the first one already, it tests what one of them has added: the search goes back from the last to
    one that passes. Raises CommandError if there is none.
    """
    commits = [str(patch["commit_sha"]) for patch in patches]
    if passes(commits[-1]):
        return None
    if passes(f"{commits[0]}^"):
        return patches[_find_first_bad(commits, passes)]
    last_good = next((number for number in reversed(range(len(commits))) if passes(commits[number])), None)
    if last_good is None:
        raise CommandError("the command fails before the first patch and after each: none broke it", Exit.UNSUCCESSFUL)
    return patches[last_good + 1]


def _find_first_bad(commits: list[str], passes: Callable[[str], bool]) -> int:
    """Returns the index of the first bad commit; the last one is bad."""
    low, high = 0, len(commits) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if passes(commits[middle]) else (low, middle)
    return low


class Clone:
    """A clone of the repository, which is only read: each commit is tested in a scratch checkout."""

    def __init__(self, path: Path, check: Check, context: Context) -> None:
        self.path, self.check, self.context = path, check, context
        self.tested: dict[str, bool] = {}

    def sort(self, patches: list[Entity]) -> list[Entity]:
        """Returns the patches whose commits are in the history of HEAD, in the order of the commits."""
        order = {commit: number for number, commit in enumerate(self._git("rev-list", "--reverse", "HEAD").split())}
        found = [patch for patch in patches if patch["commit_sha"] in order]
        return sorted(found, key=lambda patch: order[patch["commit_sha"]])

    def passes(self, revision: str) -> bool:
        """Runs the command at a commit, once; raises CommandError if it cannot be run."""
        commit = self._git("rev-parse", "--verify", f"{revision}^{{commit}}").strip()
        if commit not in self.tested:
            self.tested[commit] = self._run(commit)
            self.context.print_note(f"{commit[:12]} {'passes' if self.tested[commit] else 'fails'}")
        return self.tested[commit]

    def _run(self, commit: str) -> bool:
        with tempfile.TemporaryDirectory(prefix="statecore-regression-") as folder:
            files = Path(folder, "files")
            self._git("clone", "--quiet", "--shared", "--no-checkout", str(self.path.resolve()), str(files))
            self._git("-C", str(files), "checkout", "--quiet", "--detach", commit)
            try:
                done = subprocess.run(
                    self.check.arguments, cwd=files, check=False, capture_output=True, timeout=self.check.timeout_sec
                )
            except subprocess.TimeoutExpired:
                return False
            except OSError as error:
                raise CommandError(f"{self.check.arguments[0]} cannot be run: {error.strerror}", Exit.INVALID) from None
        return done.returncode == self.check.expected_exit_code

    def _git(self, *arguments: str) -> str:
        program = shutil.which("git")
        if program is None:
            raise CommandError("git was not found on this host", Exit.UNSUCCESSFUL)
        # Hooks of the clone may be set up for people; GIT_DIR would lead to another repository.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            [program, "-c", "core.hooksPath=/dev/null", *arguments], cwd=self.path, env=environment, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise CommandError(f"git {arguments[0]} failed: {done.stderr.strip()}", Exit.UNSUCCESSFUL)
        return done.stdout
