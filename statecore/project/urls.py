"""The addresses of the whole site."""

from django.contrib import admin
from django.urls import include, path

from dashboard.pages import login
from statecore.project import health
from statecore.project.metrics import metrics

urlpatterns = [
    # First: what is called most often.
    path("api/v1/", include("api.urls")),
    path("", include("dashboard.urls")),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    # One way in: the admin's own would ask for no second factor.
    path("admin/login/", login.admin_login),
    path("admin/", admin.site.urls),
]

handler400 = "api.errors.bad_request"
handler403 = "api.errors.permission_denied"
handler404 = "api.errors.page_not_found"
handler500 = "api.errors.server_error"
