from django.db import migrations, models

from statecore.storage.concurrent_index import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("statecore", "0060_on_failure"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                fields=["dependency_due_at"],
                condition=models.Q(("dependency_due_at__isnull", False), ("state", "blocked")),
                name="task_by_dependency_due",
            ),
        ),
    ]
