"""The Python client of Statecore: every call of the REST API, as a synchronous and an asynchronous client.

    with Client("https://statecore.example", token="…") as statecore:
        task = statecore.get("tasks", "t1")

It does not import Django and can be used in any Python program. The server uses parts of this package that need no HTTP
client, so the names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .exports import *  # noqa: F403 - every name of __all__
else:

    def __getattr__(name: str) -> object:
        exports = import_module(".exports", __name__)
        if name in exports.__all__:
            return getattr(exports, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
