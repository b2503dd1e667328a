from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = "the columns have a default in the database, so that the previous version inserts rows without them"

    dependencies = [
        ("statecore", "0022_tools"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="testgate",
            options={"default_permissions": ("view", "operate", "override", "waive")},
        ),
        migrations.AddField(
            model_name="testgate",
            name="waived",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="testgate",
            name="waiver",
            field=models.JSONField(editable=False, null=True),
        ),
    ]
