"""The settings that the code and the processes of Statecore read, from the environment.

`settings` has them for an installation. In a project with other settings, the application sets those that the
project lacks (`statecore.apps`).
"""

import os
from datetime import timedelta

from statecore.project import environment, redis_url

ENVIRONMENT = environment.read(os.environ)

STATECORE_HOME = ENVIRONMENT.home
REDIS_URL = ENVIRONMENT.redis_url
STATECORE_PROCESS_MEMORY_MB = ENVIRONMENT.process_memory_mb
REDIS_KEEPALIVES = redis_url.get_keepalives(REDIS_URL)

# The API and the console
# Read-only refuses changes by browser sessions; with "all", also those by tokens.
STATECORE_READ_ONLY = ENVIRONMENT.read_only != "0"
STATECORE_READ_ONLY_FOR_PROGRAMS = ENVIRONMENT.read_only == "all"
STATECORE_SECOND_FACTOR = ENVIRONMENT.second_factor
STATECORE_STREAMS_PER_ACCOUNT = ENVIRONMENT.streams_per_account
STATECORE_TRUSTED_PROXIES = ENVIRONMENT.trusted_proxies
STATECORE_CALLS_PER_MINUTE = ENVIRONMENT.calls_per_minute

# Single sign-on
STATECORE_OIDC_ISSUER = ENVIRONMENT.oidc_issuer
STATECORE_OIDC_CLIENT_ID = ENVIRONMENT.oidc_client_id
STATECORE_OIDC_CLIENT_SECRET = ENVIRONMENT.oidc_client_secret
STATECORE_OIDC_NAME = ENVIRONMENT.oidc_name
STATECORE_OIDC_SCOPES = ENVIRONMENT.oidc_scopes
STATECORE_OIDC_NAME_CLAIM = ENVIRONMENT.oidc_name_claim
STATECORE_OIDC_GROUPS_CLAIM = ENVIRONMENT.oidc_groups_claim
STATECORE_IDENTITY_HEADER = ENVIRONMENT.identity_header
STATECORE_IDENTITY_GROUPS_HEADER = ENVIRONMENT.identity_groups_header
STATECORE_SIGN_IN_GROUPS = ENVIRONMENT.sign_in_groups
STATECORE_SIGN_IN_REQUIRED_GROUP = ENVIRONMENT.sign_in_required_group
STATECORE_SIGN_IN_MINUTES = ENVIRONMENT.sign_in_minutes
STATECORE_SIGN_IN_ONLY = ENVIRONMENT.sign_in_only
STATECORE_BREAK_GLASS_ACCOUNTS = ENVIRONMENT.break_glass_accounts

# The machines
STATECORE_DEADLINES = ENVIRONMENT.deadlines
STATECORE_SECOND_PERSON = ENVIRONMENT.second_person
STATECORE_APPROVAL_HOURS = ENVIRONMENT.approval_hours
STATECORE_IDEMPOTENCY_SECONDS = ENVIRONMENT.idempotency_seconds
STATECORE_RETRY_BASE_SECONDS = ENVIRONMENT.retry_base_seconds
STATECORE_RETRY_CAP_SECONDS = ENVIRONMENT.retry_cap_seconds
STATECORE_RECOVERY = ENVIRONMENT.recovery
STATECORE_PROBE_SECONDS = ENVIRONMENT.probe_seconds
STATECORE_TOOL_LEASE_SECONDS = ENVIRONMENT.tool_lease_seconds
STATECORE_METRICS_TOKEN = ENVIRONMENT.metrics_token

# Agents
STATECORE_AGENT_TIMEOUT_SECONDS = ENVIRONMENT.agent_timeout_seconds
STATECORE_AGENT_RETRIES = ENVIRONMENT.agent_retries
STATECORE_AGENT_PAYLOAD_BYTES = ENVIRONMENT.agent_payload_bytes
STATECORE_AGENT_PLAN_ENTITIES = ENVIRONMENT.agent_plan_entities

