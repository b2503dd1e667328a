// An agent that knows only the types which openapi-typescript derived: registers, claims one task, completes it.
// It counts the lines of the artifacts of the task's dependencies, and hands on its inputs with an artifact of its own.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [url, token, name] = process.argv.slice(2) as [string, string, string];
const api = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });

const worker: components["schemas"]["NewWorker"] = { id: name, capabilities: ["typescript"] };
const registered = await api.POST("/api/v1/workers", { body: worker });
if (!registered.data) throw new Error(JSON.stringify(registered.error));

const claimed = await api.POST("/api/v1/workers/{worker_id}/claim", {
  params: { path: { worker_id: name }, query: { wait: 20 } },
  body: { max: 1 },
});
const task = claimed.data?.tasks[0];
if (!task) throw new Error(JSON.stringify(claimed.error ?? "there is no task"));

let lines = 0;
for (const dependency of Object.keys(task.inputs)) {
  const listed = await api.GET("/api/v1/tasks/{task_id}/artifacts", { params: { path: { task_id: dependency } } });
  for (const artifact of listed.data?.results ?? []) {
    const content = await api.GET("/api/v1/tasks/{task_id}/artifacts/{name}", {
      params: { path: { task_id: dependency, name: artifact.name } },
      parseAs: "text",
    });
    lines += (content.data ?? "").trimEnd().split("\n").length;
  }
}

const stored = await api.PUT("/api/v1/tasks/{task_id}/artifacts/{name}", {
  params: { path: { task_id: task.id, name: "report.txt" }, query: { attempt: task.attempt } },
  body: `${lines} lines`,
  bodySerializer: (content) => content,
  headers: { "Content-Type": "text/plain" },
});
if (!stored.data) throw new Error(JSON.stringify(stored.error));

const done: components["schemas"]["TaskExecutionCompleted"] = {
  trigger: "execution_completed",
  attempt: task.attempt,
  exit_code: 0,
  output: `built by ${name}`,
  result: { lines, inputs: task.inputs },
};
const reported = await api.POST("/api/v1/tasks/{entity_id}/transitions", {
  params: { path: { entity_id: task.id } },
  body: done,
});
if (!reported.data) throw new Error(JSON.stringify(reported.error));
console.log(`${reported.data.entity.id} ${reported.data.entity.state}`);
