from django.db import migrations, models

import statecore.records.phase


class Migration(migrations.Migration):
    safe_because = "the columns have a default in the database, so that the previous version inserts rows without them"

    dependencies = [
        ("statecore", "0035_paused_workstreams"),
    ]

    operations = [
        migrations.AddField(
            model_name="phase",
            name="repositories",
            field=models.JSONField(
                blank=True, db_default=[], default=list, validators=[statecore.records.phase.validate_repositories]
            ),
        ),
        migrations.AddField(
            model_name="workstream",
            name="repository",
            field=models.CharField(db_default="default", default="default", max_length=50),
        ),
    ]
