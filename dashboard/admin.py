"""Removes from the admin what the console has: accounts and roles. Devices would show their secrets."""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

admin.site.unregister(StaticDevice)
admin.site.unregister(TOTPDevice)

# A project that has its own classes for these keeps them.
for _model, _plain in ((User, UserAdmin), (Group, GroupAdmin)):
    if admin.site.is_registered(_model) and type(admin.site.get_model_admin(_model)) is _plain:
        admin.site.unregister(_model)
