"""Out of the database and back."""
