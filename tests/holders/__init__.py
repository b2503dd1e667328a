"""Holders: agents report only on their own work, and no account approves what it has made."""
