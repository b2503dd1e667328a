"""The URLs of the whole site."""

from django.contrib import admin
from django.urls import include, path

from statecore.dashboard.pages import login
from statecore.project import health
from statecore.project.metrics import metrics

urlpatterns = [
    # First, because most requests are for the API.
    path("api/v1/", include("statecore.api.urls")),
    path("", include("statecore.dashboard.urls")),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    # The admin's own login would skip the second factor.
    path("admin/login/", login.admin_login),
    path("admin/", admin.site.urls),
]

handler400 = "statecore.api.error_handlers.bad_request"
handler403 = "statecore.api.error_handlers.permission_denied"
handler404 = "statecore.api.error_handlers.page_not_found"
handler500 = "statecore.api.error_handlers.server_error"
