from django.db import migrations, models

KINDS = [
    ("normal", "Normal"),
    ("propagated", "Propagated"),
    ("override", "Override"),
    ("created", "Created"),
    ("edited", "Edited"),
    ("account", "Account"),
    ("epoch", "Epoch"),
]


class Migration(migrations.Migration):
    safe_because = "the previous version ignores the timeline, and reads the start of an epoch as of no machine"

    dependencies = [
        ("statecore", "0017_guards_without_setting"),
    ]

    operations = [
        *(
            migrations.AlterField(model_name=model, name="kind", field=models.CharField(choices=KINDS, max_length=16))
            for model in ("anchor", "event", "position")
        ),
        migrations.AddField(
            model_name="numbering", name="timeline", field=models.PositiveIntegerField(db_default=0, default=0)
        ),
    ]
