"""The Merkle tree of RFC 6962: hashes, roots, and the verification of inclusion and consistency proofs.

Sequences of hashes are concatenated bytes. The leaf with index 0 is the event at position 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

HASH_SIZE = 32
EMPTY_ROOT = sha256(b"").digest()

Hashes = bytes
# Returns the root over the leaves from the first index up to, but not including, the second.
SubtreeRoot = Callable[[int, int], bytes]


def hash_leaf(content: bytes) -> bytes:
    return sha256(b"\x00" + content).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def compute_root(hashes: Hashes) -> bytes:
    """Returns the root over these hashes.

    Works level by level, where the last node of an odd level moves up unchanged; this gives the tree of RFC 6962.
    """
    if not hashes:
        return EMPTY_ROOT
    while len(hashes) > HASH_SIZE:
        paired = len(hashes) - len(hashes) % (2 * HASH_SIZE)
        nodes = [sha256(b"\x01" + hashes[at : at + 64]).digest() for at in range(0, paired, 64)]
        hashes = b"".join(nodes) + hashes[paired:]
    return hashes


def split_hashes(hashes: Hashes) -> list[bytes]:
    return [hashes[at : at + HASH_SIZE] for at in range(0, len(hashes), HASH_SIZE)]


def _split_size(size: int) -> int:
    """Returns the largest power of two below the size."""
    return 1 << ((size - 1).bit_length() - 1)


def prove_inclusion(index: int, size: int, subtree_root: SubtreeRoot) -> list[bytes]:
    """Returns the audit path of a leaf, from the bottom up."""
    first, last, path = 0, size, []
    while last - first > 1:
        middle = first + _split_size(last - first)
        if index < middle:
            path.append((middle, last))
            last = middle
        else:
            path.append((first, middle))
            first = middle
    return [subtree_root(*subtree) for subtree in reversed(path)]


def prove_consistency(old: int, new: int, subtree_root: SubtreeRoot) -> list[bytes]:
    """Returns the proof that the tree of the old size is a prefix of the tree of the new size."""
    if not 0 < old < new:
        return []
    return [subtree_root(*subtree) for subtree in _consistency_subtrees(old, new)]


def _consistency_subtrees(old: int, new: int) -> list[tuple[int, int]]:
    first, last, path, is_whole = 0, new, [], True
    while old != last:
        middle = first + _split_size(last - first)
        if old <= middle:
            path.append((middle, last))
            last = middle
        else:
            path.append((first, middle))
            first, is_whole = middle, False
    # The verifier knows the old root: the old tree needs no node if it is a complete subtree on the left edge.
    return ([] if is_whole else [(first, last)]) + path[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    if not 0 <= index < size:
        return False
    node, last, rest = leaf, size - 1, iter(path)
    while last:
        if index & 1 or index < last:
            sibling = next(rest, None)
            if sibling is None:
                return False
            node = hash_node(sibling, node) if index & 1 else hash_node(node, sibling)
        index, last = index >> 1, last >> 1
    return next(rest, None) is None and node == root


def verify_consistency(old: int, new: int, old_root: bytes, new_root: bytes, path: Sequence[bytes]) -> bool:
    """Whether the tree with the old root is a prefix of the tree with the new root."""
    if not 0 <= old <= new:
        return False
    if old == new:
        return not path and old_root == new_root
    if old == 0:
        return not path and old_root == EMPTY_ROOT
    if not path:
        return False
    rest = iter(path if old & (old - 1) else [old_root, *path])
    computed = _fold_consistency(old - 1, new - 1, rest)
    return computed == (old_root, new_root) and next(rest, None) is None


def _fold_consistency(index: int, last: int, rest: Iterator[bytes]) -> tuple[bytes, bytes] | None:
    """Returns the old and the new root that the path leads to, or None if it is too short."""
    while index & 1:
        index, last = index >> 1, last >> 1
    old = new = next(rest, b"")
    while last:
        if index & 1 or index < last:
            sibling = next(rest, None)
            if sibling is None:
                return None
            if index & 1:
                old, new = hash_node(sibling, old), hash_node(sibling, new)
            else:
                new = hash_node(new, sibling)
        index, last = index >> 1, last >> 1
    return old, new
