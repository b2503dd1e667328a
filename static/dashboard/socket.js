// A WebSocket that reconnects with jittered back-off, closes while the page is hidden, and detects a dead connection.
import { checkLogin, markContact, markLost, markOpened } from "./freshness.js";

const FIRST = 500, LONGEST = 15_000;
const NOT_ALLOWED = 1008; // access denied: retry slowly
const SILENT = 45_000; // the server sends a message every 15 seconds; a pulled cable closes no socket

export class Socket {
  // `address` is called for each connection, because it contains the position to resume from.
  constructor(address, receive) {
    this.address = address;
    this.receive = receive;
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
    socket.onopen = () => { wasOpen = true; markOpened(); };
    this.listen(socket);
    socket.onmessage = (message) => {
      this.wait = FIRST;
      this.listen(socket);
      markContact(this);
      this.receive(JSON.parse(message.data));
    };
    socket.onclose = ({ code }) => { this.lose(socket, code); if (!wasOpen) checkLogin(); };
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
    markLost(this);
    this.timer = setTimeout(() => this.open(), this.wait * (0.5 + Math.random()));
    this.wait = Math.min(this.wait * 2, LONGEST);
  }

  // A hidden page costs the server nothing; it catches up from its position when it is shown.
  sleep() {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }
}
