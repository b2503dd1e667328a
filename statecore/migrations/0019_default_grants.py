from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = "the previous version does not use the new table"

    dependencies = [
        ("statecore", "0018_epochs"),
    ]

    operations = [
        migrations.CreateModel(
            name="DefaultGrant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("group_name", models.CharField(max_length=150)),
                ("codename", models.CharField(max_length=100)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.AddConstraint(
            model_name="defaultgrant",
            constraint=models.UniqueConstraint(fields=("group_name", "codename"), name="default_grant_is_made_once"),
        ),
    ]
