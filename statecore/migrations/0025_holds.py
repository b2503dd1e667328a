from django.db import migrations, models

import statecore.kernel.ids

KINDS = [
    ("normal", "Normal"),
    ("propagated", "Propagated"),
    ("override", "Override"),
    ("created", "Created"),
    ("edited", "Edited"),
    ("account", "Account"),
    ("epoch", "Epoch"),
    ("hold", "Hold"),
]
SCOPES = [
    ("everything", "Everything"),
    ("phase", "Phase"),
    ("run", "Run"),
    ("capability", "Capability"),
    ("tool", "Tool"),
]


class Migration(migrations.Migration):
    safe_because = "the previous version ignores holds, and reads their entries as events of no machine"

    dependencies = [
        ("statecore", "0024_waived_gates"),
    ]

    operations = [
        *(
            migrations.AlterField(model_name=model, name="kind", field=models.CharField(choices=KINDS, max_length=16))
            for model in ("anchor", "event", "position")
        ),
        migrations.CreateModel(
            name="Hold",
            fields=[
                ("id", statecore.kernel.ids.IdField(max_length=64, primary_key=True, serialize=False)),
                ("kind", models.CharField(choices=SCOPES, max_length=16)),
                ("target", models.CharField(blank=True, max_length=200)),
                ("reason", models.CharField(max_length=2000)),
                ("created_by", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("released_by", models.CharField(blank=True, max_length=150)),
                ("release_reason", models.CharField(blank=True, max_length=2000)),
            ],
            options={
                "default_permissions": ("view", "add", "change"),
                "indexes": [
                    models.Index(condition=models.Q(("ended_at", None)), fields=["kind"], name="hold_not_ended")
                ],
            },
        ),
    ]
