"""How fast the door is, measured against what it is built on and what it could be replaced by."""