# The executors
STATECORE_GATE_COMMANDS = ENVIRONMENT.gate_commands
STATECORE_GATE_FOLDER = ENVIRONMENT.gate_folder
STATECORE_REPOSITORY = ENVIRONMENT.repository
STATECORE_REPOSITORY_BRANCH = ENVIRONMENT.repository_branch
STATECORE_PROOF_REPOSITORY = ENVIRONMENT.proof_repository
STATECORE_PATCH_TEST_COMMAND = ENVIRONMENT.patch_test_command
STATECORE_REPOSITORIES = ENVIRONMENT.repositories
STATECORE_COMMANDS_AT_ONCE = ENVIRONMENT.commands_at_once
STATECORE_CHECKOUT_DIR = ENVIRONMENT.checkout_dir
STATECORE_SANDBOX = ENVIRONMENT.sandbox
STATECORE_SANDBOX_READ = ENVIRONMENT.sandbox_read
STATECORE_SANDBOX_NETWORK = ENVIRONMENT.sandbox_network
STATECORE_COMMAND_USER = ENVIRONMENT.command_user
STATECORE_COMMAND_MEMORY = ENVIRONMENT.command_memory
STATECORE_COMMAND_PROCESSES = ENVIRONMENT.command_processes
STATECORE_COMMAND_DISK = ENVIRONMENT.command_disk

# Logs
STATECORE_LOG_ROUTINE_REQUESTS = ENVIRONMENT.log_routine_requests

# Alerts
STATECORE_PUBLIC_URL = ENVIRONMENT.public_url
STATECORE_NOTIFY_URLS = ENVIRONMENT.notify_urls
STATECORE_ESCALATION_URLS = ENVIRONMENT.escalation_urls
STATECORE_ESCALATION_MINUTES = ENVIRONMENT.escalation_minutes
STATECORE_ALERTS = ENVIRONMENT.alerts

# Files outside the database
STATECORE_BACKUP_DIR = ENVIRONMENT.backup_dir
STATECORE_BACKUP_PASSPHRASE = ENVIRONMENT.backup_passphrase
STATECORE_DRILL_DATABASE = ENVIRONMENT.drill_database
STATECORE_ARCHIVE_DIR = ENVIRONMENT.archive_dir

# Webhooks
STATECORE_AGENT_WEBHOOK_HOSTS = ENVIRONMENT.agent_webhook_hosts
STATECORE_WEBHOOK_PRIVATE_ADDRESSES = ENVIRONMENT.webhook_private_addresses
STATECORE_WEBHOOK_HTTP = ENVIRONMENT.webhook_http
STATECORE_WEBHOOK_TIMEOUT_SECONDS = ENVIRONMENT.webhook_timeout_seconds
STATECORE_WEBHOOK_RETRY_HOURS = ENVIRONMENT.webhook_retry_hours
STATECORE_WEBHOOK_CONCURRENCY = ENVIRONMENT.webhook_concurrency
STATECORE_WEBHOOK_LOG_DAYS = ENVIRONMENT.webhook_log_days

# Attempts, progress, logs and artifacts of tasks
STATECORE_ATTEMPT_DAYS = ENVIRONMENT.attempt_days
STATECORE_PROGRESS_SECONDS = ENVIRONMENT.progress_seconds
STATECORE_TASK_LOG_DAYS = ENVIRONMENT.task_log_days
STATECORE_TASK_LOG_BYTES = ENVIRONMENT.task_log_bytes
STATECORE_TASK_LOG_BYTES_PER_SECOND = ENVIRONMENT.task_log_bytes_per_second
STATECORE_ARTIFACT_DAYS = ENVIRONMENT.artifact_days
STATECORE_ARTIFACT_BYTES = ENVIRONMENT.artifact_bytes
STATECORE_ARTIFACT_TASK_BYTES = ENVIRONMENT.artifact_task_bytes
STATECORE_ARTIFACTS_PER_TASK = ENVIRONMENT.artifacts_per_task
STATECORE_ARTIFACT_TOTAL_BYTES = ENVIRONMENT.artifact_total_bytes

