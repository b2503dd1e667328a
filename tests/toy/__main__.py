"""manage.py with a fourteenth file in the folder of the machines."""

import sys

from django.core.management import execute_from_command_line

from tests.toy import in_the_folder

with in_the_folder():
    execute_from_command_line(["manage.py", *sys.argv[1:]])
