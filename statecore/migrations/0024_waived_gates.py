from django.db import migrations, models

from statecore.storage.concurrent_index import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("statecore", "0023_waivers"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="testgate",
            index=models.Index(condition=models.Q(("waived", True)), fields=["state_entered_at"], name="gate_waived"),
        ),
    ]
