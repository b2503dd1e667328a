import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0036_repositories"),
    ]

    operations = [
        # The index of entry and id serves the lookups by entry too.
        migrations.AlterField(
            model_name="compensationstep",
            name="entry",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="compensation_steps",
                to="statecore.patchledger",
            ),
        ),
    ]
