"""The progress of a pipeline job in a phase, so that a resumed job need not start over."""

from __future__ import annotations

from typing import Any

from django.db import models, transaction

from ..kernel.clock import now, rfc3339
from ..kernel.ids import is_valid_id
from ..kernel.refusals import Invalid, NotFound, TerminalState
from ..kernel.validation import validate_payload

PAYLOAD_LIMIT = 1_048_576


class Checkpoint(models.Model):
    job = models.ForeignKey("statecore.PipelineJob", models.PROTECT, related_name="checkpoints")
    phase = models.CharField(max_length=64)
    payload = models.JSONField()
    updated_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=("job", "phase"), name="checkpoint_one_per_job_and_phase"),)

    def __str__(self) -> str:
        return f"{self.job_id} {self.phase}"

    def as_dict(self) -> dict[str, Any]:
        """Serialise for JSON; `job` is the job that stored it, possibly a predecessor of the reading job."""
        return {**self.summarize(), "payload": self.payload}

    def summarize(self) -> dict[str, Any]:
        return {"job": self.job_id, "phase": self.phase, "updated_at": rfc3339(self.updated_at)}


def _jobs() -> Any:
    model: Any = Checkpoint._meta.get_field("job").related_model
    return model.objects


def store(job_id: str, phase: str, payload: object) -> Checkpoint:
    """Store a phase's progress in place of earlier progress.

    Raises Invalid for a wrong phase or payload, NotFound for an unknown job, TerminalState for a finished one.
    """
    plain = validate_payload(payload, PAYLOAD_LIMIT)
    if not is_valid_id(phase):
        raise Invalid({"phase": ["must be 1 to 64 of A-Z a-z 0-9 . _ : -"]})
    with transaction.atomic():
        job = _jobs().select_for_update(no_key=True).filter(pk=job_id).first()
        if job is None:
            raise NotFound(f"there is no pipeline_job {job_id!r}")
        if job.flow.is_final(job.state):
            raise TerminalState(f"{job} is {job.state}, which is final", state=job.state, version=job.version)
        at = now()
        checkpoint, _is_new = Checkpoint.objects.update_or_create(
            job=job, phase=phase, defaults={"payload": plain, "updated_at": at}
        )
        _jobs().filter(pk=job_id).update(last_heartbeat=at)
    return checkpoint


def read(job_id: str, phase: str) -> Checkpoint | None:
    """Return the checkpoint of the job, or of the nearest predecessor that has one."""
    line = list_lineage(job_id)
    found = {checkpoint.job_id: checkpoint for checkpoint in Checkpoint.objects.filter(job__in=line, phase=phase)}
    return next((found[ancestor] for ancestor in line if ancestor in found), None)


def list_all(job_id: str) -> list[Checkpoint]:
    """Return the checkpoint of each phase, oldest first: of the job, or of the nearest predecessor that has one."""
    line = list_lineage(job_id)
    by_phase: dict[str, Checkpoint] = {}
    for found in sorted(Checkpoint.objects.filter(job__in=line), key=lambda each: line.index(each.job_id)):
        by_phase.setdefault(found.phase, found)
    return sorted(by_phase.values(), key=lambda each: (each.updated_at, each.phase))


def clear(job_id: str, phase: str | None = None) -> int:
    """Delete the checkpoints of a phase, or of all phases, of the job and its predecessors; return their number."""
    kept = Checkpoint.objects.filter(job__in=list_lineage(job_id))
    deleted, _by_model = (kept if phase is None else kept.filter(phase=phase)).delete()
    return deleted


def clear_when_done(work: Any, changes: list[Any]) -> None:
    """Clear the checkpoints of completed jobs; failed jobs keep them for a retry."""
    for change in changes:
        if change.entry.to_state in change.entity.flow.done:
            work.flush()
            clear(change.entry.entity_id)


def list_lineage(job_id: str) -> list[str]:
    """Return the ids of the job and its predecessors, nearest first."""
    line: list[str] = []
    ancestor: str | None = job_id
    while ancestor is not None:
        line.append(ancestor)
        ancestor = _jobs().filter(pk=ancestor).values_list("retry_of", flat=True).first()
    return line
