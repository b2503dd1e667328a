import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = (
        "the column has a default in the database, so that the previous version inserts rows without it; "
        "it does not use the new table"
    )

    dependencies = [
        ("statecore", "0031_steps_of_entry"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="last_worker",
            field=models.CharField(db_default="", default="", editable=False, max_length=64),
        ),
        migrations.CreateModel(
            name="TaskAttempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveIntegerField()),
                ("worker", models.CharField(max_length=64)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField()),
                ("ended_by", models.CharField(max_length=64)),
                ("exit_code", models.IntegerField(null=True)),
                ("error", models.TextField()),
                ("output", models.TextField()),
                ("patch", models.CharField(max_length=64)),
                (
                    "task",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="statecore.task",
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["task", "started_at"], name="attempt_by_task"),
                    models.Index(fields=["ended_at"], name="attempt_by_end"),
                ],
            },
        ),
    ]
