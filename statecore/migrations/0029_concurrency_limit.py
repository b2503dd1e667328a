from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = "the column has a default in the database, so that the previous version inserts rows without it"

    dependencies = [
        ("statecore", "0028_executor_work"),
    ]

    operations = [
        migrations.AddField(
            model_name="circuitbreaker",
            name="concurrency_limit",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
    ]
