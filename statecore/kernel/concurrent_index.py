"""An index for a migration that runs while others write: PostgreSQL builds it beside them, SQLite has one writer.

Django's own operation for this knows PostgreSQL alone. A migration that uses it says `atomic = False`.
"""

from __future__ import annotations

from typing import Any

from django.db.migrations import AddIndex
from django.db.migrations.state import ProjectState


class AddIndexConcurrently(AddIndex):
    atomic = False

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: Any) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.add_index(model, self.index, concurrently=True)
        else:
            schema_editor.add_index(model, self.index)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: Any) -> None:
        model = from_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.remove_index(model, self.index, concurrently=True)
        else:
            schema_editor.remove_index(model, self.index)
