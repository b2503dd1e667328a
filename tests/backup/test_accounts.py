"""An encrypted export restores the accounts too. Without its passphrase, or changed, it restores nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.test import Client
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from statecore.dashboard.models import Display, Preference, SavedView
from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.journal_file import JournalFile
from statecore.delivery.sinks.tree import Tree
from statecore.journal import Event, epochs
from statecore.journal.position import head
from statecore.kernel.clock import now
from statecore.operations import backup, integrity
from statecore.operations.backup.manifest import EVENTS_FILE, MANIFEST_FILE, Manifest
from statecore.operations.backup.tables import JOURNAL, LEFT_OUT, list_tables
from statecore.records import ProcessReport, Webhook
from statecore.storage import trigger_check
from statecore.storage.files import sha256
from statecore_client.transparency.evidence import GZIP_MAGIC
from tests.api.callers import Caller, expect_ok
from tests.backup.tables import flush_database, read_all_rows
from tests.support import world
from tests.support.sequencer import catch_up, sign
from tests.support.webhooks import subscribe

pytestmark = pytest.mark.django_db(transaction=True)

PASSPHRASE = "correct horse battery staple"
SECRET_URL = "https://ci.example.com/a-secret-path"
# Every export has these. Nothing in them may be a secret.
IN_EVERY_EXPORT = """
    Acknowledgement AgentJob AgentJobEvent Alert Anchor Approval ApprovalDecision ArchivedRange Artifact ArtifactContent
    AuditNote CapabilityRollUp Checkpoint CircuitBreaker CompensationStep DwellCount DwellRollUp ExecutorWork ForcedStep
    Hold Incident IncidentEntry IngestionJob LoadRollUp OverrideCount Patch PatchLedger Phase PipelineJob PlanTemplate
    Recall RestoreDrill Run RunQueue Schedule ScheduleOccurrence SignedCheckpoint SinkCursor StateCount SupervisedJob
    SupervisedWorker Task TaskAttempt Task_depends_on Task_entry_gates Task_gates TestGate TestGate_depends_on
    TransitionCount TransitionRate TransitionRollUp TreeHashes UetWorker Worker Workstream Workstream_depends_on
"""
ONLY_ENCRYPTED = """
    admin.LogEntry auth.Group auth.Group_permissions auth.Permission auth.User auth.User_groups
    auth.User_user_permissions contenttypes.ContentType dashboard.Display dashboard.Preference dashboard.SavedView
    otp_static.StaticDevice otp_static.StaticToken otp_totp.TOTPDevice statecore.DefaultGrant
    statecore.ExternalIdentity statecore.OneTimePassword statecore.Passkey statecore.ServiceAccount statecore.Token
    statecore.Webhook statecore.WebhookBacklog
