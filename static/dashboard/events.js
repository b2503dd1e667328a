// Events from a position on, in order, none twice: what the page was made from is where it begins.
import { tellAgeOf } from "./freshness.js";
import { Socket } from "./socket.js";

export function follow(filters, hear, startOver) {
  let position = Number(document.body.dataset.position ?? 0);
  const address = () => `/ws/events/?${new URLSearchParams({ ...filters, after: position })}`;
  return new Socket(address, (message) => {
    if (message.type === "resnapshot") return startOver();
    if (message.type !== "events") return;
    const fresh = message.events.filter((each) => each.position > position);
    if (!fresh.length) return;
    position = fresh.at(-1).position;
    document.body.dataset.position = position;
    tellAgeOf(fresh.at(-1).event.timestamp);
    hear(fresh.map((each) => ({ ...each.event, position: each.position })));
  });
}
