"""The list of sinks that the sequencer feeds."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

from statecore.delivery import sinks
from statecore.delivery.sinks import Sink, create_sinks

pytestmark = pytest.mark.once_on("sqlite")  # they use no database


def declared_sinks() -> set[type[Sink]]:
    """Imports every module of the package and returns its sinks."""
    modules = [import_module(f"{sinks.__name__}.{module.name}") for module in iter_modules(sinks.__path__)]
    found = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    return {each for each in found if issubclass(each, Sink) and each is not Sink}


def test_every_declared_sink_is_fed() -> None:
    missing = declared_sinks() - {type(sink) for sink in create_sinks()}
    names = ", ".join(sorted(each.__name__ for each in missing))
    assert not missing, f"add {names} to create_sinks() in statecore/delivery/sinks/__init__.py"


def test_sink_names_are_unique() -> None:
    names = [sink.name for sink in create_sinks()]
    assert len(set(names)) == len(names)
