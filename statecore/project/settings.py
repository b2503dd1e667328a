"""Django's settings. Values that differ between installations come from `environment`."""

import os
from datetime import timedelta

from csp.constants import NONE, SELF

from statecore import __version__
from statecore.project import environment, home, logs, metrics_folder, preflight, process_limits, redis_url

# Until ProjectConfig.ready(), the end of django.setup().
process_limits.pause_collection()
# The database, keys and journal are for the user of Statecore only. Before any file is created.
os.umask(0o077)
preflight.check_distribution()
metrics_folder.tell_containers_apart()
ENVIRONMENT = environment.read(os.environ)

STATECORE_HOME = ENVIRONMENT.home
REDIS_URL = ENVIRONMENT.redis_url

SECRET_KEY = ENVIRONMENT.secret_key or home.read_secret_key(STATECORE_HOME)
DEBUG = ENVIRONMENT.debug
ALLOWED_HOSTS = ENVIRONMENT.allowed_hosts
ROOT_URLCONF = "statecore.project.urls"
ASGI_APPLICATION = "statecore.project.asgi.application"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "csp",
    "django_otp",
    "django_otp.plugins.otp_static",
    "django_otp.plugins.otp_totp",
    "django_structlog",
    "rest_framework",
    "drf_spectacular",
    "statecore.apps.StatecoreConfig",
    "statecore.api.apps.ApiConfig",
    "statecore.dashboard.apps.DashboardConfig",
    "statecore.project.apps.ProjectConfig",
    "statecore.devtools.apps.DevtoolsConfig",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "statecore.api.token_fastpath.TokenFastPath",
    "csp.middleware.CSPMiddleware",
    "statecore.project.static_files.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "statecore.project.admin_nul_filter.AdminNulFilter",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "statecore.accounts.caller.RememberRequest",
    # Every view requires a login unless it is decorated with login_not_required.
    "statecore.dashboard.middleware.LoginRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    # Must be last: it replaces the response of a login that is locked out.
    "axes.middleware.AxesMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [environment.PACKAGE / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": ENVIRONMENT.database}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "/static/"
# Files are served from their source directories, without a collectstatic step.
WHITENOISE_USE_FINDERS = True
WHITENOISE_ALLOW_ALL_ORIGINS = False

# Authentication
LOGIN_URL = "console:login"
LOGIN_REDIRECT_URL = "console:overview"
LOGOUT_REDIRECT_URL = "console:login"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
AXES_VERBOSE = False
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_TEMPLATE = "dashboard/locked_out.html"
AXES_RESET_ON_SUCCESS = True
# A lockout ends after its time; otherwise an attacker could prolong that of someone else for ever.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_HANDLER = "statecore.project.lockout.Handler"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "ip_address", "username"]
AXES_USERNAME_CALLABLE = "statecore.project.lockout.get_username"
AXES_CLIENT_IP_CALLABLE = "statecore.project.lockout.get_network"

# Browser security
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    },
}
SESSION_COOKIE_SECURE = ENVIRONMENT.https
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SECURE = ENVIRONMENT.https
SECURE_HSTS_SECONDS = 31_536_000 if ENVIRONMENT.https else 0
SECURE_SSL_REDIRECT = ENVIRONMENT.https
# Called by machines that bypass the proxy; the responses contain no secrets.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
# Both concern other hosts of the domain; a proxy may add these headers.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
STATECORE_TRUSTED_PROXIES = ENVIRONMENT.trusted_proxies

# Read-only refuses changes by browser sessions; with "all", also those by tokens.
STATECORE_READ_ONLY = ENVIRONMENT.read_only != "0"
STATECORE_READ_ONLY_FOR_PROGRAMS = ENVIRONMENT.read_only == "all"
STATECORE_SECOND_FACTOR = ENVIRONMENT.second_factor
STATECORE_STREAMS_PER_ACCOUNT = ENVIRONMENT.streams_per_account
# A session ends this long after its last page; `dashboard.middleware` extends it.
SESSION_COOKIE_AGE = 60 * ENVIRONMENT.session_idle_minutes
OTP_TOTP_ISSUER = "Statecore"

# The API
DATA_UPLOAD_MAX_MEMORY_SIZE = ENVIRONMENT.body_limit
STATECORE_CALLS_PER_MINUTE = ENVIRONMENT.calls_per_minute
REST_FRAMEWORK = {"DEFAULT_SCHEMA_CLASS": "statecore.api.openapi.inspector.Inspector"}
SPECTACULAR_SETTINGS = {
    "TITLE": "Statecore",
    "VERSION": __version__,
    "OAS_VERSION": "3.1.0",
    "DESCRIPTION": "The state of an automated engineering system, changed only by legal, recorded transitions.",
    "LICENSE": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
    "SERVERS": [{"url": "/", "description": "This server."}],
    "POSTPROCESSING_HOOKS": ["statecore.api.openapi.inspector.complete_document"],
}

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

