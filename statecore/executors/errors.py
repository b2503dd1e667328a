"""Errors of the executors. Refusals reach API clients; exceptions are handled inside the executors."""

from ..kernel.refusals import Refusal


class NotEnabled(Refusal):
    """The required setting is missing: the allowed commands or the repository."""

    code = "off"


class RepositoryBusy(Refusal):
    """Another process is using the repository; retry later."""

    code = "repository_busy"


class RepositoryNotUsable(Refusal):
    """The work tree is not clean or is on another branch; `detail` explains which."""

    code = "repository_not_usable"


class RollbackFailed(Refusal):
    """The rollback failed; the patch and the repository are unchanged."""

    code = "rollback_failed"


class RevertNotVerified(Refusal):
    """The commit does not prove that the patch was reverted; `detail` explains why."""

    code = "revert_not_verified"


class CommandRejected(Exception):
    """A command may not or cannot be run; gates report it with this exit code."""

    def __init__(self, exit_code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class GitFailed(Exception):
    """A git command failed; the message is git's output."""


class WorkerStopping(Exception):
    """The worker is stopping. The work tree is left as it is; the next executor restores it."""
