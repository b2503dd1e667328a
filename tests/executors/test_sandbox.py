"""Attempts to leave the sandbox or to exceed its limits, each of which must fail."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from statecore.executors import allowed_commands, isolated_command, sandbox
from statecore.executors.checkouts import Checkout, Source
from statecore.executors.command import Result
from statecore.executors.errors import NotEnabled
from statecore_client.processes.process_guard import NOT_FOUND
from tests.executors.support import needs_bubblewrap
from tests.support.waiting import until

pytestmark = [pytest.mark.once_on("postgres"), needs_bubblewrap]

SECRET = "the-secret-of-the-installation"
TRIES = """
import contextlib, json, os, pathlib, socket, subprocess, sys
found = {}
@contextlib.contextmanager
def trying(name):
    try:
        yield
        found[name] = "succeeded"
    except (OSError, subprocess.CalledProcessError) as error:
        found[name] = type(error).__name__
"""


@pytest.fixture(autouse=True)
def home(settings, tmp_path: Path) -> Path:
    """An installation with secrets, in which the commands of these tests are allowed."""
    settings.STATECORE_HOME = tmp_path / "home"
    settings.STATECORE_HOME.mkdir()
    settings.STATECORE_CHECKOUT_DIR = settings.STATECORE_HOME / "checkouts"
    settings.STATECORE_GATE_COMMANDS = (sys.executable,)
    for name in ("secrets.json", "statecore.sqlite3"):
        (settings.STATECORE_HOME / name).write_text(SECRET)
    return settings.STATECORE_HOME


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


@pytest.fixture
def without_sandbox(settings) -> None:
    settings.STATECORE_SANDBOX = "off"


@pytest.fixture
def without_bubblewrap(tmp_path, monkeypatch) -> Iterator[None]:
    """A host on which bubblewrap is not installed."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "chmod", "rm", "prlimit"):
        (programs / name).symlink_to(shutil.which(name) or "")
    sandbox._probe.cache_clear()
    monkeypatch.setenv("PATH", str(programs))
    yield
    sandbox._probe.cache_clear()


def run(script: str, folder: Path, timeout: float = 60.0) -> Result:
    return isolated_command.run(shlex.join([sys.executable, "-c", script]), Source(folder), timeout=timeout)


def run_tries(script: str, folder: Path) -> dict[str, str]:
    result = run(f"{TRIES}\n{script}\nprint(json.dumps(found))", folder)
    assert result.exit_code == 0, result
    return json.loads(result.stdout.splitlines()[-1])


# Files


def test_a_command_reads_no_secrets_and_no_home_directory(home, folder) -> None:
    places = {
        "secret key": home / "secrets.json",
        "database": home / "statecore.sqlite3",
        "passwords": Path("/etc/shadow"),
        "host keys": Path("/etc/ssh"),
        "home directory": Path.home() / ".bashrc",
        "sockets": Path("/run"),
        "devices of the kernel": Path("/sys"),
        "logs": Path("/var/log"),
        "source code of Statecore": Path(sandbox.__file__),
    }
    script = "".join(
        f"with trying({name!r}): p = pathlib.Path({str(path)!r}); list(p.iterdir()) if p.is_dir() else p.read_bytes()\n"
        for name, path in places.items()
    )

    assert run_tries(script, folder) == dict.fromkeys(places, "FileNotFoundError")


def test_a_command_writes_only_to_its_checkout(folder) -> None:
    script = """
for place in ("/", "/usr", "/etc", "/dev", "/proc/sys/kernel", "/var", sys.prefix, str(pathlib.Path.cwd().parents[2])):
    with trying(place):
        (pathlib.Path(place) / "written").write_text("")
for place in (".", "/tmp", "/dev/shm", os.environ["HOME"]):
    with trying(place):
        (pathlib.Path(place) / "written").write_text("")
"""

    found = run_tries(script, folder)

    allowed = [place for place, outcome in found.items() if outcome == "succeeded"]
    assert allowed[:3] == [".", "/tmp", "/dev/shm"]  # noqa: S108 - of the sandbox
    assert len(allowed) == 4
    assert list(folder.iterdir()) == []


