// A socket that comes back by itself: jittered back-off, asleep while the page is hidden, given up when it is silent.
import { heard, missed, opened, refused } from "./freshness.js";

const FIRST = 500, LONGEST = 15_000;
const NOT_ALLOWED = 1008; // shown out: the answer will hardly be another one in half a second
const SILENT = 45_000; // the server says something every fifteen seconds: a cable that was pulled tells nobody

export class Socket {
  // `address` is asked each time, because it names the position to go on from.
  constructor(address, hear) {
    this.address = address;
    this.hear = hear;
    this.wait = FIRST;
    this.timer = 0;
    this.silence = 0;
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
    let wasOpen = false;
    socket.onopen = () => { wasOpen = true; opened(); };
    this.listen(socket);
    socket.onmessage = (message) => {
      this.wait = FIRST;
      this.listen(socket);
      heard(this);
      this.hear(JSON.parse(message.data));
    };
    socket.onclose = ({ code }) => { this.lose(socket, code); if (!wasOpen) refused(); };
  }

  listen(socket) {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => { this.lose(socket); socket.close(); }, SILENT);
  }

  lose(socket, code) {
    if (this.socket !== socket) return;
    clearTimeout(this.silence);
    if (code === NOT_ALLOWED) this.wait = LONGEST;
    this.socket = null;
    missed(this);
    this.timer = setTimeout(() => this.open(), this.wait * (0.5 + Math.random()));
    this.wait = Math.min(this.wait * 2, LONGEST);
  }

  // Whoever is not looked at costs nothing; it catches up from its position when it is.
  sleep() {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }
}
