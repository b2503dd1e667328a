"""The git repositories to which patches are committed, by name. A phase names those that its workstreams may use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

# STATECORE_REPOSITORY, which phases and workstreams that name no repository use.
DEFAULT = "default"
NAME_LENGTH = 50
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,49}")


class RepositorySettings(NamedTuple):
    """A work tree, the branch on which it must be (any if empty), and the test that every patch must pass."""

    path: Path
    branch: str = ""
    test_command: str = ""


def get_all() -> Mapping[str, RepositorySettings]:
    """Return the settings of each repository, the default one first; empty if patches are left to integrators."""
    path = settings.STATECORE_REPOSITORY
    if path is None:
        return {}
    default = RepositorySettings(path, settings.STATECORE_REPOSITORY_BRANCH, settings.STATECORE_PATCH_TEST_COMMAND)
    return {DEFAULT: default, **settings.STATECORE_REPOSITORIES}
