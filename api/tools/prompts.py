"""Prompts that explain to a language model how to work with the tools."""

from __future__ import annotations

import mcp_types

WORK = mcp_types.Prompt(
    name="work",
    title="Work on tasks",
    description="How an agent registers, claims tasks, hands in patches and reports.",
    arguments=[
        mcp_types.PromptArgument(
            name="capabilities", description="what you can do, separated by commas, such as python,docs", required=False
        )
    ],
)
LOOP = """You work on tasks of Statecore{capabilities}. Repeat these steps until no task is left:

1. Call `register_worker` once, with your capabilities, and keep the id.
2. Call `claim_task` with the id of the worker. If the list is empty, there is nothing to do: wait, then claim again.
   Keep the `id` and the `attempt` of the task. `payload` says what to do, and `inputs` has the results of the tasks
   that it depends on. If `previous` is not null, an earlier attempt failed: read its `error` and `output` first, and do
   not repeat its mistake.
3. Do the work. Call `heartbeat` at least every 30 seconds. If its `commands` contain `cancel` with the id of your task,
   stop at once and report nothing. If they contain `shutdown`, stop and leave.
4. If the work is a change of files, call `submit_patch` with a unified diff before you report. The task then
   completes when its patch has passed its tests.
5. Call `complete_task` with the output if the work succeeded, and with a `result` if other tasks need a value from it;
   otherwise `fail_task` with the error. Never report success for work that you have not verified.

A refusal changes nothing. `lease_lost` means that the task was taken from you: drop the work and claim the next one.
If you do not know why something waits, call `explain`. States that need an operator's decision are not yours to change:
say what is needed and continue with another task."""


def list_prompts() -> mcp_types.ListPromptsResult:
    return mcp_types.ListPromptsResult(prompts=[WORK])


def get_prompt(name: str, arguments: dict[str, str]) -> mcp_types.GetPromptResult | None:
    """Return the text of a prompt; None if there is no such prompt."""
    if name != WORK.name:
        return None
    given = arguments.get("capabilities", "").strip()
    text = LOOP.format(capabilities=f" with the capabilities {given}" if given else "")
    content = mcp_types.TextContent(type="text", text=text)
    return mcp_types.GetPromptResult(
        description=WORK.description, messages=[mcp_types.PromptMessage(role="user", content=content)]
    )
