from django.db import migrations, models

from statecore.storage.concurrent_index import AddIndexConcurrently

INDEXES = {
    "task": [
        models.Index(
            condition=models.Q(("state", "queued")),
            fields=["run", "priority", "state_entered_at", "id"],
            name="task_queue_of_run",
        ),
        models.Index(condition=models.Q(("state", "running")), fields=["run"], name="task_running_of_run"),
        models.Index(
            condition=models.Q(("not_before__isnull", False), ("state", "pending")),
            fields=["not_before"],
            name="task_by_not_before",
        ),
    ],
    "run": [
        models.Index(
            condition=models.Q(("starts_automatically", True), ("state", "pending")),
            fields=["not_before"],
            name="run_by_start",
        ),
    ],
}


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("statecore", "0075_run_queues"),
    ]

    operations = [
        AddIndexConcurrently(model_name=model, index=index) for model, indexes in INDEXES.items() for index in indexes
    ]
