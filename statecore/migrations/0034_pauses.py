from django.db import migrations, models

import statecore.kernel.fields

WORKER = ["initializing", "idle", "busy", "suspended", "unresponsive", "shutdown"]
WORKSTREAM = [
    *("planned", "ready", "blocked", "executing", "paused"),
    *("validating", "completed", "failed", "cancelled", "skipped"),
]
PAUSED, SET = models.Q(("state__in", ["paused"])), models.Q(("paused_from__isnull", False))


def state(states: list[str]) -> statecore.kernel.fields.StateField:
    choices = [(each, each) for each in states]
    return statecore.kernel.fields.StateField(
        choices=choices, default=states[0], editable=False, max_length=32, protected=True
    )


def is_known(table: str, states: list[str]) -> migrations.AddConstraint:
    known = models.CheckConstraint(condition=models.Q(("state__in", states)), name=f"{table}_state_is_known")
    return migrations.AddConstraint(model_name=table, constraint=known)


class Migration(migrations.Migration):
    safe_because = (
        "the columns are NULL or have a default in the database; only operators of this version pause and suspend, and "
        "the previous version leaves the rows in the new states alone"
    )

    dependencies = [
        ("statecore", "0033_repairs"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="worker", name="worker_state_is_known"),
        migrations.RemoveConstraint(model_name="workstream", name="workstream_state_is_known"),
        migrations.AddField("worker", "suspended_until", models.DateTimeField(editable=False, null=True)),
        migrations.AddField(
            "worker", "suspending", models.BooleanField(db_default=False, default=False, editable=False)
        ),
        migrations.AddField("workstream", "paused_from", models.CharField(editable=False, max_length=32, null=True)),
        migrations.AddField("workstream", "paused_until", models.DateTimeField(editable=False, null=True)),
        migrations.AlterField("worker", "state", state(WORKER)),
        migrations.AlterField("workstream", "state", state(WORKSTREAM)),
        is_known("worker", WORKER),
        is_known("workstream", WORKSTREAM),
        migrations.AddConstraint(
            model_name="workstream",
            constraint=models.CheckConstraint(
                condition=(PAUSED & SET) | (~PAUSED & ~SET), name="workstream_paused_from_exactly_in_state"
            ),
        ),
    ]
