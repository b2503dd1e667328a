import django.db.models.deletion
from django.db import migrations, models

from statecore.storage.concurrent_index import AddIndexConcurrently

ADDED = [
    models.Index(fields=["worker"], condition=models.Q(("worker__isnull", False)), name="task_by_worker"),
    models.Index(fields=["patch"], condition=models.Q(("patch__isnull", False)), name="task_by_patch"),
]
DROPPED = {
    "statecore_task_worker_id_0633c239": "worker_id",
    "statecore_task_patch_id_434c960f": "patch_id",
    "statecore_task_phase_id_30ff30f8": "phase_id",
}


class Migration(migrations.Migration):
    atomic = False
    safe_because = (
        "the previous version reads by the new indexes like by those they replace; only the state of the migrations "
        "knows of the fields' change, because Django would check every row of the table for its foreign keys again"
    )

    dependencies = [
        ("statecore", "0115_incidents"),
    ]

    operations = [
        *(AddIndexConcurrently(model_name="task", index=index) for index in ADDED),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    f"DROP INDEX IF EXISTS {name}", f"CREATE INDEX IF NOT EXISTS {name} ON statecore_task ({column})"
                )
                for name, column in DROPPED.items()
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="task",
                    name="worker",
                    field=models.ForeignKey(
                        db_index=False,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tasks",
                        to="statecore.worker",
                    ),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="patch",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tasks",
                        to="statecore.patchledger",
                    ),
                ),
                migrations.AlterField(
                    model_name="task",
                    name="phase",
                    field=models.ForeignKey(
                        db_index=False,
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="statecore.phase",
                    ),
                ),
            ],
        ),
    ]
