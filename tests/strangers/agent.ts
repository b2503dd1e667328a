// An agent that knows only the types which openapi-typescript derived: registers, claims one task, completes it.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [url, token, name] = process.argv.slice(2) as [string, string, string];
const api = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });

const worker: components["schemas"]["NewWorker"] = { id: name, capabilities: ["typescript"] };
const registered = await api.POST("/api/v1/workers", { body: worker });
if (!registered.data) throw new Error(JSON.stringify(registered.error));

const claimed = await api.POST("/api/v1/workers/{worker_id}/claim", {
  params: { path: { worker_id: name } },
  body: { max: 1 },
});
const task = claimed.data?.tasks[0];
if (!task) throw new Error(JSON.stringify(claimed.error ?? "there is no task"));

const done: components["schemas"]["TaskExecutionCompleted"] = {
  trigger: "execution_completed",
  attempt: task.attempt,
  exit_code: 0,
  output: `built by ${name}`,
};
const reported = await api.POST("/api/v1/tasks/{entity_id}/transitions", {
  params: { path: { entity_id: task.id } },
  body: done,
});
if (!reported.data) throw new Error(JSON.stringify(reported.error));
console.log(`${reported.data.entity.id} ${reported.data.entity.state}`);
