"""Django's command line with the settings of Statecore: `statecore manage`, and manage.py of a checkout."""

import os
import sys

from django.core.management import execute_from_command_line
from django.db import Error, OperationalError

from statecore.project import preflight
from statecore.project.refusal import Refused
from statecore.storage import database_errors


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
    try:
        execute_from_command_line(sys.argv)
    except Error as error:
        # A database that is unreachable or refuses changes is reported in one sentence; any other error is a bug.
        if isinstance(error, OperationalError):
            preflight.check_database()
        if (refusal := database_errors.to_refusal(error)) is not None:
            raise Refused(f"{refusal.detail}.") from None
        raise


if __name__ == "__main__":
    main()
