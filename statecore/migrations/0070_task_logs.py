import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0066_artifacts"),
    ]

    operations = [
        migrations.CreateModel(
            name="LogChunk",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task_id", models.CharField(max_length=64)),
                ("attempt", models.PositiveIntegerField()),
                ("first", models.PositiveBigIntegerField()),
                ("last", models.PositiveBigIntegerField()),
                ("at", models.DateTimeField()),
                ("body", models.TextField()),
                ("size", models.PositiveIntegerField()),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [models.UniqueConstraint(fields=("task_id", "last"), name="log_chunks_do_not_overlap")],
            },
        ),
        migrations.CreateModel(
            name="TaskLog",
            fields=[
                (
                    "task",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="statecore.task",
                    ),
                ),
                ("attempt", models.PositiveIntegerField()),
                ("first", models.PositiveBigIntegerField()),
                ("next", models.PositiveBigIntegerField()),
                ("size", models.PositiveBigIntegerField()),
                ("paid_until", models.DateTimeField()),
                ("started_at", models.DateTimeField()),
            ],
            options={
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["started_at"], name="task_log_by_start")],
            },
        ),
    ]
