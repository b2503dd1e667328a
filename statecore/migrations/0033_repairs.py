import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = "the columns have a default in the database, so that the previous version inserts rows without them"

    dependencies = [
        ("statecore", "0032_attempts"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="max_repairs",
            field=models.PositiveSmallIntegerField(
                db_default=0, default=0, validators=[django.core.validators.MaxValueValidator(100)]
            ),
        ),
        migrations.AddField(
            model_name="task",
            name="repairs",
            field=models.PositiveSmallIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name="workstream",
            name="max_repairs",
            field=models.PositiveSmallIntegerField(
                db_default=0, default=0, validators=[django.core.validators.MaxValueValidator(100)]
            ),
        ),
        migrations.AddField(
            model_name="workstream",
            name="repairs",
            field=models.PositiveSmallIntegerField(db_default=0, default=0, editable=False),
        ),
    ]
