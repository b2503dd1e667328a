from django.db import migrations, models

KINDS = [
    ("normal", "Normal"),
    ("propagated", "Propagated"),
    ("override", "Override"),
    ("created", "Created"),
    ("edited", "Edited"),
    ("account", "Account"),
]


class Migration(migrations.Migration):
    safe_because = "the previous version reads the entries of accounts as events of no machine"

    dependencies = [
        ("statecore", "0015_evidence"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="event",
            options={
                "default_permissions": ("view",),
                "permissions": (("view_accounts", "Can view the account journal"),),
            },
        ),
        *(
            migrations.AlterField(model_name=model, name="kind", field=models.CharField(choices=KINDS, max_length=16))
            for model in ("anchor", "event", "position")
        ),
    ]
