from django.db import migrations, models

from statecore.storage.concurrent_index import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("statecore", "0005_retirement"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="workstream",
            index=models.Index(
                fields=["run"],
                condition=models.Q(("state__in", ["completed", "skipped"]), _negated=True),
                name="workstream_open_by_run",
            ),
        ),
    ]
