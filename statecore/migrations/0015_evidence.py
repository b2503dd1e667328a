from django.db import migrations, models

KINDS = [
    ("normal", "Normal"),
    ("propagated", "Propagated"),
    ("override", "Override"),
    ("created", "Created"),
    ("edited", "Edited"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0014_holders"),
    ]

    operations = [
        *(
            migrations.AlterField(model_name=name, name="kind", field=models.CharField(choices=KINDS, max_length=16))
            for name in ("event", "position", "anchor")
        ),
        migrations.AddField(
            model_name="anchor",
            name="evidence",
            field=models.CharField(db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="patchledger",
            name="diff_sha256",
            field=models.CharField(db_default="", default="", editable=False, max_length=64),
        ),
    ]
