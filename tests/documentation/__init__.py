"""The pages: what they say is so."""
