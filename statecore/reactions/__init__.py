"""What follows from a change: the rules between machines, in the transaction of the change that caused them.

Everybody keeps to one protocol, so that nothing is overlooked and nobody waits in a circle:

- Change yourself, then lock what you belong to (a task its workstream, a workstream its run), then look around. So the
  last of two tasks that finish at the same moment sees that it is the last.
- Whom else you want to move you lock only if nobody holds it. Whom you had to leave out you look at once more as soon
  as you have committed, when you hold nothing any more and may wait.
"""

from .follow import follow

__all__ = ["follow"]
