import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = "only the names in Python change; the table and its columns keep theirs"

    dependencies = [
        ("statecore", "0011_tree"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterModelTable(name="retirement", table="statecore_retirement"),
                migrations.RenameModel(old_name="Retirement", new_name="ArchivedRange"),
                migrations.AlterModelOptions(
                    name="archivedrange",
                    options={
                        "default_permissions": ("view",),
                        "permissions": (("archive_events", "Can take old events out of the journal"),),
                    },
                ),
                migrations.RenameField(model_name="archivedrange", old_name="moves", new_name="transitions"),
                migrations.AlterField(
                    model_name="archivedrange", name="transitions", field=models.JSONField(db_column="moves")
                ),
                migrations.RenameField(model_name="archivedrange", old_name="retired_at", new_name="archived_at"),
                migrations.AlterField(
                    model_name="archivedrange", name="archived_at", field=models.DateTimeField(db_column="retired_at")
                ),
                migrations.RenameField(model_name="anchor", old_name="retirement", new_name="archived_range"),
                migrations.AlterField(
                    model_name="anchor",
                    name="archived_range",
                    field=models.ForeignKey(
                        db_column="retirement_id",
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="statecore.archivedrange",
                    ),
                ),
            ]
        ),
        migrations.AlterField(
            model_name="auditnote",
            name="kind",
            field=models.CharField(
                choices=[
                    ("override_refused", "Override Refused"),
                    ("approval_requested", "Approval Requested"),
                    ("approval_decided", "Approval Decided"),
                    ("edited", "Edited"),
                    ("token_made", "Token Made"),
                    ("token_revoked", "Token Revoked"),
                    ("archived", "Archived"),
                ],
                max_length=32,
            ),
        ),
    ]
