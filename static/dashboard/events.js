// Events from a position on, in order, none twice: what the page was made from is where it begins.
import { tellAgeOf } from "./freshness.js";
import { Socket } from "./socket.js";

export function follow(filters, hear, startOver) {
  if (!document.body.dataset.hears) return; // it would be refused, again and again
  let position = Number(document.body.dataset.position ?? 0);
  const reach = (further) => { document.body.dataset.position = position = Math.max(position, further); };
  const address = () => `/ws/events/?${new URLSearchParams({ ...filters, after: position })}`;
  new Socket(address, (message) => {
    if (message.type === "resnapshot") return startOver();
    if (message.type === "position") return reach(message.position);
    if (message.type !== "events") return;
    const fresh = message.events.filter((each) => each.position > position);
    if (!fresh.length) return;
    reach(fresh.at(-1).position);
    tellAgeOf(fresh.at(-1).event.timestamp);
    hear(fresh.map((each) => ({ ...each.event, position: each.position })));
  });
}
