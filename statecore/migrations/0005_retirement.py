import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0004_recall"),
    ]

    operations = [
        migrations.CreateModel(
            name="Retirement",
            fields=[
                ("last_position", models.BigIntegerField(primary_key=True, serialize=False)),
                ("first_position", models.BigIntegerField(unique=True)),
                ("file", models.CharField(max_length=100)),
                ("sha256", models.CharField(max_length=64)),
                ("seal", models.CharField(max_length=64)),
                ("until", models.DateTimeField()),
                ("anchors", models.CharField(max_length=64)),
                ("moves", models.JSONField()),
                ("forced", models.JSONField()),
                ("operator", models.CharField(max_length=150)),
                ("reason", models.TextField()),
                ("retired_at", models.DateTimeField()),
                ("prev_hash", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
            ],
            options={
                "permissions": (("retire_events", "Can take old events out of the journal"),),
                "default_permissions": ("view",),
            },
        ),
        migrations.AlterField(
            model_name="auditnote",
            name="kind",
            field=models.CharField(
                choices=[
                    ("override_refused", "Override Refused"),
                    ("edited", "Edited"),
                    ("token_made", "Token Made"),
                    ("token_revoked", "Token Revoked"),
                    ("retired", "Retired"),
                ],
                max_length=32,
            ),
        ),
        migrations.CreateModel(
            name="Anchor",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entity_type", models.CharField(max_length=32)),
                ("entity_id", models.CharField(max_length=64)),
                ("sequence", models.PositiveIntegerField()),
                ("position", models.BigIntegerField()),
                ("event_id", models.CharField(max_length=30)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("normal", "Normal"),
                            ("propagated", "Propagated"),
                            ("override", "Override"),
                            ("created", "Created"),
                        ],
                        max_length=16,
                    ),
                ),
                ("trigger", models.CharField(max_length=64)),
                ("to_state", models.CharField(max_length=32)),
                ("actor", models.CharField(max_length=150)),
                ("actor_kind", models.CharField(max_length=16)),
                ("channel", models.CharField(max_length=16)),
                ("at", models.DateTimeField()),
                ("hash", models.CharField(max_length=64)),
                ("was_forced", models.BooleanField()),
                (
                    "retirement",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="statecore.retirement"
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["entity_type", "position"], name="anchor_by_machine")],
                "constraints": [
                    models.UniqueConstraint(fields=("entity_type", "entity_id", "sequence"), name="anchor_is_one_event")
                ],
            },
        ),
    ]
