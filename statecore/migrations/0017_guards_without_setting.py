from django.db import migrations


class Migration(migrations.Migration):
    """Changes no table. Processes wait for it, and `migrate` installs the triggers that they need."""

    dependencies = [
        ("statecore", "0016_account_journal"),
    ]

    operations: list[migrations.operations.base.Operation] = []
