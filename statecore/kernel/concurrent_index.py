"""An index for a migration that runs while others write: PostgreSQL builds it beside them, SQLite has one writer.

Django's own operation for this knows PostgreSQL alone. A migration that uses it says `atomic = False`, so what an
interrupted one has done stays done: both ways can be gone again from wherever it stopped.
"""

from __future__ import annotations

from typing import Any

from django.db.migrations import AddIndex
from django.db.migrations.state import ProjectState


class AddIndexConcurrently(AddIndex):
    atomic = False

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: Any) -> None:
        # One that PostgreSQL did not finish is there under its name, and used by nobody.
        self._drop(schema_editor)
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.add_index(model, self.index, concurrently=True)
        else:
            schema_editor.add_index(model, self.index)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: Any) -> None:
        self._drop(schema_editor)

    def _drop(self, schema_editor: Any) -> None:
        beside_writers = "CONCURRENTLY " if schema_editor.connection.vendor == "postgresql" else ""
        schema_editor.execute(f"DROP INDEX {beside_writers}IF EXISTS {schema_editor.quote_name(self.index.name)}")
