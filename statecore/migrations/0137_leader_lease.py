from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0134_service_accounts"),
    ]

    operations = [
        migrations.CreateModel(
            name="LeaderLease",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("term", models.BigIntegerField(default=0)),
                ("holder", models.CharField(blank=True, default="", max_length=32)),
                ("process", models.CharField(blank=True, default="", max_length=100)),
                ("host", models.CharField(blank=True, default="", max_length=255)),
                ("pid", models.PositiveIntegerField(default=0)),
                ("scope", models.CharField(blank=True, default="", max_length=100)),
                ("acquired_at", models.DateTimeField(db_default=Now())),
                ("expires_at", models.DateTimeField(db_default=Now())),
            ],
            options={"default_permissions": ("view",)},
        ),
    ]
