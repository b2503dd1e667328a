"""The admin shows no secrets: neither whose telephone makes which codes, nor what is on whose paper."""

from django.contrib import admin
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

admin.site.unregister(StaticDevice)
admin.site.unregister(TOTPDevice)
