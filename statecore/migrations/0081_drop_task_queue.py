from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0080_webhooks"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="task", name="task_queue"),
    ]
