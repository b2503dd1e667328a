"""Django's settings for an installation of Statecore. Values that differ between installations come from `environment`.

Settings of one's own begin with `from statecore.project.settings import *` (docs/how-to/extend.md).
"""

import os
from datetime import timedelta

from csp.constants import NONE, SELF

from statecore import __version__
from statecore.project import (
    defaults,
    environment,
    home,
    logs,
    metrics_folder,
    plugins,
    preflight,
    process_limits,
)
from statecore.project.defaults import *  # noqa: F403

# Until ProjectConfig.ready(), the end of django.setup().
process_limits.pause_collection()
# The database, keys and journal are for the user of Statecore only. Before any file is created.
os.umask(0o077)
preflight.check_distribution()
metrics_folder.tell_containers_apart()
ENVIRONMENT = defaults.ENVIRONMENT

SECRET_KEY = ENVIRONMENT.secret_key or home.read_secret_key(defaults.STATECORE_HOME)
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
    "rest_framework",
    "drf_spectacular",
    "statecore.apps.StatecoreConfig",
    "statecore.api.apps.ApiConfig",
    "statecore.dashboard.apps.DashboardConfig",
    "statecore.project.apps.ProjectConfig",
    "statecore.devtools.apps.DevtoolsConfig",
    # Applications that add machines, sinks, rules, pages and calls.
    *plugins.find_apps(ENVIRONMENT.apps),
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "statecore.api.token_fastpath.TokenFastPath",
    "csp.middleware.CSPMiddleware",
    "statecore.project.static_files.StaticFiles",
    # After the files, which are not logged; before everything that may fail.
    "statecore.request_context.middleware.RequestContext",
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
    # Before the backend that checks passwords.
    "statecore.accounts.password_gate.PasswordGate",
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
# The account journal has the logins.
AXES_DISABLE_ACCESS_LOG = True
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

# A session ends this long after its last page; `dashboard.middleware` extends it.
SESSION_COOKIE_AGE = 60 * ENVIRONMENT.session_idle_minutes
OTP_TOTP_ISSUER = "Statecore"

# The API
DATA_UPLOAD_MAX_MEMORY_SIZE = ENVIRONMENT.body_limit
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

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "artifacts": defaults.STATECORE_ARTIFACT_STORAGE,
}
# Logs
LOGGING = logs.configuration(ENVIRONMENT.log_format, ENVIRONMENT.log_level)
logs.configure(LOGGING, ENVIRONMENT.log_format)
