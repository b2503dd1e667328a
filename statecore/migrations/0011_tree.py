from django.db import migrations, models


def delete_seal_cursor(apps, schema_editor):
    """Without its sink, the cursor would look like a sink that is behind."""
    apps.get_model("statecore", "SinkCursor").objects.filter(sink="seals").delete()


class Migration(migrations.Migration):
    safe_because = (
        "the previous version keeps its table of seals and the column `seal`, and creates the cursor again if it leads"
    )

    dependencies = [
        ("statecore", "0010_approvals"),
    ]

    operations = [
        migrations.CreateModel(
            name="TreeHashes",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("level", models.PositiveSmallIntegerField()),
                ("first", models.BigIntegerField()),
                ("hashes", models.BinaryField()),
            ],
            options={
                "default_permissions": (),
                "constraints": [models.UniqueConstraint(fields=("level", "first"), name="tree_hash_is_unique")],
            },
        ),
        migrations.CreateModel(
            name="SignedCheckpoint",
            fields=[
                ("size", models.BigIntegerField(primary_key=True, serialize=False)),
                ("epoch", models.PositiveIntegerField(default=1)),
                ("root", models.BinaryField()),
                ("note", models.TextField()),
                ("verifier_key", models.CharField(max_length=300)),
                ("cosignatures", models.TextField(default="")),
                ("signed_at", models.DateTimeField(db_index=True)),
            ],
            options={"default_permissions": ("view",)},
        ),
        migrations.CreateModel(
            name="Witness",
            fields=[
                ("name", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("url", models.CharField(max_length=500)),
                ("size", models.BigIntegerField(default=0)),
                ("cosigned_at", models.DateTimeField(null=True)),
                ("tried_at", models.DateTimeField(null=True)),
                ("error", models.TextField(default="")),
            ],
            options={"default_permissions": ("view",)},
        ),
        migrations.AddField(
            model_name="numbering", name="epoch", field=models.PositiveIntegerField(db_default=1, default=1)
        ),
        # The table and the column are dropped one release later.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name="Seal"),
                migrations.RenameField(model_name="retirement", old_name="seal", new_name="root"),
                migrations.AlterField(
                    model_name="retirement", name="root", field=models.CharField(db_column="seal", max_length=64)
                ),
            ]
        ),
        migrations.RunPython(delete_seal_cursor, migrations.RunPython.noop),
    ]
