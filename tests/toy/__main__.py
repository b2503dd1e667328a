"""manage.py with an additional machine, the turnstile."""

import os
import sys

from django.core.management import execute_from_command_line

from tests.toy import in_the_folder

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
with in_the_folder():
    execute_from_command_line(["manage.py", *sys.argv[1:]])
