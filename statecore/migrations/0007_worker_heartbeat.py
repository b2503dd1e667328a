from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0006_open_workstreams"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="worker", name="worker_live_by_heartbeat"),
    ]
