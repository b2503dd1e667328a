"""Running an installation: backup, retention, integrity checks and the doctor."""
