"""An agent with the client that openapi-python-client generated: registers, claims one task, completes it."""

import sys

from generated import AuthenticatedClient
from generated.api.tasks import post_tasks_entity_id_transitions as fire
from generated.api.workers import post_workers as register
from generated.api.workers import post_workers_worker_id_claim as claim
from generated.models import Claim, Claimed, NewWorker, TaskExecutionCompleted, TaskTransitionResult

url, token, name = sys.argv[1:]
with AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True) as client:
    registered = register.sync(client=client, body=NewWorker(id=name, capabilities=["python"]))
    claimed = claim.sync(name, client=client, body=Claim(max_=1))
    assert isinstance(claimed, Claimed), (registered, claimed)
    (task,) = claimed.tasks
    done = TaskExecutionCompleted(
        trigger="execution_completed", attempt=task.attempt, exit_code=0, output=f"built by {name}"
    )
    reported = fire.sync(task.id, client=client, body=done)
    assert isinstance(reported, TaskTransitionResult), reported
    print(reported.entity.id, reported.entity.state)