# The executors
STATECORE_AGENT_TIMEOUT_SECONDS = ENVIRONMENT.agent_timeout_seconds
STATECORE_AGENT_RETRIES = ENVIRONMENT.agent_retries
STATECORE_AGENT_PAYLOAD_BYTES = ENVIRONMENT.agent_payload_bytes
STATECORE_AGENT_PLAN_ENTITIES = ENVIRONMENT.agent_plan_entities
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
STATECORE_NOTIFY_URLS = ENVIRONMENT.notify_urls
STATECORE_ESCALATION_URLS = ENVIRONMENT.escalation_urls
STATECORE_ESCALATION_MINUTES = ENVIRONMENT.escalation_minutes
STATECORE_ALERTS = ENVIRONMENT.alerts
STATECORE_BACKUP_DIR = ENVIRONMENT.backup_dir
STATECORE_ARCHIVE_DIR = ENVIRONMENT.archive_dir
STATECORE_AGENT_WEBHOOK_HOSTS = ENVIRONMENT.agent_webhook_hosts
STATECORE_WEBHOOK_PRIVATE_ADDRESSES = ENVIRONMENT.webhook_private_addresses
STATECORE_WEBHOOK_HTTP = ENVIRONMENT.webhook_http
STATECORE_WEBHOOK_TIMEOUT_SECONDS = ENVIRONMENT.webhook_timeout_seconds
STATECORE_WEBHOOK_RETRY_HOURS = ENVIRONMENT.webhook_retry_hours
STATECORE_WEBHOOK_CONCURRENCY = ENVIRONMENT.webhook_concurrency
STATECORE_WEBHOOK_LOG_DAYS = ENVIRONMENT.webhook_log_days
STATECORE_ATTEMPT_DAYS = ENVIRONMENT.attempt_days
STATECORE_PROGRESS_SECONDS = ENVIRONMENT.progress_seconds
STATECORE_LOG_DAYS = ENVIRONMENT.log_days
STATECORE_LOG_BYTES = ENVIRONMENT.log_bytes
STATECORE_LOG_BYTES_PER_SECOND = ENVIRONMENT.log_bytes_per_second
STATECORE_ARTIFACT_DAYS = ENVIRONMENT.artifact_days
STATECORE_ARTIFACT_BYTES = ENVIRONMENT.artifact_bytes
STATECORE_ARTIFACT_TASK_BYTES = ENVIRONMENT.artifact_task_bytes
STATECORE_ARTIFACTS_PER_TASK = ENVIRONMENT.artifacts_per_task
STATECORE_ARTIFACT_TOTAL_BYTES = ENVIRONMENT.artifact_total_bytes
STATECORE_OCCURRENCE_DAYS = ENVIRONMENT.occurrence_days
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "artifacts": ENVIRONMENT.artifact_storage
    or {
        "BACKEND": "statecore.artifacts.disk.DiskStorage",
        "OPTIONS": {"location": str(STATECORE_HOME / "artifacts")},
    },
}
STATECORE_RETENTION_DAYS = ENVIRONMENT.retention_days
STATECORE_JOURNAL_NAME = ENVIRONMENT.journal_name
STATECORE_JOURNAL_KEY = ENVIRONMENT.journal_key
STATECORE_JOURNAL_VERIFIER_KEY = ENVIRONMENT.journal_verifier_key
STATECORE_JOURNAL_SIGNER = ENVIRONMENT.journal_signer
STATECORE_WITNESSES = ENVIRONMENT.witnesses
STATECORE_WITNESS_SECONDS = ENVIRONMENT.witness_seconds
STATECORE_SEQUENCER_LAG_SECONDS = ENVIRONMENT.sequencer_lag_seconds

# Live updates: messages may be lost; clients catch up from the journal by position.
CHANNEL_LAYERS = {
    "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}},
}

# Celery
CELERY_BROKER_URL = redis_url.for_celery(REDIS_URL)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A task that runs longer is delivered a second time; the time limit ends every task before.
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3600}
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
    "export_journal": timedelta(days=1),
    "reconcile_counters": timedelta(days=1),
}
# A sweep that no worker took in time expires; the next one does its work.
CELERY_BEAT_SCHEDULE = {
    name: {"task": f"statecore.tasks.{name}", "schedule": every, "options": {"expires": every.total_seconds()}}
    for name, every in SWEEPS.items()
}
CELERY_BEAT_SCHEDULE_FILENAME = str(STATECORE_HOME / "celerybeat-schedule")

# Logs
LOGGING = logs.configuration(ENVIRONMENT.log_format, ENVIRONMENT.log_level)
logs.configure_structlog()
