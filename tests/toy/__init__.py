"""A fourteenth machine, one file, put beside the thirteen for as long as a test needs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from statecore import machines

if TYPE_CHECKING:
    from statecore.kernel.flow import Flow

FOLDER = str(Path(__file__).parent / "machines")
NAME = "turnstile"


@contextmanager
def in_the_folder(folder: str = FOLDER) -> Iterator[None]:
    """As if the file lay in statecore/machines/."""
    machines.__path__.append(folder)
    try:
        yield
    finally:
        machines.__path__.remove(folder)


@contextmanager
def loaded() -> Iterator[Flow]:
    """What Django does at start-up with every file of the folder; afterwards nobody knows of it."""
    from django.apps import apps

    from statecore.kernel import registry

    with in_the_folder():
        module = import_module(f"{machines.__name__}.{NAME}")
    try:
        yield module.Turnstile.flow
    finally:
        del sys.modules[module.__name__], machines.turnstile, registry._flows[NAME]
        del apps.all_models["statecore"][NAME]
        apps.clear_cache()


@contextmanager
def in_the_database() -> Iterator[Flow]:
    """With its table, as its migration would make it, and the triggers that come after each migrate."""
    from django.db import connection

    from statecore.kernel import triggers

    with loaded() as flow:
        with connection.schema_editor() as editor:
            editor.create_model(flow.model)
        triggers.install(connection)
        try:
            yield flow
        finally:
            with connection.schema_editor() as editor:
                editor.delete_model(flow.model)
                if connection.vendor == "postgresql":
                    editor.execute(f"DROP FUNCTION {triggers.PREFIX}{flow.model._meta.db_table}()")
