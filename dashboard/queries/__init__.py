"""What the pages read: bounded, keyset-paged, never a count over a big table, never a write."""
