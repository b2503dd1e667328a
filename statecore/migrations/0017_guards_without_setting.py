from django.db import migrations


class Migration(migrations.Migration):
    """Changes no table. Processes wait for it, and `migrate` installs the triggers that they need."""

    dependencies = [
        ("statecore", "0021_verdicts"),
    ]

    operations: list[migrations.operations.base.Operation] = []
