from django.db import migrations, models

from statecore.storage.concurrent_index import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("statecore", "0029_concurrency_limit"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                condition=models.Q(("state", "running"), models.Q(("tool", ""), _negated=True)),
                fields=["tool"],
                name="task_using_tool",
            ),
        ),
        AddIndexConcurrently(
            model_name="testgate",
            index=models.Index(
                condition=models.Q(("state", "RUNNING"), models.Q(("tool", ""), _negated=True)),
                fields=["tool"],
                name="gate_using_tool",
            ),
        ),
    ]
