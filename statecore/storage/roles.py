"""The roles of PostgreSQL: what each may do with each table.

The owner has the tables and triggers; it migrates, archives and restores. The processes of an installation connect as
`web` (pages, REST, workers, sequencer) or `executor` (gates and patches), and people who only look as `reader`. None of
these three can change a table, a trigger or a function, delete events, or add what only the owner may add.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from ..kernel import registry
from .guarded_tables import quote

OWNER, WEB, EXECUTOR, READER = "owner", "web", "executor", "reader"
PROCESSES = (WEB, EXECUTOR, READER)
LOCK_SECONDS = 10
READ, ADD, CHANGE, ALL = "SELECT", "SELECT, INSERT", "SELECT, INSERT, UPDATE", "SELECT, INSERT, UPDATE, DELETE"

# Tables of Django that only migrations fill.
FIXED = {"contenttypes.contenttype", "auth.permission"}
# Only archiving adds rows to these.
ARCHIVE = {"statecore.archivedrange", "statecore.anchor"}
# Approvals, holds, incidents, phases, templates and schedules, which people write; logs, which agents write; and the
# order of the journal and roll-ups, which the sequencer writes.
NOT_FOR_EXECUTORS = {
    "statecore.approval", "statecore.approvaldecision", "statecore.capabilityrollup", "statecore.dwellrollup",
    "statecore.hold", "statecore.incident", "statecore.incidententity", "statecore.incidententry",
    "statecore.leaderlease", "statecore.loadrollup",
    "statecore.logchunk", "statecore.numbering", "statecore.phase", "statecore.plantemplate",
    "statecore.position", "statecore.restoredrill", "statecore.schedule", "statecore.scheduleoccurrence",
    "statecore.signedcheckpoint", "statecore.sinkcursor", "statecore.tasklog", "statecore.transitionrollup",
    "statecore.treehashes",
}  # fmt: skip
# Accounts, tokens and other ways to log in, and what webhooks send where.
CLOSED_TO_EXECUTORS = {
    "statecore.externalidentity", "statecore.onetimepassword", "statecore.passkey", "statecore.serviceaccount",
    "statecore.token", "statecore.webhook",
    "statecore.webhookbacklog", "statecore.webhookdelivery",
}  # fmt: skip
# Executors declare their work to the other processes; only the owner takes it back.
FOR_EXECUTORS = {"statecore.executorwork"}
# Hashes, secrets and URLs; and stored responses, which may repeat what a caller alone may read.
SECRET = {
    "statecore.externalidentity", "statecore.idempotencyrecord", "statecore.passkey", "statecore.token",
    "statecore.webhook", "statecore.webhookdelivery",
}  # fmt: skip
# Accounts, tokens and webhooks without what is secret in them.
VISIBLE_COLUMNS = {
    "auth.user": ("id", "username", "is_active", "is_staff", "is_superuser", "last_login", "date_joined"),
    "statecore.token": ("id", "name", "user_id", "scope", "prefix", "created_at", "expires_at", "revoked_at"),
    "statecore.webhook": (
        "id", "owner_id", "filter", "description", "run_id", "position", "epoch", "failures", "failing_since",
        "next_try_at", "last_success_at", "last_failure_at", "finished_at", "disabled_at", "disabled_reason",
    ),
}  # fmt: skip


def list_rights(role: str) -> dict[str, str]:
    """Returns the privileges of a role by table; a table that is missing is closed to it."""
    rights = {model._meta.db_table: _choose_rights(role, model) for model in apps.get_models(include_auto_created=True)}
    rights["django_migrations"] = READ
    return {table: given for table, given in sorted(rights.items()) if given}


def _choose_rights(role: str, model: type[Model]) -> str:
    label = model._meta.label_lower
    for_web = _choose_rights_of_web(model)
    if role == WEB:
        return for_web
    ours = {"statecore", *(flow.model._meta.app_label for flow in registry.flows())}
    if role == READER and label in VISIBLE_COLUMNS:
        return f"SELECT ({', '.join(VISIBLE_COLUMNS[label])})"
    if model._meta.app_label not in ours or label in (SECRET if role == READER else CLOSED_TO_EXECUTORS):
        return ""
    if role == EXECUTOR and label in FOR_EXECUTORS:
        return ADD
    return READ if role == READER or label in NOT_FOR_EXECUTORS else for_web


def _choose_rights_of_web(model: type[Model]) -> str:
    label = model._meta.label_lower
    if label in FIXED | ARCHIVE | FOR_EXECUTORS:
        return READ
    if getattr(model, "append_only", False) or getattr(model, "write_once", False):
        return ADD
    machines = [flow.model for flow in registry.flows()]
    links = [link.remote_field.through for machine in machines for link in machine._meta.many_to_many]
    return CHANGE if model in (*machines, *links) else ALL


def grant_rights(connection: BaseDatabaseWrapper) -> None:
    """Grants each role its rights. Runs after each migrate, because every migration may add tables."""
    if connection.vendor != "postgresql":
        return
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        existing = set(connection.introspection.table_names(cursor))
        cursor.execute("SELECT quote_ident(current_schema())")
        schema = cursor.fetchone()[0]
        for name, role in find_roles(connection):
            quoted = connection.ops.quote_name(name)
            cursor.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {quoted}")
            for table, rights in list_rights(role).items():
                if table in existing:
                    cursor.execute(f"GRANT {rights} ON {connection.ops.quote_name(table)} TO {quoted}")


def find_roles(connection: BaseDatabaseWrapper) -> list[tuple[str, str]]:
    """Returns the name and the kind of each role that `manage.py roles --sql` has let into this schema."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.rolname, substring(r.rolname FROM '[a-z]+$') FROM pg_namespace AS n "
            "CROSS JOIN aclexplode(n.nspacl) AS a JOIN pg_roles AS r ON r.oid = a.grantee "
            "WHERE n.nspname = current_schema() AND a.privilege_type = 'USAGE' AND r.oid <> n.nspowner "
            "AND substring(r.rolname FROM '_([a-z]+)$') = ANY(%s) ORDER BY 1",
            [list(PROCESSES)],
        )
        return [(str(name), str(role)) for name, role in cursor.fetchall()]


