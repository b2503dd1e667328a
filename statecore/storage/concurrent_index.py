"""A migration operation that adds an index without blocking writes.

Django's AddIndexConcurrently supports only PostgreSQL. A migration that uses this one sets `atomic = False`, so an
interrupted migration is not rolled back; both directions can be repeated from wherever it stopped.
"""

from __future__ import annotations

from typing import Any

from django.db.migrations import AddIndex
from django.db.migrations.state import ProjectState


class AddIndexConcurrently(AddIndex):
    atomic = False

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: Any) -> None:
        # An interrupted build leaves an invalid index under the same name.
        self._drop(schema_editor)
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.add_index(model, self.index, concurrently=True)
        else:
            schema_editor.add_index(model, self.index)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: Any) -> None:
        self._drop(schema_editor)

    def _drop(self, schema_editor: Any) -> None:
        concurrently = "CONCURRENTLY " if schema_editor.connection.vendor == "postgresql" else ""
        schema_editor.execute(f"DROP INDEX {concurrently}IF EXISTS {schema_editor.quote_name(self.index.name)}")