def test_links_do_not_lead_out_of_the_sandbox(home, folder) -> None:
    (folder / "committed-link").symlink_to(home / "secrets.json")
    script = f"""
os.symlink({str(home)!r}, "own-link")
for name in ("committed-link", "own-link/secrets.json", "../../../secrets.json", "/proc/1/root{home}/secrets.json"):
    with trying(name):
        pathlib.Path(name).read_text()
with trying("hard link"):
    os.link({str(home / "secrets.json")!r}, "hard-link")
"""

    assert set(run_tries(script, folder).values()) <= {"FileNotFoundError", "PermissionError"}


def test_a_removed_checkout_does_not_take_the_target_of_a_link_with_it(home, folder, tmp_path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    script = f"""
import os, pathlib, shutil
root = pathlib.Path.cwd().parent
for name in ("home", "files"):
    shutil.rmtree(root / name)
    (root / name).symlink_to({str(precious)!r})
"""

    assert run(script, folder).exit_code == 0

    assert (precious / "file").read_text() == "kept"
    assert list((home / "checkouts").iterdir()) == []


def test_a_checkout_that_resists_its_removal_is_removed(home, folder) -> None:
    script = """
import os
os.makedirs("closed/inner"); open("closed/inner/file", "w"); os.chmod("closed/inner", 0); os.chmod("closed", 0)
for _ in range(3000):
    os.mkdir("d"); os.chdir("d")
"""

    assert run(script, folder).exit_code == 0

    assert list((home / "checkouts").iterdir()) == []


def test_a_visible_directory_does_not_show_the_home_inside_it(home, folder, settings, tmp_path) -> None:
    (tmp_path / "tool").write_text("visible")
    (tmp_path / "tool").chmod(0o644)
    tmp_path.chmod(0o755)
    settings.STATECORE_SANDBOX_READ = (tmp_path,)
    script = f"""
for path in ({str(tmp_path / "tool")!r}, {str(home / "secrets.json")!r}):
    with trying(path):
        pathlib.Path(path).read_text()
"""

    assert list(run_tries(script, folder).values()) == ["succeeded", "FileNotFoundError"]


# Environment, processes, network


def test_a_command_inherits_only_harmless_variables(folder, monkeypatch) -> None:
    monkeypatch.setenv("STATECORE_SECRET_KEY", SECRET)
    monkeypatch.setenv("DATABASE_URL", f"postgres://statecore:{SECRET}@127.0.0.1/statecore")

    result = run("import os; print(sorted(os.environ)); print(os.environ)", folder)

    names = json.loads(result.stdout.splitlines()[0].replace("'", '"'))
    assert set(names) <= {"HOME", "LANG", "PATH", "PWD", "TMPDIR"}
    assert SECRET not in result.stdout


def test_a_command_sees_and_signals_only_its_own_processes(folder) -> None:
    script = f"""
numbers = sorted(int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*"))
found["processes"] = str(len(numbers))
for name, action in {{
    "kill executor": lambda: os.kill({os.getpid()}, 9),
    "read executor": lambda: pathlib.Path("/proc/{os.getpid()}/environ").read_bytes(),
    "kill first": lambda: os.kill(1, 9) or pathlib.Path("/proc/1/status").read_bytes() and os.stat("/nonexistent"),
}}.items():
    with trying(name):
        action()
"""

    found = run_tries(script, folder)

    assert int(found.pop("processes")) <= 4
    assert set(found.values()) <= {"ProcessLookupError", "FileNotFoundError", "PermissionError"}


def test_a_command_is_not_root_and_has_no_capabilities(folder) -> None:
    status = run("print(open('/proc/self/status').read())", folder).stdout

    assert "CapEff:\t0000000000000000" in status
    assert "CapPrm:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert "\nUid:\t0" not in status


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
def test_executors_of_root_run_commands_as_the_configured_user(folder, settings) -> None:
    nobody = pwd.getpwnam(settings.STATECORE_COMMAND_USER)

    ids = run("import os; print(os.getuid(), os.getgid(), os.getgroups())", folder).stdout

    assert ids == f"{nobody.pw_uid} {nobody.pw_gid} []\n"


def test_a_command_reaches_no_network(folder, home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(home / "redis.sock"))
        local.listen()
        script = f"""
with trying("loopback of the host"):
    socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), timeout=5)
with trying("outside"):
    socket.create_connection(("192.0.2.1", 80), timeout=5)
with trying("socket file"):
    socket.socket(socket.AF_UNIX).connect({str(home / "redis.sock")!r})
with trying("own loopback"):
    here = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(here.getsockname(), timeout=5)
"""
        found = run_tries(script, folder)

    assert found.pop("own loopback") == "succeeded"
    assert set(found.values()) <= {"ConnectionRefusedError", "FileNotFoundError", "OSError"}


def test_an_operator_can_allow_the_network(folder, settings) -> None:
    settings.STATECORE_SANDBOX_NETWORK = True
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), timeout=5)"

        assert run(script, folder).exit_code == 0


