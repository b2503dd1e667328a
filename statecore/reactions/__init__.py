"""The rules between machines: what a change causes for other entities, in its transaction.

All reactions follow one locking protocol, so that no change is missed and no two transactions deadlock:

- A transaction changes its entity first, then locks the parent (a task its workstream, a workstream its run), then
  evaluates. The last of two tasks that complete at the same time therefore sees that it is the last.
- Locks on children and siblings are never awaited. Rows locked elsewhere are re-evaluated after the commit, in a
  transaction that holds nothing and may wait.
"""

from .dispatch import EDIT_REACTIONS, REACTIONS

__all__ = ["EDIT_REACTIONS", "REACTIONS"]
