"""Django's command line with the settings of Statecore: `statecore manage`, and manage.py of a checkout."""

import os
import sys

from django.core.management import execute_from_command_line
from django.db import OperationalError

from statecore.project import preflight


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
    try:
        execute_from_command_line(sys.argv)
    except OperationalError:
        # An unreachable database is reported in one sentence; any other error is a bug.
        preflight.check_database()
        raise


if __name__ == "__main__":
    main()
