"""Coming in and going out."""

from __future__ import annotations

from django.contrib.auth import views


class Login(views.LoginView):
    template_name = "dashboard/login.html"
    redirect_authenticated_user = True


class Logout(views.LogoutView):
    pass
