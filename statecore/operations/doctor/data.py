"""Checks of what the database contains: accounts, the journal and its copies, stuck entities and alerts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Max, Q

from ...delivery.sequencer import SEQUENCER, measure_lag
from ...delivery.webhooks import turn
from ...journal import ArchivedRange, Position
from ...journal.archive import get_last_archived_position
from ...journal.checkpoints import latest_checkpoint
from ...journal.home_files import get_journal_path
from ...journal.position import head
from ...journal.signing import SigningFailed, find_signer
from ...journal.tree import tree_size
from ...journal.witnesses import list_witnesses
from ...kernel.clock import format_utc, now
from ...read_models.stuck import list_stuck
from ...read_models.webhooks import read_oldest_waiting
from ...records import Alert, SinkCursor, Token, Webhook, service_account
from ...records.hold import select_active
from ...records.leader_lease import find_leader
from .. import integrity
from ..backup.manifest import Manifest, list_exports
from .results import CheckResult, error, join_some, ok, pluralize, warning

RECENT_LEAVES = 1_000
ENDS_SOON = timedelta(days=7)
CHECKPOINT_DELAY = timedelta(minutes=10)
OLD_EXPORT = timedelta(hours=48)
STUCK_LIMIT = 100
MAX_WEBHOOKS, UNSENT = 100, timedelta(minutes=1)


def check_operators() -> Iterator[CheckResult]:
    users = get_user_model()._default_manager.filter(is_active=True)
    count = users.exclude(password__startswith=UNUSABLE_PASSWORD_PREFIX).exclude(password="").count()
    if count:
        yield ok(f"{count} can log in, {users.filter(is_superuser=True).count()} are superusers")
    else:
        yield error("no user can log in", "manage.py createsuperuser")


def check_tokens() -> Iterator[CheckResult]:
    valid = Token.objects.filter(Q(expires_at=None) | Q(expires_at__gt=now()), revoked_at=None, user__is_active=True)
    permanent = list(valid.filter(expires_at=None).order_by("name").values_list("name", flat=True))
    if permanent:
        yield warning(
            f"{len(permanent)} never expire: {join_some(permanent)}",
            "manage.py token revoke NAME, and create with --expires DAYS",
        )
    if orphaned := [account.name for account in service_account.without_active_owner()]:
        yield warning(
            f"{len(orphaned)} service accounts have no active owner: {join_some(orphaned)}",
            "manage.py service_account change NAME --owner USER",
        )
    last = valid.exclude(user__service_account=None).values_list("user__username").annotate(end=Max("expires_at"))
    if ending := sorted(name for name, end in last.filter(end__lt=now() + ENDS_SOON)):
        yield warning(
            f"the last tokens of {len(ending)} expire within {ENDS_SOON.days} days: {join_some(ending)}",
            "manage.py token rotate NAME",
        )
    yield ok(f"{valid.count()} are valid")


def check_sequencer() -> Iterator[CheckResult]:
    if find_leader(SEQUENCER) is None:
        yield error(
            "no sequencer runs: displays, counters and alerts are not updated", "start one (statecore-sequencer@)"
        )
    slowest, seconds = max(measure_lag().items(), key=lambda each: each[1])
    if seconds > settings.STATECORE_SEQUENCER_LAG_SECONDS:
        yield error(f"{slowest} is behind by {seconds:.0f} s", "see the log of the leading sequencer")
    else:
        yield ok(f"position {head()}, at most {seconds:.1f} s behind")


def check_journal_file() -> Iterator[CheckResult]:
    """Compares the end of the file; `manage.py integrity` compares the whole file."""
    path = get_journal_path()
    cursor = SinkCursor.objects.filter(sink="journal_file").values_list("position", flat=True).first() or 0
    findings = list(integrity.check_journal_file(tail_only=True))
    for finding in findings:
        yield error(finding.detail, "manage.py integrity; the sequencer repairs a damaged file, but not the database")
    if not path.exists():
        yield ok(f"{path.name} is not in this home" if cursor else "nothing has been written yet")
    elif not findings:
        yield ok(f"{path.name} is the same as the database up to position {cursor}")


def check_tree() -> Iterator[CheckResult]:
    action = "find the first bad row with manage.py integrity; restore from the last good export"
    recent = max(0, tree_size() - RECENT_LEAVES)
    if findings := [*integrity.verify_tree(recent), *integrity.check_checkpoints(latest=1)]:
        yield error(findings[0].detail, action)
        return
    try:
        find_signer()
    except SigningFailed as failed:
        yield error(str(failed), "restore the key of the journal")
        return
    signed = latest_checkpoint()
    size = signed.size if signed else 0
    first_unsigned = Position.objects.filter(position=size + 1).values_list("event__timestamp", flat=True).first()
    if first_unsigned is not None and now() - first_unsigned > CHECKPOINT_DELAY:
        yield warning(f"nothing was signed since {first_unsigned:%Y-%m-%d %H:%M} UTC", "see the log of the sequencer")
    else:
        yield ok(f"signed up to position {size}" if signed else "nothing to sign yet")


def check_witnesses() -> Iterator[CheckResult]:
    statuses = list_witnesses()
    for each in statuses:
        if each.cosigned_at is None:
            message = f"{each.name} has cosigned nothing yet"
        else:
            message = f"{each.name} cosigned position {each.size} at {each.cosigned_at:%Y-%m-%d %H:%M:%S} UTC"
        yield error(message, "see the log of the witness, and its token") if each.is_silent else ok(message)
    if not statuses:
        yield ok("no witness is configured")


def check_archive_files() -> Iterator[CheckResult]:
    """Checks only that the files exist. Verifying their contents takes long: `manage.py integrity --archives`."""
    folder: Path = settings.STATECORE_ARCHIVE_DIR
    names = list(ArchivedRange.objects.order_by("last_position").values_list("file", flat=True))
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        yield error(
            f"{len(missing)} of {len(names)} archive files are not in {folder}, the first: {missing[0]}",
            "put them back: they may be the only copy; then run manage.py integrity --archives",
        )
    else:
        yield ok(
            f"{pluralize(len(names), 'archive file')}, up to position {get_last_archived_position()}"
            if names
            else "no events are archived"
        )


def check_backups() -> Iterator[CheckResult]:
    folder: Path = settings.STATECORE_BACKUP_DIR
    action = "manage.py export; beat and a worker export daily"
    found = list_exports(folder)
    if not found:
        yield warning(f"there is no export in {folder}", action) if head() else ok("nothing to export yet")
        return
    try:
        manifest = Manifest.read(found[-1])
        made_at = datetime.fromisoformat(manifest.made_at)
    except (OSError, TypeError, ValueError):
        yield error(f"the manifest of {found[-1].name} is unreadable", "manage.py export --all, and check that disk")
        return
    accounts = "" if manifest.encryption else ", without accounts (STATECORE_BACKUP_PASSPHRASE)"
    newest = f"the newest of {made_at:%Y-%m-%d %H:%M} UTC, up to position {manifest.last_position}{accounts}"
    message = f"{pluralize(len(found), 'export')}, {newest}"
    yield warning(message, action) if now() - made_at > OLD_EXPORT else ok(message)


def check_recent_integrity() -> Iterator[CheckResult]:
    findings = integrity.check_recent()
    errors = [finding for finding in findings if finding.severity == integrity.ERROR]
    if errors:
        yield error(
            f"{pluralize(len(errors), 'error')}, the first: {errors[0]}",
            "stop all processes that write; manage.py integrity; restore from the last good export",
        )
    elif findings:
        message = f"{pluralize(len(findings), 'violated rule')}, the first: {findings[0]}"
        yield warning(message, "see the history of the entity: an override may be the reason")
    else:
        yield ok("recent rows and chains verify")


def check_stuck_entities() -> Iterator[CheckResult]:
    found = list_stuck(STUCK_LIMIT)
    if found:
        count = f"{STUCK_LIMIT} or more" if len(found) == STUCK_LIMIT else str(len(found))
        yield warning(f"{count}, the longest: {found[0].why}", "see Stuck in the console, or `statecore stuck`")
    else:
        yield ok("no entity is past its deadline")


def check_alerts() -> Iterator[CheckResult]:
    unacknowledged = Alert.objects.filter(resolved_at=None, acknowledged_at=None).order_by("opened_at")
    if oldest := unacknowledged.first():
        yield warning(f"{unacknowledged.count()} not acknowledged, the oldest: {oldest}", "see Alerts in the console")
    else:
        yield ok(f"{Alert.objects.filter(resolved_at=None).count()} open, all acknowledged")


def check_holds() -> Iterator[CheckResult]:
    active = list(select_active(now()))
    if unlimited := [hold for hold in active if hold.expires_at is None]:
        message = f"{len(unlimited)} without an end, the oldest: {unlimited[0].describe()}"
        yield warning(message, "statecore release ID, if work should continue")
    yield ok(f"{len(active)} active" if active else "no work is held")


def check_webhooks() -> Iterator[CheckResult]:
    """A running process takes what is due within a second, also if the receiver then fails."""
    due = turn.find_due([], MAX_WEBHOOKS)
    waiting = read_oldest_waiting(list(Webhook.objects.filter(pk__in=due, run_id="", test="")))
    since = min(waiting.values(), default=None)
    if since is not None and now() - since > UNSENT:
        message = f"events have waited for their webhooks since {format_utc(since)}"
        yield error(message, "start the process webhooks (statecore-webhooks@)")
    else:
        yield ok(f"{Webhook.objects.filter(run_id='', disabled_at=None).count()} enabled")
