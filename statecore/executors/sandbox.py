"""The sandbox in which commands run: bubblewrap, and limits on memory, processes and disk space.

A command sees the system's programs and libraries, its checkout and nothing else: no home directory, no secrets, no
processes of others and no network. Without bubblewrap only the limits and the checkout remain.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from django.conf import settings

from . import command
from .checkouts import Checkout
from .errors import NotEnabled

OFF, REQUIRED = "off", "required"
PROGRAM = "bwrap"
MEBIBYTE = 1 << 20
MOST_FILES = 1_000_000
PROBE_SECONDS = 20.0
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# What programs need from /etc: libraries, names, time zone and certificates, but no keys.
SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/resolv.conf", "/etc/localtime"),
    *("/etc/ca-certificates", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/mime.types"),
)


def run(
    arguments: Sequence[str],
    checkout: Checkout,
    timeout: float,
    extra: Mapping[str, str] | None = None,
    is_obsolete: Callable[[], bool] = bool,
) -> command.Result:
    """Run a command in its checkout; raises NotEnabled where a sandbox is required and there is none."""
    require()
    find_disk_excess = _disk_watch(checkout.root)
    places = {"HOME": str(checkout.home), "TMPDIR": str(checkout.temporary)}
    wrapped = list(arguments)
    if is_active():
        _give_to_command_user(checkout.root)
        wrapped = _wrap(arguments, checkout)
        places["TMPDIR"] = "/tmp"  # noqa: S108 - of the sandbox
    return command.run(
        [*_limits(), *wrapped],
        folder=checkout.folder,
        timeout=timeout,
        extra={**places, **(extra or {})},
        keep=[checkout.lock],
        find_excess=lambda: "became obsolete" if is_obsolete() else find_disk_excess(),
        umask=0o022,
    )


# Availability


def is_active() -> bool:
    return not find_problem()


def require() -> None:
    if settings.STATECORE_SANDBOX == REQUIRED and (problem := find_problem()):
        raise NotEnabled(f"commands are disabled: STATECORE_SANDBOX is required, but {problem}")


def find_problem() -> str:
    """Return why commands run without bubblewrap on this host, or an empty string."""
    if settings.STATECORE_SANDBOX == OFF:
        return "STATECORE_SANDBOX is off"
    return _probe(settings.STATECORE_COMMAND_USER if os.geteuid() == 0 else "")


@cache
def _probe(user: str) -> str:
    """Try the sandbox once per process, so that no later failure lets a command run without it."""
    if shutil.which(PROGRAM) is None:
        return "bubblewrap is not installed"
    try:
        if user and pwd.getpwnam(user).pw_uid == 0:
            return f"STATECORE_COMMAND_USER is {user}, which has every permission"
    except KeyError:
        return f"the user {user} of STATECORE_COMMAND_USER does not exist"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("home", "tmp", "shm"):
            Path(folder, name).mkdir()
        probe = _wrap([shutil.which("true") or "true"], Checkout(Path(folder), -1, Path(folder)))
        try:
            ended = subprocess.run(probe, check=False, capture_output=True, text=True, timeout=PROBE_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap cannot be started: {error}"
    return f"bubblewrap does not work here: {ended.stderr.strip()}" if ended.returncode else ""


# The view of the file system


def can_read(program: Path) -> bool:
    """Whether a command in the sandbox sees this program, also behind links of its folder and its own."""
    links = (program, program.parent.resolve() / program.name, program.resolve())
    return all(any(path.is_relative_to(each) for each in visible()) for path in links)


def visible() -> list[Path]:
    """The folders that every command may read: the system's, the Python of this installation, and the configured."""
    given = [*map(Path, SYSTEM), Path(sys.prefix), Path(sys.base_prefix), *settings.STATECORE_SANDBOX_READ]
    return list(dict.fromkeys([*given, *(path.resolve() for path in given)]))


def _hidden() -> list[Path]:
    """Folders with secrets, in case a visible folder contains them."""
    database = settings.DATABASES["default"]
    kept = [settings.STATECORE_HOME, settings.STATECORE_BACKUP_DIR, settings.STATECORE_ARCHIVE_DIR]
    if database["ENGINE"].endswith("sqlite3"):
        kept.append(Path(database["NAME"]).parent)
    return [path for path in map(Path, kept) if path.is_dir() and set(path.parents) & set(visible())]


def _wrap(arguments: Sequence[str], checkout: Checkout) -> list[str]:
    return [
        shutil.which(PROGRAM) or PROGRAM, *_namespaces(), *_mounts(checkout),
        "--chdir", str(checkout.folder), "--", *_drop_privileges(), *arguments,
    ]  # fmt: skip


