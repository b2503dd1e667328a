"""The worker framework: typed functions that are called for tasks.

worker = Worker("builder", capabilities=["python"])

@worker.task("build")
async def build(ctx: Context, spec: BuildSpec) -> BuildResult: ...

worker.run()
"""

from .context import Cancelled, Context, TaskFailed
from .worker import Worker

__all__ = ["Cancelled", "Context", "TaskFailed", "Worker"]
