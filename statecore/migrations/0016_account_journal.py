from django.db import migrations, models

KINDS = [
    ("normal", "Normal"),
    ("propagated", "Propagated"),
    ("override", "Override"),
    ("created", "Created"),
    ("account", "Account"),
]


class Migration(migrations.Migration):
    safe_because = "no column changes; the previous version reads the entries of accounts as events of no machine"

    dependencies = [
        ("statecore", "0012_archive_names"),
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
