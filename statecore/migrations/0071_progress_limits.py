from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = "the columns are NULL or have a default in the database, and the previous version ignores them"

    dependencies = [
        ("statecore", "0070_task_logs"),
    ]

    operations = [
        migrations.AddField("task", "progress_timeout_sec", models.PositiveIntegerField(db_default=0, default=0)),
        migrations.AddField("task", "progress_due_at", models.DateTimeField(editable=False, null=True)),
    ]
