"""What follows from a change: the rules between machines, in the transaction of the change that caused them.

Everybody keeps to one protocol, so that nothing is overlooked and nobody waits in a circle: change yourself, take the
lock of the run, look around. Whom you cannot lock is being changed by somebody who will take that lock after you, and
will look around then. So the last of two tasks that finish at the same moment sees that it is the last.
"""

from .follow import follow

__all__ = ["follow"]
