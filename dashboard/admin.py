"""Removes two-factor devices from the admin, which would show their secrets."""

from django.contrib import admin
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

admin.site.unregister(StaticDevice)
admin.site.unregister(TOTPDevice)