"""


def labels(models: Any) -> set[str]:
    return {model._meta.label for model in models}


def test_for_every_model_it_is_decided_which_exports_have_it() -> None:
    """Add a new model to one of the lists above, or to LEFT_OUT."""
    every, plain = labels(list_tables(accounts=True)), labels(list_tables(accounts=False))

    assert plain == {f"statecore.{name}" for name in IN_EVERY_EXPORT.split()}
    assert every - plain == set(ONLY_ENCRYPTED.split())
    assert labels(apps.get_models(include_auto_created=True)) == every | LEFT_OUT | labels(JOURNAL)


@pytest.fixture
def caller(settings: Any, home: Path) -> Caller:
    """An account with everything that one can have, and its token."""
    settings.STATECORE_BACKUP_PASSPHRASE = PASSPHRASE
    operators = Group.objects.get(name="operator")
    operators.permissions.remove(operators.permissions.order_by("pk")[0])
    ada = User.objects.create_user("ada", password="not a secret", is_superuser=True)
    ada.groups.add(operators)
    TOTPDevice.objects.create(user=ada, name="telephone", confirmed=True)
    StaticDevice.objects.create(user=ada, name="paper").token_set.create(token="abcd2345")
    Preference.objects.create(user=ada, theme="dark")
    SavedView.objects.create(owner=ada, name="mine", entity_type="task", query="state:blocked")
    Display.objects.create(code="A1", secret_hash="0" * 64, user=User.objects.create_user("wall"), requested_at=now())
    LogEntry.objects.log_actions(ada.pk, [ada], 2, "changed")
    subscribe(SECRET_URL)
    return Caller("operate", user=ada, name="builder")


def make_history(home: Path) -> Path:
    world.task()
    catch_up(Counters(), Tree())
    sign()
    return backup.export(home / "backup")


def test_an_encrypted_export_restores_the_accounts_and_continues(caller: Caller, home: Path) -> None:
    browser = Client()
    browser.force_login(caller.user)
    folder = make_history(home)
    world.run()
    assert Manifest.read(backup.export(home / "backup")).previous == folder.name
    before = read_all_rows(accounts=True)
    assert not [path for path in folder.iterdir() if path.read_bytes().startswith(GZIP_MAGIC)], "all are encrypted"
    flush_database()

    backup.restore(home / "backup")

    assert read_all_rows(accounts=True) == before
    expect_ok(caller.get("runs/"))
    ada = User.objects.get(username="ada")
    assert ada.check_password("not a secret")
    assert ada.has_perm("statecore.view_run")
    assert Webhook.objects.get().pk
    assert browser.get("/").status_code == 302, "browsers log in again"
    assert integrity.check_all() == []
    call_command("migrate", verbosity=0)
    assert read_all_rows(accounts=True)["Group_permissions"] == before["Group_permissions"]
    User.objects.create_user("grace")  # the sequences continue after the restored ids
    caller.post("runs/", {"phase": world.phase().pk})


def test_a_plain_export_has_no_accounts_and_starts_anew(caller: Caller, home: Path) -> None:
    make_history(home)
    plain = backup.export(home / "backup", plain=True)

    manifest = Manifest.read(plain)
    assert (manifest.previous, manifest.format, manifest.encryption) == (None, 1, None)
    assert not [
        name for name in manifest.files if not name.startswith(("statecore_", "events", "waiting", "checkpoint"))
    ]
    assert not {"statecore_token.jsonl.gz", "statecore_webhook.jsonl.gz"} & manifest.files.keys()


def cut_off(folder: Path) -> None:
    path = folder / "auth_user.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-1])


def flip_bit(folder: Path) -> None:
    path = folder / "auth_user.jsonl.gz"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


def rewrite_manifest(folder: Path, **members: Any) -> None:
    manifest = json.loads((folder / MANIFEST_FILE).read_text())
    (folder / MANIFEST_FILE).write_text(json.dumps(manifest | members))


def flip_bit_and_hash(folder: Path) -> None:
    flip_bit(folder)
    files = json.loads((folder / MANIFEST_FILE).read_text())["files"]
    files["auth_user.jsonl.gz"]["sha256"] = sha256(folder / "auth_user.jsonl.gz")
    rewrite_manifest(folder, files=files)


TAMPERING: list[tuple[Callable[[Path], Any], str, str]] = [
    (lambda folder: None, "", "the export is encrypted: set STATECORE_BACKUP_PASSPHRASE"),
    (lambda folder: None, "a wrong passphrase", "was encrypted with another passphrase"),
    (cut_off, PASSPHRASE, "auth_user.jsonl.gz does not match its hash"),
    (flip_bit, PASSPHRASE, "auth_user.jsonl.gz does not match its hash"),
    (flip_bit_and_hash, PASSPHRASE, "the export has a manifest that was changed"),
    (lambda folder: rewrite_manifest(folder, encryption=None, format=1), PASSPHRASE, "malformed"),
    (lambda folder: rewrite_manifest(folder, encryption={}), PASSPHRASE, "malformed"),
]


def test_a_wrong_passphrase_or_a_changed_file_restores_nothing(caller: Caller, home: Path, settings: Any) -> None:
    folder = make_history(home)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    flush_database()
    for tamper, passphrase, message in TAMPERING:
        tamper(folder)
        settings.STATECORE_BACKUP_PASSPHRASE = passphrase
        with pytest.raises(CommandError, match=f"nothing was restored: .*{message}"):
            call_command("restore", str(folder))
        for name, content in kept.items():
            (folder / name).write_bytes(content)
        assert not Event.objects.exists()
        assert not User.objects.exists()
        assert {path.name for path in home.iterdir()} >= {"checkpoint"}


def test_a_new_passphrase_begins_a_new_chain_and_copies_are_compared(caller: Caller, home: Path, settings: Any) -> None:
    folder = make_history(home)
    assert backup.compare(folder) == []
    settings.STATECORE_BACKUP_PASSPHRASE = "another passphrase"
    with pytest.raises(backup.UnusableCopy, match="another passphrase"):
        backup.compare(folder)

    assert Manifest.read(backup.export(home / "backup")).previous is None
    assert (folder / EVENTS_FILE).exists()


def test_a_running_installation_and_a_filled_database_are_refused(caller: Caller, home: Path) -> None:
    folder = make_history(home)
    report = {"role": "beat", "name": "beat", "host": "east", "pid": 7, "version": "1", "started_at": now()}
    with pytest.raises(backup.RestoreFailed, match="the database is not empty: statecore_event has rows"):
        backup.restore(folder)
    flush_database()
    ProcessReport.objects.create(**report, reported_at=now())
    with pytest.raises(backup.RestoreFailed, match=r"is running: stop beat on east \(process 7\)"):
        backup.restore(folder)
    ProcessReport.objects.all().delete()
    Group.objects.create(name="ours")
    backup.restore(folder)
    assert not Group.objects.filter(name="ours").exists(), "what migrate fills is replaced as a whole"


def restore_and_die(folder: Path, before: str) -> int:
    """Restores in another process, which is killed before it sends a certain statement. Returns its exit code."""

    def kill(execute: Any, statement: str, *rest: Any) -> Any:
        if before in statement:
            os.kill(os.getpid(), signal.SIGKILL)
        return execute(statement, *rest)

    connections.close_all()
    pid = os.fork()
    if pid == 0:
        try:
            with connection.execute_wrapper(kill):
                backup.restore(folder)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_killed_restore_is_repeated_and_still_names_what_was_lost(caller: Caller, home: Path) -> None:
    folder = make_history(home)
    kept = head()
    world.run()
    catch_up(JournalFile(), Tree())
    sign()
    flush_database()
    for moment in ('INSERT INTO "statecore_task"', 'INSERT INTO "statecore_alert"'):
        assert restore_and_die(folder, moment) == -signal.SIGKILL
        assert not Event.objects.exists()
        assert not User.objects.exists()
        assert trigger_check.find_problems(connection) == []

    backup.restore(folder)

    (epoch,) = epochs.list_epochs()
    assert epoch.losses is not None
    assert (epoch.losses.first, epoch.losses.last) == (kept + 1, kept + 1)
    assert integrity.check_all() == []
