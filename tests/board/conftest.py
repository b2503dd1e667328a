from tests.sinks.conftest import home

__all__ = ["home"]
