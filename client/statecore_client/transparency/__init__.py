"""Proofs about the journal that need neither a server nor Django: Merkle tree, signed checkpoints, cosignatures.

Hashing follows RFC 6962, the texts follow C2SP `signed-note`, `tlog-checkpoint`, `tlog-cosignature` and `tlog-witness`.
"""
