from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = (
        "the columns are NULL or have a default in the database, so that the previous version inserts rows without them"
    )

    dependencies = [
        ("statecore", "0082_process_reports"),
    ]

    operations = [
        migrations.AddField(
            "bulkjob", "action", models.CharField(db_default="transition", default="transition", max_length=16)
        ),
        migrations.AddField(
            "bulkjob", "to_state", models.CharField(blank=True, db_default="", default="", max_length=32)
        ),
        migrations.AddField(
            "bulkjob", "category", models.CharField(blank=True, db_default="", default="", max_length=32)
        ),
        migrations.AddField("bulkjob", "expires_at", models.DateTimeField(null=True)),
        migrations.AddField("bulkjob", "approvals", models.PositiveIntegerField(db_default=0, default=0)),
        migrations.AddField("bulkjob", "caused", models.JSONField(null=True)),
        migrations.AddField(
            "bulkjob", "stopped_by", models.CharField(blank=True, db_default="", default="", max_length=150)
        ),
    ]
