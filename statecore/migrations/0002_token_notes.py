from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0001_initial"),
    ]

    operations = [
        migrations.AlterField(
            model_name="auditnote",
            name="kind",
            field=models.CharField(
                choices=[
                    ("override_refused", "Override Refused"),
                    ("edited", "Edited"),
                    ("token_made", "Token Made"),
                    ("token_revoked", "Token Revoked"),
                ],
                max_length=32,
            ),
        ),
    ]
