from django.db import migrations, models

from statecore.storage.concurrent_index import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("statecore", "0034_pauses"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="workstream",
            index=models.Index(
                condition=models.Q(("state", "paused")), fields=["paused_until"], name="workstream_paused"
            ),
        ),
    ]
