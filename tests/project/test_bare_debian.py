"""`scripts/up` in a bare Debian, made by debootstrap.

This takes minutes and downloads a base system, so it runs only where STATECORE_TEST_DEBOOTSTRAP names a folder, in
which the base system is kept for the next run. It needs root. `test_installation.py` tests the same in every run, with
stand-ins for the programs of the system.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.site import ROOT

KEPT = os.environ.get("STATECORE_TEST_DEBOOTSTRAP", "")
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# How this machine finds packages, which the bare system must know too.
CONFIGURATION = (
    "/etc/apt",
    "/etc/hosts",
    "/etc/pip.conf",
    "/etc/resolv.conf",
    "/etc/ssl/certs/ca-certificates.crt",
    "/root/.config/pip",
)
ENTER = """
set -eu
root=$1
shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for folder in $LOCAL_INDEXES; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
done
exec chroot "$@" "$root" /bin/bash -c "cd /srv/statecore; $COMMAND"
"""
START_AND_STOP = """
scripts/up >/tmp/up.log 2>&1 & up=$!
until grep -q 'ready: open' /tmp/up.log || ! kill -0 $up; do sleep 0.2; done
kill -TERM $up; wait $up; result=$?; cat /tmp/up.log; exit $result
"""

pytestmark = [
    pytest.mark.skipif(not KEPT, reason="STATECORE_TEST_DEBOOTSTRAP names no folder for the base system"),
]


class BareDebian:
    """A root file system with Python, git and a checkout of the project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, base: Path) -> None:
        if not (base / "etc" / "debian_version").exists():
            make_base_system(base)
        subprocess.run(["/bin/cp", "-a", f"{base}/.", str(self.folder)], check=True)
        (self.folder / "etc" / "apt" / "sources.list").unlink(missing_ok=True)
        for path in map(Path, CONFIGURATION):
            self.copy(path)
        subprocess.run(["/usr/bin/git", "clone", "-q", str(ROOT), str(self.folder / "srv" / "statecore")], check=True)

    def copy(self, path: Path) -> None:
        target = self.folder / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target, dirs_exist_ok=True, symlinks=True)
        elif path.exists():
            shutil.copy(path, target)

    def run(self, command: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a shell command in the checkout; its mounts and processes end with its namespaces."""
        given = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        own = {"PATH": SYSTEM_PATH, "HOME": "/root", "LOCAL_INDEXES": " ".join(local_indexes()), "COMMAND": command}
        enter = [
            "unshare",
            "--mount",
            "--propagation=private",
            "/bin/sh",
            "-c",
            ENTER,
            "sh",
            str(self.folder),
            *options,
        ]
        return subprocess.run(enter, env={**given, **own, **variables}, capture_output=True, text=True, timeout=250)


def make_base_system(folder: Path) -> None:
    if shutil.which("debootstrap", path=SYSTEM_PATH) is None:
        subprocess.run([ROOT / "scripts" / "packages", "This test needs", "debootstrap"], check=True)
    include = "--include=python3,git,ca-certificates"
    command = ["debootstrap", "--variant=minbase", include, codename(), str(folder), *mirror()]
    subprocess.run(command, check=True, env={**os.environ, "PATH": SYSTEM_PATH}, stdout=subprocess.DEVNULL)


def codename() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("VERSION_CODENAME="))


def mirror() -> list[str]:
    """The first archive among this machine's sources, where it has any in the newer format."""
    for sources in sorted(Path("/etc/apt/sources.list.d").glob("*.sources")):
        for line in sources.read_text().splitlines():
            if line.startswith("URIs:"):
                return [line.split()[1]]
    return []


def local_indexes() -> list[str]:
    """The folders of package indexes in pip's configuration; the files lie beside the index."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    words = listed.stdout.replace("'", " ").replace("file://", " ").split()
    return sorted({str(Path(word).parent) for word in words if word.startswith("/") and Path(word).is_dir()})


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> BareDebian:
    debian = BareDebian(tmp_path_factory.mktemp("debian"))
    debian.make(Path(KEPT))
    return debian


def test_without_root_one_sentence_names_the_package(debian: BareDebian) -> None:
    ended = debian.run("scripts/up", "--userspec=1000:1000")

    assert ended.returncode == 1
    (sentence,) = ended.stderr.splitlines()
    assert "python3-venv" in sentence


def test_root_starts_it_although_an_earlier_attempt_left_half_an_environment(debian: BareDebian) -> None:
    half_made = debian.run("python3 -m venv .venv")
    assert half_made.returncode == 1
    assert "ensurepip" in half_made.stdout
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])

    ended = debian.run(START_AND_STOP, PORT=port)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"ready: open http://127.0.0.1:{port}/" in ended.stdout
