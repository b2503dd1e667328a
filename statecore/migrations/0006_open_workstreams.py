from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0005_retirement"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="workstream",
            index=models.Index(
                fields=["run"],
                condition=models.Q(("state__in", ["completed", "skipped"]), _negated=True),
                name="workstream_open_by_run",
            ),
        ),
    ]
