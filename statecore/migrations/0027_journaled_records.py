from django.db import migrations, models

KINDS = [
    ("override_refused", "Override Refused"),
    ("archived", "Archived"),
    ("approval_requested", "Approval Requested"),
    ("approval_decided", "Approval Decided"),
    ("edited", "Edited"),
    ("token_made", "Token Made"),
    ("token_revoked", "Token Revoked"),
]


class Migration(migrations.Migration):
    safe_because = "the columns have a default in the database; the triggers refuse new records without an entry"

    dependencies = [
        ("statecore", "0026_link_digests"),
    ]

    operations = [
        *(
            migrations.AddField(
                model_name=name,
                name="journal_entry",
                field=models.CharField(db_default="", default="", editable=False, max_length=30),
            )
            for name in ("approval", "approvaldecision", "auditnote")
        ),
        migrations.AlterField(
            model_name="auditnote", name="kind", field=models.CharField(choices=KINDS, max_length=32)
        ),
    ]
