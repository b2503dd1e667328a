"""The Merkle tree over the positions, stored so that roots and proofs of any size read a few rows.

A tile has 256 hashes. On level 0 these are leaves: the hashes of the events' canonical bytes, by position. On the next
level each hash is the root of a complete tile of the level below. A row contains consecutive hashes of one tile, so
that a busy journal needs few rows and no row ever changes. Leaves remain when their events are archived.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection, models

from statecore_client.transparency.merkle import HASH_SIZE, Hashes, compute_root, split_hashes

from ..storage.write_guard import allow_writes

TILE_BITS = 8
TILE_SIZE = 1 << TILE_BITS


class TreeHashes(models.Model):
    append_only = True

    level = models.PositiveSmallIntegerField()
    # The index of the first of these hashes on its level; on level 0 the position of its event, less one.
    first = models.BigIntegerField()
    hashes = models.BinaryField()

    class Meta:
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("level", "first"), name="tree_hash_is_unique"),)

    def __str__(self) -> str:
        return f"level {self.level} from {self.first}"


# In SQL, because the sequencer does this in each round, and the ORM takes several times as long.
INSERT = f"INSERT INTO {TreeHashes._meta.db_table} (level, first, hashes) VALUES (%s, %s, %s)"  # noqa: S608


class Frontier:
    """The incomplete tile of each level: all that is needed to extend the tree and to compute its root."""

    def __init__(self, size: int, tiles: list[Hashes]) -> None:
        self.size, self.tiles = size, tiles

    @classmethod
    def load(cls, size: int | None = None) -> Frontier:
        """Returns the frontier of the stored tree, or of an earlier size."""
        size = tree_size() if size is None else size
        tiles, count, level = [], size, 0
        while count:
            tiles.append(read_tile(level, count >> TILE_BITS)[: count % TILE_SIZE * HASH_SIZE])
            count, level = count >> TILE_BITS, level + 1
        return cls(size, tiles)

    def root(self) -> bytes:
        node = b""
        for hashes in self.tiles:
            if hashes or node:
                node = compute_root(hashes + node)
        return compute_root(node)

    def extend(self, leaves: Hashes) -> Iterator[TreeHashes]:
        """Yields the rows that these leaves add to the tree."""
        first, level = self.size, 0
        self.size += len(leaves) // HASH_SIZE
        added = leaves
        while added:
            if level == len(self.tiles):
                self.tiles.append(b"")
            above = []
            for run_first, run in _split_at_tiles(first, added):
                yield TreeHashes(level=level, first=run_first, hashes=run)
                self.tiles[level] += run
                if len(self.tiles[level]) == TILE_SIZE * HASH_SIZE:
                    above.append(compute_root(self.tiles[level]))
                    self.tiles[level] = b""
            added, first, level = b"".join(above), first >> TILE_BITS, level + 1


def _split_at_tiles(first: int, hashes: Hashes) -> Iterator[tuple[int, Hashes]]:
    start = 0
    while start < len(hashes):
        room = (TILE_SIZE - (first + start // HASH_SIZE) % TILE_SIZE) * HASH_SIZE
        yield first + start // HASH_SIZE, hashes[start : start + room]
        start += room


def append_leaves(frontier: Frontier, leaves: Hashes) -> None:
    """Stores the leaves that follow. The caller holds the transaction and reloads the frontier if it fails."""
    with allow_writes(connection), connection.cursor() as cursor:
        for row in frontier.extend(leaves):
            cursor.execute(INSERT, [row.level, row.first, bytes(row.hashes)])


def tree_size() -> int:
    """Returns the number of positions in the tree."""
    last = TreeHashes.objects.filter(level=0).order_by("-first").first()
    return last.first + len(last.hashes) // HASH_SIZE if last else 0


def read_tile(level: int, index: int) -> Hashes:
    """Returns the stored hashes of a tile; fewer than 256 at the right edge of the tree."""
    return read_hashes(level, index * TILE_SIZE, (index + 1) * TILE_SIZE)


def read_hashes(level: int, start: int, end: int) -> Hashes:
    """Returns the stored hashes of a level from one index up to another; `start` must begin a tile."""
    rows = TreeHashes.objects.filter(level=level, first__gte=start, first__lt=end).order_by("first")
    stored = b"".join(bytes(hashes) for hashes in rows.values_list("hashes", flat=True))
    return stored[: (end - start) * HASH_SIZE]


def read_leaves(first: int, last: int) -> list[bytes]:
    """Returns the leaf of each position in a range that is in the tree."""
    start = (first - 1) // TILE_SIZE * TILE_SIZE
    return split_hashes(read_hashes(0, start, last)[(first - 1 - start) * HASH_SIZE :])


def compute_subtree_root(start: int, end: int) -> bytes:
    """Returns the root over the leaves from one index up to another.

    As in every proof, `start` is a multiple of the smallest power of two that is not less than the length, so each
    level contributes hashes of one tile only.
    """
    level = 0
    while end - start > 1 << TILE_BITS * (level + 1):
        level += 1
    first, last = start >> TILE_BITS * level, end >> TILE_BITS * level
    rest = last << TILE_BITS * level
    tile = read_tile(level, first >> TILE_BITS)
    offset = first % TILE_SIZE
    hashes = tile[offset * HASH_SIZE : (offset + last - first) * HASH_SIZE]
    return compute_root(hashes + (compute_subtree_root(rest, end) if rest < end else b""))


def compute_root_at(size: int) -> bytes:
    return Frontier.load(size).root()
