from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0061_dependency_timeouts"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="result",
            field=models.JSONField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="taskattempt",
            name="result",
            field=models.JSONField(null=True),
        ),
    ]
