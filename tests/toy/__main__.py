"""manage.py with a fourteenth file in the folder of the machines: ours, or the one in the folder that is named."""

import os
import sys

from django.core.management import execute_from_command_line

from tests.toy import FOLDER, in_the_folder

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "statecore.project.settings")
with in_the_folder(os.environ.get("STATECORE_TEST_MACHINES", FOLDER)):
    execute_from_command_line(["manage.py", *sys.argv[1:]])