# The journal, and how long records are kept
STATECORE_OCCURRENCE_DAYS = ENVIRONMENT.occurrence_days
STATECORE_RETENTION_DAYS = ENVIRONMENT.retention_days
STATECORE_JOURNAL_NAME = ENVIRONMENT.journal_name
STATECORE_JOURNAL_KEY = ENVIRONMENT.journal_key
STATECORE_JOURNAL_VERIFIER_KEY = ENVIRONMENT.journal_verifier_key
STATECORE_JOURNAL_SIGNER = ENVIRONMENT.journal_signer
STATECORE_WITNESSES = ENVIRONMENT.witnesses
STATECORE_WITNESS_SECONDS = ENVIRONMENT.witness_seconds
STATECORE_LEADER_SECONDS = ENVIRONMENT.leader_seconds
STATECORE_SEQUENCER_LAG_SECONDS = ENVIRONMENT.sequencer_lag_seconds

STATECORE_ARTIFACT_STORAGE = ENVIRONMENT.artifact_storage or {
    "BACKEND": "statecore.artifacts.disk.DiskStorage",
    "OPTIONS": {"location": str(STATECORE_HOME / "artifacts")},
}

# Live updates: messages may be lost; clients catch up from the journal by position.
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [{"address": REDIS_URL, "health_check_interval": 15, **REDIS_KEEPALIVES}]},
    },
}

# Celery
CELERY_BROKER_URL = redis_url.for_celery(REDIS_URL)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A task that runs longer is delivered a second time; the time limit ends every task before.
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3600, "health_check_interval": 15, **REDIS_KEEPALIVES}
CELERY_TASK_TIME_LIMIT = 600
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
SWEEPS = {
    "sweep_tasks": timedelta(seconds=1),
    "run_due_schedules": timedelta(seconds=5),
    "run_due_gates": timedelta(seconds=5),
    "run_due_patches": timedelta(seconds=5),
    "cool_down_breakers": timedelta(seconds=10),
    "end_holds": timedelta(seconds=10),
    "send_alert_notices": timedelta(seconds=10),
    "sweep_incidents": timedelta(seconds=10),
    "sweep_workers": timedelta(seconds=10),
    "time_out_gates": timedelta(seconds=10),
    "reevaluate_waiting": timedelta(seconds=30),
    "run_due_bulk_jobs": timedelta(seconds=30),
    "recover_stalled": timedelta(seconds=30),
    "close_approvals": timedelta(minutes=1),
    "sweep_invariants": timedelta(minutes=1),
    "sweep_integrity": timedelta(minutes=1),
    "check_recent_integrity": timedelta(minutes=5),
    "collect_artifacts": timedelta(minutes=10),
    "expire_webhook_deliveries": timedelta(minutes=10),
    "expire_idempotency_records": timedelta(hours=1),
    "run_due_drill": timedelta(minutes=10),
    "export_journal": timedelta(days=1),
    "reconcile_counters": timedelta(days=1),
}
# A sweep that no worker took in time expires; the next one does its work. Half a minute at least: workers are late by
# a second now and then, and compare the time with their own clock.
STATECORE_SWEEP_EXPIRY_SECONDS = 30.0
CELERY_BEAT_SCHEDULE = {
    name: {
        "task": f"statecore.tasks.{name}",
        "schedule": every,
        "options": {"expires": max(every.total_seconds(), STATECORE_SWEEP_EXPIRY_SECONDS)},
    }
    for name, every in SWEEPS.items()
}
CELERY_BEAT_SCHEDULE_FILENAME = str(STATECORE_HOME / "celerybeat-schedule")
