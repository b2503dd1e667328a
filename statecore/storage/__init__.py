"""Database access below the ORM, for PostgreSQL and SQLite: write guard, triggers, scans, drivers, SQL helpers."""
