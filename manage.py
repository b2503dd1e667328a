#!/usr/bin/env python
"""Django's command line for Statecore."""

import os
import sys

from statecore.project import preflight
from statecore.project.refusal import one_sentence


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
    with one_sentence():
        from django.core.management import execute_from_command_line
        from django.db import OperationalError

        try:
            execute_from_command_line(sys.argv)
        except OperationalError:
            # A database that cannot be reached is told in one sentence; any other error is a bug.
            preflight.check_database()
            raise


if __name__ == "__main__":
    main()
