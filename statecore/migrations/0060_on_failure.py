import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = (
        "the columns are NULL or have a default in the database, so that the previous version inserts rows without them"
    )

    dependencies = [
        ("statecore", "0038_dwell_count"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="on_failure",
            field=models.CharField(
                choices=[("wait", "Wait"), ("fail", "Fail")], db_default="wait", default="wait", max_length=4
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="dependency_timeout_sec",
            field=models.PositiveIntegerField(
                blank=True, null=True, validators=[django.core.validators.MinValueValidator(1)]
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="dependency_due_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="supervisedworker",
            name="retry_count",
            field=models.PositiveSmallIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name="supervisedworker",
            name="retry_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
