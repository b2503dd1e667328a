from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = "the columns have a default in the database, so that the previous version inserts rows without them"

    dependencies = [
        ("statecore", "0025_holds"),
    ]

    operations = [
        migrations.AddField(
            model_name=name,
            name="link_digests",
            field=models.TextField(db_default="", default="", editable=False),
        )
        for name in ("task", "testgate", "workstream")
    ]
