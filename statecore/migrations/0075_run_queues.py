import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

QUEUES = """
INSERT INTO statecore_runqueue (run_id, priority, turn, is_waiting)
SELECT DISTINCT run_id, priority, 0.0, true FROM statecore_task WHERE state = 'queued'
"""


class Migration(migrations.Migration):
    safe_because = (
        "the columns are NULL or have a default in the database; the sweep `reevaluate_waiting` opens the queues of "
        "tasks that the previous version queues"
    )

    dependencies = [
        ("statecore", "0071_progress_limits"),
    ]

    operations = [
        migrations.AddField("run", "max_parallel", models.PositiveIntegerField(db_default=0, default=0)),
        migrations.AddField(
            "run",
            "weight",
            models.PositiveSmallIntegerField(
                db_default=1,
                default=1,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100),
                ],
            ),
        ),
        migrations.AddField("run", "not_before", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("run", "starts_automatically", models.BooleanField(db_default=False, default=False)),
        migrations.AddField("task", "not_before", models.DateTimeField(blank=True, null=True)),
        migrations.CreateModel(
            name="RunQueue",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("priority", models.SmallIntegerField()),
                ("turn", models.FloatField()),
                ("is_waiting", models.BooleanField(default=True)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="statecore.run",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        condition=models.Q(("is_waiting", True)),
                        fields=["-priority", "turn", "id"],
                        name="run_queue_in_turn",
                    ),
                    models.Index(fields=["priority", "turn"], name="run_queue_latest_turn"),
                ],
                "constraints": [models.UniqueConstraint(fields=("run", "priority"), name="run_queue_one_per_priority")],
            },
        ),
        migrations.RunSQL(QUEUES, migrations.RunSQL.noop),
    ]
