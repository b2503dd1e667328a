"""Index ended rows by their end, for the sweep that deletes them."""

from django.db import migrations, models

from statecore.storage.concurrent_index import AddIndexConcurrently

INDEXES = {
    "alert": ("resolved_at", "alert_by_end"),
    "alertnotice": ("done_at", "alert_notice_by_end"),
    "bulkjob": ("finished_at", "bulk_job_by_end"),
}


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("statecore", "0138_process_restarts"),
    ]

    operations = [
        AddIndexConcurrently(
            model, models.Index(fields=[end], condition=models.Q((f"{end}__isnull", False)), name=name)
        )
        for model, (end, name) in INDEXES.items()
    ]
