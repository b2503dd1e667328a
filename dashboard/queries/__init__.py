"""Read-only queries of the pages: bounded, keyset-paged, and never a full count of a large table."""
