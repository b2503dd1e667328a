from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0037_one_index_of_entries"),
    ]

    operations = [
        migrations.CreateModel(
            name="DwellCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("entity_type", models.CharField(max_length=32)),
                ("state", models.CharField(max_length=32)),
                ("bucket", models.PositiveSmallIntegerField()),
                ("count", models.BigIntegerField(default=0)),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("day", "entity_type", "state", "bucket"), name="dwell_count_is_one_row"
                    )
                ],
            },
        ),
    ]
