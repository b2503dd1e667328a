"""Who gets which work, and when."""