def _namespaces() -> Iterator[str]:
    yield from ("--die-with-parent", "--new-session", "--hostname", "sandbox")
    yield from ("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
    if not settings.STATECORE_SANDBOX_NETWORK:
        yield "--unshare-net"
    if os.geteuid() != 0:
        yield "--unshare-user"
        if _supports("--disable-userns"):
            yield "--disable-userns"


@cache
def _supports(option: str) -> bool:
    shown = subprocess.run([shutil.which(PROGRAM) or PROGRAM, "--help"], check=False, capture_output=True, text=True)
    return option in shown.stdout + shown.stderr


def _mounts(checkout: Checkout) -> Iterator[str]:
    """Later mounts cover earlier ones; the checkout comes last, because its path may be below any of the others."""
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from _mount("--bind", checkout.shared_memory, "/dev/shm")  # noqa: S108
    for place in ("/tmp", "/var/tmp"):  # noqa: S108 - of the sandbox
        yield from _mount("--bind", checkout.temporary, place)
    for path in visible():
        if path.is_symlink() and str(path) in SYSTEM:
            yield from ("--symlink", str(path.readlink()), str(path))
        else:
            yield from _mount("--ro-bind-try", path)
    for name in SYSTEM_FILES:
        yield from _mount("--ro-bind-try", Path(name))
    hidden = _hidden()
    for path in hidden:
        yield from ("--tmpfs", str(path))
    for path in checkout.borrowed:
        yield from _mount("--ro-bind", path)
    yield from _mount("--bind", checkout.root)
    # Otherwise a command could fill the memory through these file systems.
    for place in ("/dev", "/", *map(str, hidden)):
        yield from ("--remount-ro", place)


def _mount(option: str, source: Path, target: str = "") -> Iterator[str]:
    """Create the folders above the target for every user; bubblewrap would create them for root only."""
    for parent in reversed(Path(target or source).parents):
        yield from ("--perms", "0755", "--dir", str(parent))
    yield from (option, str(source), target or str(source))


# The user


def _drop_privileges() -> list[str]:
    """For executors that run as root; those of another user have a user namespace instead."""
    if os.geteuid() != 0:
        return []
    account = pwd.getpwnam(settings.STATECORE_COMMAND_USER)
    user = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups")
    return ["setpriv", *user, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"]


def _give_to_command_user(folder: Path) -> None:
    if os.geteuid() == 0:
        account = pwd.getpwnam(settings.STATECORE_COMMAND_USER)
        owner = f"{account.pw_uid}:{account.pw_gid}"
        subprocess.run(["chown", "-hR", owner, str(folder)], check=True, capture_output=True)  # noqa: S607


# Limits


def _limits() -> list[str]:
    """The limits of each process. RLIMIT_NPROC counts all processes of the user, so those that exist are added."""
    program = shutil.which("prlimit")
    if program is None:
        return []
    memory, disk = (size * MEBIBYTE for size in (settings.STATECORE_COMMAND_MEMORY, settings.STATECORE_COMMAND_DISK))
    processes = _count_processes() + settings.STATECORE_COMMAND_PROCESSES
    return [program, f"--data={memory}", f"--fsize={disk}", f"--nproc={processes}", "--core=0", "--"]


def _count_processes() -> int:
    """Return the number of processes and threads of the user under which commands run."""
    root = os.geteuid() == 0 and is_active()
    user = pwd.getpwnam(settings.STATECORE_COMMAND_USER).pw_uid if root else os.geteuid()
    return sum(_count_threads(process, user) for process in Path("/proc").glob("[0-9]*"))


def _count_threads(process: Path, user: int) -> int:
    try:
        return sum(1 for _ in (process / "task").iterdir()) if process.stat().st_uid == user else 0
    except OSError:  # it has ended
        return 0


def _disk_watch(folder: Path) -> Callable[[], str]:
    """Return a function that reports excessive use of the disk since now, whether by few large or many small files."""
    before = os.statvfs(folder)
    blocks = min(settings.STATECORE_COMMAND_DISK * MEBIBYTE // before.f_frsize, before.f_bavail * 9 // 10)
    inodes = min(MOST_FILES, before.f_favail * 9 // 10)

    def find_excess() -> str:
        current = os.statvfs(folder)
        if before.f_bavail - current.f_bavail > blocks:
            return f"used more than {blocks * before.f_frsize // MEBIBYTE} MiB of disk space"
        return f"created more than {inodes} files" if before.f_favail - current.f_favail > inodes else ""

    return find_excess
