"""Webhooks: what is sent, in which order, to which addresses, and what follows when a receiver fails."""
