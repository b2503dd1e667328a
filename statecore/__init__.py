"""Protected state machines: states change only by legal, recorded transitions."""

from statecore_client.version import __version__ as __version__