def processes_with(marker: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if marker in (each.info["cmdline"] or [])]


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_no_process_is_left_behind(folder, settings, mode) -> None:
    settings.STATECORE_SANDBOX = mode
    marker = f"left-behind-{mode}"
    child = f"import time; time.sleep(600), {marker!r}"
    script = f"""
import os, subprocess, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = open(os.devnull, "r+")
        subprocess.Popen([sys.executable, "-c", {child!r}, {marker!r}], stdin=null, stdout=null, stderr=null)
        os._exit(0)
    os._exit(0)
"""

    assert run(script, folder).exit_code == 0

    until(lambda: not processes_with(marker))


def test_a_timeout_ends_a_command_that_ignores_signals(folder) -> None:
    script = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(600)"

    assert run(script, folder, timeout=1.0).timed_out


# Limits


def test_a_fork_bomb_ends_at_the_limit_of_processes(folder, settings) -> None:
    settings.STATECORE_COMMAND_PROCESSES = 40
    script = """
import os, time
count = 0
try:
    while count < 1000:
        if os.fork() == 0:
            time.sleep(600)
        count += 1
except BlockingIOError:
    print(count, flush=True)
os._exit(0)
"""

    result = run(script, folder)

    assert 0 < int(result.stdout) <= 40, result


def test_a_command_that_needs_too_much_memory_fails(folder, settings) -> None:
    settings.STATECORE_COMMAND_MEMORY = 256

    result = run("len(bytearray(1 << 30))", folder)

    assert (result.exit_code, "MemoryError" in result.stderr) == (1, True)


@pytest.mark.parametrize("mode", ["auto", "off"])
@pytest.mark.parametrize("place", ["os.getcwd()", "tempfile.gettempdir()", "os.environ['HOME']"])
def test_a_command_that_fills_the_disk_with_many_files_is_ended(folder, settings, mode, place) -> None:
    settings.STATECORE_SANDBOX = mode
    settings.STATECORE_COMMAND_DISK = 32
    script = f"""
import os, tempfile, time
for number in range(64):
    with open(f"{{{place}}}/{{number}}", "wb") as file:
        file.write(bytes(1 << 20)); file.flush(); os.fsync(file.fileno())
time.sleep(600)
"""

    result = run(script, folder)

    assert result.excess == "used more than 32 MiB of disk space"
    assert not result.completed


def test_a_single_file_cannot_exceed_the_disk_limit(folder, settings) -> None:
    settings.STATECORE_COMMAND_DISK = 32

    result = run("open('big', 'wb').truncate(1 << 30)", folder)

    assert result.exit_code != 0
    assert "File too large" in result.stderr


def test_endless_output_is_truncated(folder) -> None:
    result = run("while True: print('x' * 1000)", folder, timeout=1.0)

    assert result.timed_out
    assert len(result.stdout) < 70_000


