"""Django's backend for PostgreSQL, with one habit less."""
