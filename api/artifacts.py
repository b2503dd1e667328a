"""Artifacts of tasks: list them; store, read and delete one by name."""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpResponse
from django.http.request import UnreadablePostError

from statecore.artifacts import changes, limits, store, upload
from statecore.artifacts.changes import Place
from statecore.kernel.ids import is_valid_id
from statecore.kernel.refusals import Invalid, NotFound
from statecore.machines.task import State, Task
from statecore.read_models import inputs
from statecore.records import artifact as artifacts
from statecore.records.artifact import Artifact as StoredArtifact
from statecore.transitions.successors import newest

from .access import actor_of, agent_of, has_permission, require_permission
from .downloads import describe_headers, file_response, is_known
from .openapi.fields import TIME
from .openapi.operation import BINARY, BYTES, operation, query
from .openapi.schemas import COUNT, FLAG, INPUTS, STRING, component, obj, page_of
from .query_params import RequestParams
from .refusals import SIZE_NEEDED, LengthRequired
from .request import Request
from .responses import json_response
from .views import ApiView

ARTIFACT = component(
    "Artifact",
    obj({
        "task": STRING, "name": STRING, "size": COUNT, "sha256": STRING, "content_type": STRING, "attempt": COUNT,
        "stored_by": STRING, "stored_at": TIME,
    }),
    "A file that a task keeps by name.",
)  # fmt: skip
NEWEST = query("newest", FLAG, "Of the newest task that succeeds this one.")
ATTEMPT = query("attempt", {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, "Required of agents.")


class TaskArtifacts(ApiView):
    """A view of the artifacts of a task, which an agent that works on the task or on a dependent may always read."""

    flow = Task.flow
    checks_permission_later = True

    def find_task(self, request: Request, task_id: str) -> str:
        """Return the id of the task, or with `newest` of its newest successor. Raises NotFound, PermissionDenied."""
        follow = self.params(request).get_flag("newest")
        known = is_valid_id(task_id) and Task.objects.filter(pk=task_id).exists()
        found = newest(Task, task_id) if follow and known else task_id
        if not has_permission(request, self.read_permission) and not _works_with(request, {task_id, found}):
            require_permission(request, self.read_permission)
        if not known:
            raise NotFound(f"there is no task {task_id!r}")
        return found


def _works_with(request: Request, task_ids: set[str]) -> bool:
    """Whether the caller is the agent that runs one of these tasks, or a task that depends on one."""
    actor = agent_of(request)
    held = Task.objects.filter(holder=actor.identity, state=State.RUNNING)
    return actor.holds and held.filter(Q(pk__in=task_ids) | Q(depends_on__in=task_ids)).exists()


class Inputs(TaskArtifacts):
    route = "tasks/<str:task_id>/inputs/"

    @operation(
        "Read the results of the dependencies of a task, by their ids",
        {200: INPUTS},
        params=[NEWEST],
        name="get_inputs",
    )
    def get(self, request: Request, task_id: str) -> HttpResponse:
        task = Task.objects.get(pk=self.find_task(request, task_id))
        return json_response(inputs.read_inputs([task])[task.pk])


class Artifacts(TaskArtifacts):
    route = "tasks/<str:task_id>/artifacts/"

    @operation(
        "List the artifacts of a task by name",
        {200: page_of(ARTIFACT)},
        params=[NEWEST],
        name="list_artifacts",
        is_whole=True,
    )
    def get(self, request: Request, task_id: str) -> HttpResponse:
        found = artifacts.list_of(self.find_task(request, task_id))
        return json_response({"next": None, "previous": None, "results": [each.as_dict() for each in found]})


class Artifact(TaskArtifacts):
    route = "tasks/<str:task_id>/artifacts/<str:name>"
    name = "artifact"

    @operation(
        "Download an artifact",
        {200: None, 206: None, 304: None},
        params=[NEWEST],
        other_types={BYTES: BINARY},
        refusals=(416,),
        description="The response has an `ETag`, and `Repr-Digest` with the SHA-256. `If-None-Match` and a single "
        "`Range` of bytes are supported.",
        name="get_artifact",
        is_written=True,
    )
    def get(self, request: Request, task_id: str, name: str) -> HttpResponse:
        task_id = self.find_task(request, task_id)
        rows = StoredArtifact.objects.filter(task=task_id, name=name) if "\0" not in name else []
        found = next(iter(rows), None)
        if found is None:
            raise NotFound(f"task {task_id} has no artifact {name!r}")
        content = found.content
        headers = describe_headers(found.name, content.sha256, found.content_type)
        if is_known(request, headers["ETag"]):
            return HttpResponse(status=304, headers=headers)
        if request.method == "HEAD":
            return HttpResponse(headers={**headers, "Content-Length": str(content.size)})
        return file_response(request, store.open_content(content.name), content.size, headers)

    @operation(
        "Store an artifact under a name, in place of an earlier one",
        {200: ARTIFACT, 201: ARTIFACT},
        params=[ATTEMPT],
        takes_bytes=True,
        refusals=(409, 411),
        description="The body is the content, of any media type; `Content-Length` is required. Agents store artifacts "
        "of tasks that they hold, with the current attempt. Repeating the call changes nothing.",
        name="put_artifact",
        is_written=True,
    )
    def put(self, request: Request, task_id: str, name: str) -> HttpResponse:
        require_permission(request, self.write_permission)
        place, length = _read_place(self.params(request), task_id, name), _read_length(request)
        limits.check_size(length)
        changes.check_before_upload(place, length)
        try:
            with upload.receive(request.read, length) as received:
                stored = changes.put(place, received)
        except UnreadablePostError as error:
            raise Invalid({"body": ["could not be read to its end."]}) from error
        return json_response(stored.artifact.as_dict(), 201 if stored.is_new else 200)

    @operation(
        "Delete an artifact", {204: None}, params=[ATTEMPT], refusals=(409,), name="delete_artifact", is_written=True
    )
    def delete(self, request: Request, task_id: str, name: str) -> HttpResponse:
        require_permission(request, self.write_permission)
        changes.delete(_read_place(self.params(request), task_id, name))
        return HttpResponse(status=204)


def _read_place(params: RequestParams, task_id: str, name: str) -> Place:
    if not is_valid_id(task_id):
        raise NotFound(f"there is no task {task_id!r}")
    request, attempt = params.request, params.get_number("attempt")
    content_type = request.META.get("CONTENT_TYPE") or ""
    return Place(task_id, name, actor_of(request), attempt, content_type if request.method == "PUT" else "")


def _read_length(request: Request) -> int:
    """A body of unknown length is refused: its limits could be checked only after it was received."""
    text = str(request.META.get("CONTENT_LENGTH") or "")
    if "HTTP_TRANSFER_ENCODING" in request.META or (text and not text.isdigit()):
        raise LengthRequired(SIZE_NEEDED)
    return int(text or 0)
