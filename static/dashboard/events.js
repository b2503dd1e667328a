// Streams events after the page's position, in order and without duplicates.
import { reportEventAge } from "./freshness.js";
import { Socket } from "./socket.js";

export function follow(filters, receive, startOver) {
  if (!document.body.dataset.canStream) return; // the server would refuse every attempt
  let position = Number(document.body.dataset.position ?? 0), epoch = 0;
  const advance = (further) => { document.body.dataset.position = position = Math.max(position, further); };
  const address = () => `/ws/events/?${new URLSearchParams({ ...filters, after: epoch ? `${epoch}-${position}` : position })}`;
  new Socket(address, (message) => {
    if (message.type === "resnapshot") return startOver();
    epoch = message.epoch ?? epoch; // named by the first message of a connection
    if (message.type === "position") return advance(message.position);
    if (message.type !== "events") return;
    const fresh = message.events.filter((each) => each.position > position);
    if (!fresh.length) return;
    advance(fresh.at(-1).position);
    reportEventAge(fresh.at(-1).event.timestamp);
    receive(fresh.map((each) => ({ ...each.event, position: each.position })));
  });
}
