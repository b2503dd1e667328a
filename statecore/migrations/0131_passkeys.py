import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import statecore.kernel.clock


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("statecore", "0130_external_identities"),
    ]

    operations = [
        migrations.CreateModel(
            name="Passkey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=80)),
                ("credential_id", models.BinaryField(max_length=1023, unique=True)),
                ("credential", models.BinaryField()),
                ("uses", models.BigIntegerField(default=0)),
                ("created_at", models.DateTimeField(default=statecore.kernel.clock.now)),
                ("last_used_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="passkeys",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
    ]
