from django.db import migrations, models

from statecore.storage.concurrent_index import AddIndexConcurrently

CANCELLED = models.Q(("state", "cancelled"))


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("statecore", "0007_worker_heartbeat"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(fields=["workstream"], condition=CANCELLED, name="task_cancelled_by_workstream"),
        ),
        AddIndexConcurrently(
            model_name="workstream",
            index=models.Index(fields=["run"], condition=CANCELLED, name="workstream_cancelled_by_run"),
        ),
    ]
