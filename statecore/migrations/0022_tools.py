from django.db import migrations

import statecore.kernel.ids
import statecore.kernel.validation


def tool() -> statecore.kernel.ids.IdField:
    return statecore.kernel.ids.IdField(
        blank=True,
        db_default="",
        default="",
        max_length=64,
        validators=[statecore.kernel.validation.validate_tool],
    )


class Migration(migrations.Migration):
    safe_because = "the columns have a default in the database, so that the previous version inserts rows without them"

    dependencies = [
        ("statecore", "0021_verdicts"),
    ]

    operations = [
        migrations.AddField(model_name="task", name="tool", field=tool()),
        migrations.AddField(model_name="testgate", name="tool", field=tool()),
    ]
