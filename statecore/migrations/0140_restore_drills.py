from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = "the previous version does not know the table"

    dependencies = [
        ("statecore", "0090_fewer_task_indexes"),
    ]

    operations = [
        migrations.CreateModel(
            name="RestoreDrill",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("error", models.CharField(blank=True, max_length=500)),
                ("export", models.CharField(blank=True, max_length=64)),
                ("position", models.PositiveBigIntegerField(default=0)),
                ("lost_events", models.PositiveBigIntegerField(default=0)),
                ("seconds", models.FloatField(default=0.0)),
            ],
            options={"default_permissions": ("view",)},
        ),
    ]
