from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0027_journaled_records"),
    ]

    operations = [
        migrations.CreateModel(
            name="ExecutorWork",
            fields=[
                ("setting", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("host", models.CharField(max_length=255)),
                ("declared_at", models.DateTimeField()),
            ],
            options={"default_permissions": ("view",)},
        ),
    ]
