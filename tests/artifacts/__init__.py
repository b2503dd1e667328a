"""Artifacts: contents in the storage, changes over REST, downloads, retention."""