def write_sql(prefix: str, schema: str, database: str) -> Iterator[str]:
    """Yields statements for a superuser, connected to the database. They can be repeated."""
    roles = {role: _quote(f"{prefix}_{role}") for role in (OWNER, *PROCESSES)}
    owner, processes = roles[OWNER], ", ".join(roles[role] for role in PROCESSES)
    for role, name in roles.items():
        literal = quote(f"{prefix}_{role}")
        yield (
            f"DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = {literal}) "
            f"THEN CREATE ROLE {name} LOGIN; END IF; END $$"
        )
        # A restore drill of the owner creates a temporary database.
        databases = "CREATEDB" if role == OWNER else "NOCREATEDB"
        yield f"ALTER ROLE {name} NOSUPERUSER {databases} NOCREATEROLE NOREPLICATION NOBYPASSRLS"
    for role in (WEB, EXECUTOR):
        # Without a limit, a table that another session has locked would hang every thread that needs it.
        yield f"ALTER ROLE {roles[role]} SET lock_timeout = '{LOCK_SECONDS}s'"
    yield f"ALTER DATABASE {_quote(database)} OWNER TO {owner}"
    yield f"REVOKE ALL ON DATABASE {_quote(database)} FROM PUBLIC, {processes}"
    yield f"GRANT CONNECT ON DATABASE {_quote(database)} TO {processes}"
    yield f"CREATE SCHEMA IF NOT EXISTS {_quote(schema)}"
    yield f"ALTER SCHEMA {_quote(schema)} OWNER TO {owner}"
    yield f"REVOKE ALL ON SCHEMA {_quote(schema)} FROM PUBLIC, {processes}"
    yield f"GRANT USAGE ON SCHEMA {_quote(schema)} TO {processes}"
    yield _change_owner(owner, schema)


def _change_owner(owner: str, schema: str) -> str:
    """Tables take their sequences and indexes along; functions of extensions stay."""
    namespace = f"{quote(_quote(schema))}::regnamespace"
    return f"""DO $$ DECLARE command text; BEGIN
    FOR command IN
        SELECT format('ALTER TABLE %s OWNER TO {owner}', c.oid::regclass) FROM pg_class AS c
        WHERE c.relnamespace = {namespace} AND c.relkind IN ('r', 'p', 'v', 'm')
        UNION ALL SELECT format('ALTER FUNCTION %s OWNER TO {owner}', f.oid::regprocedure) FROM pg_proc AS f
        WHERE f.pronamespace = {namespace}
        AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.objid = f.oid AND d.deptype = 'e')
    LOOP EXECUTE command; END LOOP; END $$"""


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def can_remove_guards(connection: BaseDatabaseWrapper) -> bool:
    """True if the role of this connection could remove the triggers: it is a superuser or has the tables."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT bool_or(pg_has_role(current_user, c.relowner, 'MEMBER') OR has_table_privilege(c.oid, 'TRIGGER')) "
            "FROM pg_class AS c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')"
        )
        return bool(cursor.fetchone()[0])
