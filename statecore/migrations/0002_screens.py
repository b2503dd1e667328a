"""What pages over events filter by stands beside each position; an alert keeps the note of who has seen it."""

from typing import Any

from django.db import migrations, models

from statecore.kernel import triggers


def fill(apps: Any, schema_editor: Any) -> None:
    """Positions given before have no actor and no severity yet. The triggers come back at the end of each migrate."""
    triggers.remove(schema_editor.connection)
    columns = ("actor", "severity")
    found = "SELECT e.{0} FROM statecore_event AS e WHERE e.event_id = statecore_position.event_id"
    copied = ", ".join(f"{name} = coalesce(({found.format(name)}), '')" for name in columns)
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(f"UPDATE statecore_position SET {copied}")  # noqa: S608 - names of ours


class Migration(migrations.Migration):
    dependencies = [("statecore", "0002_api")]

    operations = [
        migrations.AddField("alert", "note", models.CharField(blank=True, default="", max_length=2000)),
        migrations.AddField("position", "actor", models.CharField(default="", max_length=150), preserve_default=False),
        migrations.AddField(
            "position", "severity", models.CharField(default="", max_length=16), preserve_default=False
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AddIndex("position", models.Index(fields=["actor", "position"], name="position_by_actor")),
        *(
            migrations.AddIndex(
                "position",
                models.Index(
                    fields=["position"], condition=models.Q(severity=severity), name=f"position_of_{severity}s"
                ),
            )
            for severity in ("warning", "error", "critical")
        ),
    ]
