import django.core.validators
from django.db import migrations, models

ACTIONS = [
    ("plan_written", "Plan Written"),
    ("plan_approved", "Plan Approved"),
    ("requested", "Requested"),
    ("started", "Started"),
    ("git_revert", "Git Revert"),
    ("run_tests", "Run Tests"),
    ("notify", "Notify"),
    ("required_gate", "Required Gate"),
    ("commit", "Commit"),
    ("verify_revert", "Verify Revert"),
    ("verify_clean_state", "Verify Clean State"),
    ("undone", "Undone"),
    ("rolled_back", "Rolled Back"),
    ("failed", "Failed"),
]


class Migration(migrations.Migration):
    safe_because = "the columns have a default in the database, so that the previous version inserts rows without them"

    dependencies = [
        ("statecore", "0020_liveness"),
    ]

    operations = [
        migrations.AddField(
            model_name="patchledger",
            name="revert_commit",
            field=models.CharField(db_default="", default="", editable=False, max_length=64),
        ),
        migrations.AddField(
            model_name="testgate",
            name="max_reruns",
            field=models.PositiveSmallIntegerField(
                db_default=0, default=0, validators=[django.core.validators.MaxValueValidator(100)]
            ),
        ),
        migrations.AddField(
            model_name="testgate",
            name="reruns",
            field=models.PositiveSmallIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AlterField(
            model_name="compensationstep",
            name="action",
            field=models.CharField(choices=ACTIONS, max_length=32),
        ),
    ]
