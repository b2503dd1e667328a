"""The executors, with real commands and real git repositories."""
