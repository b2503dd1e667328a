"""Starts Statecore's processes, restarts those that crash, and stops them all."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import django

from statecore.project import (
    commands,
    environment,
    metrics_folder,
    preflight,
    redis_server,
    redis_url,
    startup,
)
from statecore.project.announcements import format_sentence
from statecore.project.environment import ALL_INTERFACES, Environment
from statecore.project.managed_process import Ended, ManagedProcess
from statecore.project.pulses import Pulses
from statecore.project.refusal import Refused

TICK = 0.1
GRACE = 15.0


def brokers(env: Environment) -> list[ManagedProcess]:
    """The embedded Redis, unless REDIS_URL names another."""
    socket_path = redis_url.socket_path(env.home)
    return [ManagedProcess("redis", redis_server.command(socket_path))] if env.redis_is_embedded else []


def processes(env: Environment) -> list[ManagedProcess]:
    """Everything except the broker, with a single web process."""
    names = ["web", "worker", "beat", *(["executors"] if commands.runs_commands(env) else []), "sequencer", "webhooks"]
    return [ManagedProcess(name, commands.COMMANDS[name](env)) for name in names]


class Supervisor:
    def __init__(self, env: Environment) -> None:
        self.env = env
        self.brokers = brokers(env)
        self.processes = processes(env)
        self.pulses = Pulses(env.home)
        self.signals = 0

    def run(self) -> int:
        """Returns the exit code after a signal to stop. Raises Refused if the site cannot start."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        try:
            self._start()
            self._watch()
            return 0
        finally:
            # The broker stops last, because the others use it while they stop.
            self._stop(self.processes)
            self._stop(self.brokers)
            say("stopped.")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1

    def _start(self) -> None:
        for broker in self.brokers:
            broker.start()
        # An embedded Redis needs a moment to open its socket.
        _wait(lambda: self.signals > 0 or _passes(preflight.check_broker), 10.0)
        preflight.check_broker()
        startup.migrate(lambda: self.signals > 0)
        startup.check_integrity(start_anyway=self.env.start_anyway)
        startup.check_executor_work()
        if password := startup.create_first_operator():
            say(f"first operator: {startup.FIRST_OPERATOR}, password: {password}")
            say("note the password now: it is not shown again.")
        _close_connections()

    def _watch(self) -> None:
        """Restarts processes that have ended or hang, until a signal arrives."""
        announced = False
        while not self.signals:
            self._note_pulses()
            for process in [*self.brokers, *self.processes]:
                if ended := process.check():
                    say(str(ended))
                    # A broker makes no reports.
                    if ended.has_crashed and process in self.processes:
                        threading.Thread(target=_record, args=(ended,), daemon=True).start()
            if not announced and _is_listening(self.env):
                announced = True
                say(f"ready: open {address(self.env)} (Ctrl-C stops it)")
            time.sleep(TICK)
        say("stopping.")

    def _note_pulses(self) -> None:
        alive = set(self.pulses.read())
        for process in self.processes:
            if process.process is not None and process.process.pid in alive:
                process.pulse_at = time.monotonic()

    def _stop(self, processes: list[ManagedProcess]) -> None:
        """Terminates the processes and kills the rest after a grace period, or at once after another signal."""
        signals = self.signals
        for process in processes:
            process.terminate()
        _wait(lambda: self.signals > signals or not any(process.is_running for process in processes), GRACE)
        for process in processes:
            process.kill()


def _record(ended: Ended) -> None:
    """Shows the end to the others. In a thread, because the database may be what has failed."""
    from django.db import Error, connection

    from statecore.records import process_report

    with suppress(Error):
        process_report.record_end(ended.name, ended.pid, ended.why)
    connection.close()


def say(sentence: str) -> None:
    # The reader may have closed the pipe; the processes must be stopped all the same.
    with suppress(OSError):
        sys.stdout.write(f"{format_sentence(sentence, 'info')}\n")
        sys.stdout.flush()


def address(env: Environment) -> str:
    host = _connectable(env.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{env.port}/"


def _connectable(host: str) -> str:
    return "127.0.0.1" if host in ALL_INTERFACES else host


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(TICK / 2)


def _passes(check: Callable[[], None]) -> bool:
    try:
        check()
    except Refused:
        return False
    return True


def _is_listening(env: Environment) -> bool:
    try:
        socket.create_connection((_connectable(env.host), env.port), timeout=1).close()
    except OSError:
        return False
    return True


def _close_connections() -> None:
    from django.db import connections

    connections.close_all()


def main() -> int:
    preflight.check_distribution()
    env = environment.read(os.environ)
    with startup.lock_home(env.home):
        startup.check_port(env.host, env.port)
        # A relative path would mean another directory in processes that change theirs.
        os.environ["STATECORE_HOME"] = str(env.home)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
        metrics_folder.prepare(env.home)
        django.setup()
        startup.check_declarations()
        preflight.check_database()
        if env.redis_is_embedded:
            redis_server.create_directory(redis_url.socket_path(env.home))
        else:
            preflight.check_broker()
        return Supervisor(env).run()


if __name__ == "__main__":
    sys.exit(main())
