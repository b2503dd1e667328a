"""`manage.py startmachine`: writes a package with a machine, its migration, tests and a README."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.templates import TemplateCommand

import statecore

TEMPLATE = Path(statecore.__file__).parent / "framework" / "machine_template"


class Command(TemplateCommand):
    rewrite_template_suffixes = ((".py-tpl", ".py"), (".toml-tpl", ".toml"))
    help = "Write a package with a machine, its migration, tests and a README, to continue from."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="name of the package, such as `review`")
        parser.add_argument("folder", nargs="?", help="an existing folder; default: a new one, named as the package")

    def handle(self, *args: Any, **options: Any) -> None:
        name, folder = options.pop("name"), options.pop("folder")
        options |= {"extensions": ["py", "md", "toml"], "files": [], "exclude": None, "template": str(TEMPLATE)}
        super().handle("app", name, folder, collection=f"{name.replace('_', '-')}s", **options)
        self.stdout.write(f"wrote {folder or name}: its README.md describes how to run and to test it")
