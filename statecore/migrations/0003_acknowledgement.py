from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0002_token_notes"),
    ]

    operations = [
        migrations.CreateModel(
            name="Acknowledgement",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entity_type", models.CharField(max_length=32)),
                ("entity_id", models.CharField(max_length=64)),
                ("state_entered_at", models.DateTimeField()),
                ("actor", models.CharField(max_length=150)),
                ("at", models.DateTimeField()),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("entity_type", "entity_id", "state_entered_at"), name="acknowledged_by_the_first"
                    )
                ],
            },
        ),
    ]
