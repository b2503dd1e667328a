from django.db import migrations, models

from statecore.storage.concurrent_index import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("statecore", "0030_tools_in_use"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="compensationstep",
            index=models.Index(fields=["entry", "id"], name="compensation_step_of_entry"),
        ),
    ]
