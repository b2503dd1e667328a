"""The Merkle tree: the known answers of RFC 6962, and proofs of every size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statecore_client.transparency.merkle import (
    EMPTY_ROOT,
    compute_root,
    hash_leaf,
    prove_consistency,
    prove_inclusion,
    verify_consistency,
    verify_inclusion,
)

# The inputs and answers of the reference implementation of Certificate Transparency.
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEFT = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
RIGHT = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
FIFTH = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
SECOND = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
PAIR = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
LEAVES = b"".join(hash_leaf(bytes.fromhex(text)) for text in INPUTS)
MANY = b"".join(hash_leaf(str(number).encode()) for number in range(70))


def root_of(leaves: bytes, start: int, end: int) -> bytes:
    return compute_root(leaves[32 * start : 32 * end])


def hexes(path: list[bytes]) -> list[str]:
    return [node.hex() for node in path]


@pytest.mark.parametrize("size", range(1, 9))
def test_roots_are_those_of_the_reference_implementation(size: int) -> None:
    assert compute_root(LEAVES[: 32 * size]).hex() == ROOTS[size - 1]


def test_the_root_of_no_leaves_is_the_hash_of_nothing() -> None:
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


INCLUSION = {(0, 8): [SECOND, LEFT, RIGHT], (5, 8): [FIFTH, PAIR, ROOTS[3]], (2, 3): [ROOTS[1]], (0, 1): []}


@pytest.mark.parametrize(("index", "size"), INCLUSION)
def test_inclusion_proofs_are_those_of_the_reference_implementation(index: int, size: int) -> None:
    path = prove_inclusion(index, size, lambda *ends: root_of(LEAVES, *ends))

    assert hexes(path) == INCLUSION[index, size]


CONSISTENCY = {
    (1, 8): [SECOND, LEFT, RIGHT],
    (6, 8): ["0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a", PAIR, ROOTS[3]],
    (2, 5): [LEFT, FIFTH],
    (3, 3): [],
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), CONSISTENCY)
def test_consistency_proofs_are_those_of_the_reference_implementation(old: int, new: int) -> None:
    path = prove_consistency(old, new, lambda *ends: root_of(LEAVES, *ends))

    assert hexes(path) == CONSISTENCY[old, new]


def test_every_inclusion_proof_verifies_at_its_index_only() -> None:
    for size in range(1, 70):
        root = root_of(MANY, 0, size)
        for index in range(size):
            leaf, path = MANY[32 * index : 32 * index + 32], prove_inclusion(index, size, lambda *e: root_of(MANY, *e))
            assert verify_inclusion(leaf, index, size, path, root)
            assert not verify_inclusion(leaf, index + 1, size, path, root)
            assert not verify_inclusion(leaf, index, size, [*path, root], root)
            assert size == 1 or not verify_inclusion(leaf, index, size, path[:-1], root)


def test_every_consistency_proof_verifies() -> None:
    for new in range(70):
        for old in range(new + 1):
            path = prove_consistency(old, new, lambda *ends: root_of(MANY, *ends))
            assert verify_consistency(old, new, root_of(MANY, 0, old), root_of(MANY, 0, new), path)


@given(st.integers(1, 69), st.integers(0, 69), st.integers(0, 68))
def test_no_path_proves_that_a_changed_tree_grew(new: int, old: int, changed: int) -> None:
    old, changed = min(old, new) or 1, changed % (min(old, new) or 1)
    forged = MANY[: 32 * changed] + bytes(32) + MANY[32 * changed + 32 :]
    roots = root_of(MANY, 0, old), root_of(forged, 0, new)

    for leaves in (MANY, forged):
        path = prove_consistency(old, new, lambda *ends, leaves=leaves: root_of(leaves, *ends))
        assert not verify_consistency(old, new, *roots, path)
