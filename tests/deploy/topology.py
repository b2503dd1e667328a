"""Runs a whole installation with the commands of the systemd units, behind nginx with the shipped configuration."""

from __future__ import annotations

import os
import resource
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from statecore.storage import roles
from statecore_client import Client
from tests.deploy import units
from tests.deploy.units import DEPLOY, ROOT, Unit
from tests.support import forked
from tests.support import roles as test_roles
from tests.support.site import free_port
from tests.support.waiting import is_listening, until

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
OPENSSL = shutil.which("openssl")
PATIENCE = 90.0
PASSWORD = "a-sufficiently-long-password"
OPEN_FILES = 1024


def _limit_open_files() -> None:
    """Applies systemd's default limit of open files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


class Topology:
    def __init__(self, directory: Path, database: str, redis: str) -> None:
        self.directory, self.database = directory, database
        urls = test_roles.create_in(database)
        self.owner = urls[roles.OWNER]
        home = directory / "home"
        self.environ = {
            **os.environ,
            **units.variables(),
            "DATABASE_URL": urls[roles.WEB],
            "REDIS_URL": redis,
            "STATECORE_HOME": str(home),
            "STATECORE_BACKUP_DIR": str(directory / "backups"),
            "STATECORE_SECRET_KEY": secrets.token_urlsafe(50),
            "STATECORE_METRICS_TOKEN": "m" * 32,
            "PROMETHEUS_MULTIPROC_DIR": str(home / "metrics"),
            "STATECORE_RETRY_BASE_SECONDS": "1",
            "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
        }
        self.units = units.target_units()
        listening = [unit for unit in self.units if unit.instance.isdigit() and len(unit.instance) == 4]
        self.ports = {unit.instance: str(free_port()) for unit in listening}
        self.plain, self.tls = free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.tls}"
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.trust = ssl.create_default_context()

    def start(self) -> None:
        first, *others = self.units
        # As in /etc/statecore-owner.env, which only the first unit reads.
        prepare = self.start_unit(first, DATABASE_URL=self.owner)
        assert prepare.wait(PATIENCE) == 0, self.log(first.name)
        del self.running[first.name]
        self.manage("createsuperuser", "--noinput", "--username", "ada", "--email", "ada@example.org")
        self.token = self.manage("token", "create", "agent", "--user", "ada", "--scope", "override")
        for unit in others:
            self.start_unit(unit)
        self._start_nginx()
        until(lambda: self.status("/readyz") == 200 and all(map(is_listening, self.ports.values())), PATIENCE)

    def start_unit(self, unit: Unit, **settings: str) -> subprocess.Popen[bytes]:
        command = unit.command(self.ports.get(unit.instance, unit.instance))
        assert command[0] == units.PYTHON
        return self._run(unit.name, [sys.executable, *command[1:]], **settings)

    def _run(self, name: str, command: list[str], **settings: str) -> subprocess.Popen[bytes]:
        """Starts a command in a new session, so that all its processes can be killed like a systemd unit."""
        with (self.directory / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command, cwd=ROOT, env={**self.environ, **settings}, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=_limit_open_files,
            )  # fmt: skip
        return self.running[name]

    def _start_nginx(self) -> None:
        assert NGINX
        folder = self.directory / "nginx"
        shutil.copytree(DEPLOY / "nginx", folder)
        make_certificate(folder)
        self.trust.load_verify_locations(folder / "tls.crt")
        replacements = {
            "listen 80 ": f"listen 127.0.0.1:{self.plain} ",
            "listen 443 ": f"listen 127.0.0.1:{self.tls} ",
            "/etc/statecore/": f"{folder}/",
            "/run/nginx.pid": f"{folder}/nginx.pid",
            "/var/lib/nginx/": f"{folder}/",
            **{f"127.0.0.1:{port} ": f"127.0.0.1:{given} " for port, given in self.ports.items()},
        }
        for name in ("nginx.conf", "upstreams.conf"):
            text = (folder / name).read_text()
            for old, new in replacements.items():
                text = text.replace(old, new)
            (folder / name).write_text(text)
        self.nginx = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        subprocess.run([*self.nginx, "-t"], check=True, capture_output=True, timeout=120)
        self._run_nginx()

    def _run_nginx(self) -> None:
        self._run("nginx", [*self.nginx, "-g", "daemon off;"])

    def manage(self, *words: str, exit_code: int = 0) -> str:
        ended = forked.run([sys.executable, "manage.py", *words], cwd=ROOT, env=self.environ, timeout=120)
        assert ended.returncode == exit_code, ended.stdout + ended.stderr
        return ended.stdout.strip()

    def kill(self, name: str) -> None:
        """Kills all processes of the unit."""
        process = self.running.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)

    def end(self) -> None:
        for name in list(self.running):
            self.kill(name)

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    def leaders(self) -> list[str]:
        sequencers = [name for name in self.running if "sequencer" in name]
        return [name for name in sequencers if "sequencer_leads" in self.log(name)]

    def status(self, path: str) -> int:
        assert all(process.poll() is None for process in self.running.values()), self.logs_of_ended()
        try:
            return httpx.get(f"{self.url}{path}", verify=self.trust, timeout=10).status_code
        except httpx.TransportError:
            return 0

    def logs_of_ended(self) -> str:
        ended = [name for name, process in self.running.items() if process.poll() is not None]
        return "\n".join(f"{name}: {self.log(name)[-2000:]}" for name in ended)

    def browser(self, local_address: str | None = None) -> httpx.Client:
        transport = httpx.HTTPTransport(verify=self.trust, local_address=local_address)
        return httpx.Client(base_url=self.url, transport=transport, timeout=20)

    def client(self) -> Client:
        return Client(self.url, self.token, transport=httpx.HTTPTransport(verify=self.trust))

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


def make_certificate(folder: Path) -> None:
    assert OPENSSL
    command = [OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "1", "-subj", "/CN=statecore", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


@contextmanager
def running(directory: Path, database: str, redis: str) -> Iterator[Topology]:
    topology = Topology(directory, database, redis)
    try:
        topology.start()
        yield topology
    finally:
        topology.end()
