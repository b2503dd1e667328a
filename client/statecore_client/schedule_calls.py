"""The calls of plan templates and schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .call import Call, build_path, call, drop_none, paged_call
from .connection import Connection
from .readers import read_as, read_page_of
from .records import Json, Occurrence, Page, Schedule, Template


class ScheduleCalls(Connection):
    @paged_call
    def list_templates(self, /, **filters: Any) -> Call[Page[Template]]:
        """Yields the newest version of each template."""
        return Call("GET", build_path("templates"), read_page_of(read_as(Template)), params=filters)

    @call
    def get_template(self, template_id: str, *, version: int | None = None) -> Call[Template]:
        """Returns a version of a template, the newest one by default."""
        params = drop_none(version=version)
        return Call("GET", build_path("templates", template_id), read_as(Template), params=params)

    @paged_call
    def list_template_versions(self, template_id: str) -> Call[Page[Template]]:
        """Yields the versions of a template, newest first."""
        return Call("GET", build_path("templates", template_id, "versions"), read_page_of(read_as(Template)))

    @call
    def store_template(
        self,
        template_id: str,
        plan: Mapping[str, Any],
        *,
        parameters: Mapping[str, Any] | None = None,
        description: str = "",
        is_new: bool = True,
        request_id: str | None = None,
    ) -> Call[Template]:
        """Stores the first version of a template, or the next one if it is not new."""
        body: Json = {"plan": dict(plan), "parameters": dict(parameters or {}), "description": description}
        path = build_path("templates") if is_new else build_path("templates", template_id, "versions")
        body |= {"id": template_id} if is_new else {}
        return Call("POST", path, read_as(Template), body=body, keyed=True, request_id=request_id)

    @paged_call
    def list_schedules(self, /, **filters: Any) -> Call[Page[Schedule]]:
        """Yields schedules by id; `template="nightly"` those of one template."""
        return Call("GET", build_path("schedules"), read_page_of(read_as(Schedule)), params=filters)

    @call
    def get_schedule(self, schedule_id: str) -> Call[Schedule]:
        """Returns one schedule with its next times."""
        return Call("GET", build_path("schedules", schedule_id), read_as(Schedule))

    @call
    def create_schedule(
        self, /, template: str, cron: str, *, request_id: str | None = None, **fields: Any
    ) -> Call[Schedule]:
        """Creates a schedule; `fields` are those of the REST call, such as `timezone` and `parameters`."""
        body = {"template": template, "cron": cron, **fields}
        return Call("POST", build_path("schedules"), read_as(Schedule), body=body, keyed=True, request_id=request_id)

    @call
    def edit_schedule(self, /, schedule_id: str, **fields: Any) -> Call[Schedule]:
        """Changes fields of a schedule."""
        return Call("PATCH", build_path("schedules", schedule_id), read_as(Schedule), body=fields)

    @call
    def pause_schedule(self, schedule_id: str, *, reason: str, request_id: str | None = None) -> Call[Schedule]:
        """Pauses a schedule: nothing occurs until it is resumed."""
        path = build_path("schedules", schedule_id, "pause")
        return Call("POST", path, read_as(Schedule), body={"reason": reason}, keyed=True, request_id=request_id)

    @call
    def resume_schedule(self, schedule_id: str, *, reason: str, request_id: str | None = None) -> Call[Schedule]:
        """Resumes a schedule with its next occurrence after now."""
        path = build_path("schedules", schedule_id, "resume")
        return Call("POST", path, read_as(Schedule), body={"reason": reason}, keyed=True, request_id=request_id)

    @call
    def run_schedule(self, schedule_id: str, *, request_id: str | None = None) -> Call[Occurrence]:
        """Lets a schedule occur now; its run is submitted a few seconds later."""
        path = build_path("schedules", schedule_id, "run")
        return Call("POST", path, read_as(Occurrence), body={}, keyed=True, request_id=request_id)

    @paged_call
    def list_occurrences(self, schedule_id: str, /, **filters: Any) -> Call[Page[Occurrence]]:
        """Yields the occurrences of a schedule, newest first; `outcome="failed"` those without a run."""
        path = build_path("schedules", schedule_id, "occurrences")
        return Call("GET", path, read_page_of(read_as(Occurrence)), params=filters)
