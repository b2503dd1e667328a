"""An additional machine of one file, installed for the duration of a test."""

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
def in_the_folder() -> Iterator[None]:
    """Adds the folder of the turnstile to the package statecore.machines."""
    machines.__path__.append(FOLDER)
    try:
        yield
    finally:
        machines.__path__.remove(FOLDER)


@contextmanager
def loaded() -> Iterator[Flow]:
    """Imports the machine as Django does at start-up, and removes every trace of it afterwards."""
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
    """Creates the table that its migration would create, and the triggers that each migrate installs."""
    from django.db import connection

    from statecore.storage import triggers

    try:
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
    finally:
        triggers.install(connection)  # the trigger of the journal names every machine
