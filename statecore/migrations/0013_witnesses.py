from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    """Cosignatures are stored with their checkpoint; the table of witnesses was never used."""

    safe_because = "no version has written to the table or read it"

    dependencies = [("statecore", "0012_archive_names")]

    operations = [migrations.DeleteModel(name="Witness")]
