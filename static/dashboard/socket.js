// A socket that comes back by itself: jittered back-off, asleep while the page is hidden.
import { opened, tell } from "./freshness.js";

const FIRST = 500, LONGEST = 15_000;

export class Socket {
  // `address` is asked each time, because it names the position to go on from.
  constructor(address, hear) {
    this.address = address;
    this.hear = hear;
    this.wait = FIRST;
    this.timer = 0;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.sleep() : this.open()));
    addEventListener("online", () => this.open());
    if (!document.hidden) this.open();
  }

  open() {
    clearTimeout(this.timer);
    if (this.socket) return;
    const url = new URL(this.address(), location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = (this.socket = new WebSocket(url));
    socket.onopen = opened;
    socket.onmessage = (message) => {
      this.wait = FIRST;
      tell("live");
      this.hear(JSON.parse(message.data));
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      tell("disconnected");
      this.timer = setTimeout(() => this.open(), this.wait * (0.5 + Math.random()));
      this.wait = Math.min(this.wait * 2, LONGEST);
    };
  }

  // Whoever is not looked at costs nothing; it catches up from its position when it is.
  sleep() {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }
}
