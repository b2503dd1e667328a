from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0137_leader_lease"),
    ]

    operations = [
        migrations.AddField(
            model_name="processreport",
            name="restarts",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="processreport",
            name="last_exit",
            field=models.CharField(blank=True, db_default="", default="", max_length=100),
        ),
    ]
