from django.db import migrations, models

from statecore.storage.concurrent_index import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("statecore", "0008_cancelled_parts"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="patchledger",
            index=models.Index(
                fields=["workstream"],
                condition=models.Q(("state__in", ["committed", "dropped"]), _negated=True),
                name="patch_open_by_workstream",
            ),
        ),
        AddIndexConcurrently(
            model_name="testgate",
            index=models.Index(
                fields=["workstream"],
                condition=models.Q(("state__in", ["PASSED"]), _negated=True),
                name="gate_open_by_workstream",
            ),
        ),
    ]
