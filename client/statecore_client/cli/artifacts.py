"""`artifacts` and `artifact`: list, store, read and delete the files that a task keeps by name."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from ..artifact_calls import OPAQUE
from ..transfer import replacing
from . import own_task
from .context import Context
from .errors import CommandError, Exit
from .verbs import Columns, Verb, add_verbs

COLUMNS: Columns = {
    "name": "name", "bytes": "size", "type": "content_type", "sha256": lambda each: each.sha256[:16],
    "stored": "stored_at",
}  # fmt: skip


def add_commands(commands: Any) -> None:
    listing = "list the artifacts of a task"
    add_verbs(commands, Verb("artifacts", "list_artifacts", listing, columns=COLUMNS, noun="artifacts"))
    artifact = commands.add_parser("artifact", help="store, read or delete an artifact of a task")
    actions = artifact.add_subparsers(dest="action", required=True, metavar="ACTION")
    put = actions.add_parser("put", help="store a file")
    put.add_argument("file", help="its path")
    put.add_argument("--name", help="the name of the artifact; default: that of the file")
    put.add_argument("--type", default=OPAQUE, metavar="MEDIA_TYPE", help="its media type (%(default)s)")
    _add_task_options(put)
    put.set_defaults(run=put_artifact)
    get = actions.add_parser("get", help="save the content")
    get.add_argument("task", help="the id of the task")
    get.add_argument("name", help="the name of the artifact")
    get.add_argument("--output", metavar="FILE", help="the file, - for standard output; default: the name")
    get.add_argument("--newest", action="store_true", help="of the newest task that succeeds it")
    get.set_defaults(run=get_artifact)
    delete = actions.add_parser("delete", help="delete an artifact")
    delete.add_argument("name", help="the name of the artifact")
    _add_task_options(delete)
    delete.set_defaults(run=delete_artifact)


def _add_task_options(parser: Any) -> None:
    parser.add_argument("--task", help=f"the task ({own_task.TASK})")
    parser.add_argument("--attempt", type=int, metavar="N", help=f"the attempt, for agents ({own_task.ATTEMPT})")


def put_artifact(options: Namespace, context: Context) -> None:
    task, attempt = _read_task(options)
    path = Path(options.file)
    try:
        file = path.open("rb")
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}", Exit.INVALID) from None
    with file:
        stored = context.client.put_artifact(
            task, options.name or path.name, file, attempt=attempt, content_type=options.type
        )
    if context.as_json:
        context.print_json(stored)
    else:
        context.print_line(f"{stored.task}/{stored.name}: {stored.size} bytes, sha256 {stored.sha256}")


def get_artifact(options: Namespace, context: Context) -> None:
    client = context.client
    if options.output == "-":
        sys.stdout.buffer.write(client.get_artifact(options.task, options.name, newest=options.newest))
        return
    path = Path(options.output or options.name)
    try:
        with replacing(path) as file:
            client.save_artifact(options.task, options.name, file, newest=options.newest)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}", Exit.INVALID) from None
    context.print_note(f"saved {path}")


def delete_artifact(options: Namespace, context: Context) -> None:
    task, attempt = _read_task(options)
    context.client.delete_artifact(task, options.name, attempt=attempt)
    context.print_note(f"deleted {options.name} of task {task}")


def _read_task(options: Namespace) -> tuple[str, int | None]:
    task, attempt = own_task.complete(options.task, options.attempt)
    if task is None:
        raise CommandError(f"name the task: --task, or {own_task.TASK}", Exit.USAGE)
    return task, attempt