# Where bubblewrap is missing, switched off or too old


def test_without_a_sandbox_a_command_has_a_checkout_limits_and_a_clean_environment(
    folder, home, settings, without_sandbox, monkeypatch
) -> None:
    monkeypatch.setenv("STATECORE_SECRET_KEY", SECRET)
    script = """
import os, resource, tempfile
print(os.getcwd(), os.environ["HOME"], tempfile.gettempdir())
print(resource.getrlimit(resource.RLIMIT_DATA)[0] >> 20, resource.getrlimit(resource.RLIMIT_FSIZE)[0] >> 20)
print("STATECORE_SECRET_KEY" in os.environ, os.getsid(0) == os.getpid())
"""

    places, limits, rest = run(script, folder).stdout.splitlines()

    assert all(Path(place).is_relative_to(home / "checkouts") for place in places.split())
    assert limits == f"{settings.STATECORE_COMMAND_MEMORY} {settings.STATECORE_COMMAND_DISK}"
    assert rest == "False True"


def test_commands_run_without_bubblewrap_unless_it_is_required(folder, settings, without_bubblewrap) -> None:
    assert sandbox.find_problem() == "bubblewrap is not installed"
    assert run("print('done')", folder).stdout == "done\n"

    settings.STATECORE_SANDBOX = "required"
    for action in (allowed_commands.require_enabled, lambda: run("print('done')", folder)):
        with pytest.raises(NotEnabled, match="required, but bubblewrap is not installed"):
            action()


def test_a_user_with_every_permission_is_refused_as_the_user_of_commands() -> None:
    assert sandbox._probe("root") == "STATECORE_COMMAND_USER is root, which has every permission"
    assert "does not exist" in sandbox._probe("no-such-user")


def test_a_program_outside_the_sandbox_is_refused_with_the_setting_to_change(folder, settings, tmp_path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho works\n")
    tool.chmod(0o755)
    tmp_path.chmod(0o755)
    settings.STATECORE_GATE_COMMANDS = (str(tool),)

    refused = isolated_command.run(str(tool), Source(folder), timeout=60)
    settings.STATECORE_SANDBOX_READ = (tmp_path,)
    allowed = isolated_command.run(str(tool), Source(folder), timeout=60)

    assert (refused.exit_code, refused.ran) == (NOT_FOUND, False)
    assert refused.stderr == f"{tool} is outside the sandbox: add its directory to STATECORE_SANDBOX_READ"
    assert allowed.stdout == "works\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user")
def test_the_sandbox_of_an_ordinary_user_is_a_user_namespace(monkeypatch) -> None:
    """Wraps a command as for the user nobody, and runs bubblewrap as that user."""
    nobody = pwd.getpwnam("nobody")
    root = Path(tempfile.mkdtemp(dir="/var/tmp"))
    for name in ("home", "tmp", "shm"):
        (root / name).mkdir()
    for path in (root, *root.iterdir()):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    monkeypatch.setattr(os, "geteuid", lambda: nobody.pw_uid)
    monkeypatch.setattr(sandbox, "visible", lambda: [Path(name) for name in sandbox.SYSTEM])
    script = "id -u; ls /; ls /proc | grep -c '^[0-9]'; unshare --user true || echo no namespaces"
    wrapped = sandbox._wrap(["/bin/sh", "-c", script], Checkout(root, -1, root))
    try:
        ended = subprocess.run(
            wrapped,
            capture_output=True,
            text=True,
            timeout=60,
            user=nobody.pw_uid,
            group=nobody.pw_gid,
            extra_groups=[],
        )
    finally:
        shutil.rmtree(root)

    assert ended.returncode == 0, ended.stderr
    uid, *names, processes, last = ended.stdout.splitlines()
    assert uid == str(nobody.pw_uid)
    assert {"root", "home", "sys", "run"} & set(names) == set()
    assert int(processes) <= 6
    assert last == "no namespaces"
