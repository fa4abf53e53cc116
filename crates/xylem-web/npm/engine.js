// One fetch: WebSockets to the sharers, and the WebAssembly module that proves what they send. The page of
// `xylem share --web` and the package are built on it. What becomes of proven bytes is its user's part.

const TRAIN = 8000; // maximum bytes of Interests in one message; sharers accept a packet's length
const RETRY_MS = [500, 1000, 2000, 4000, 8000];
const REDIAL_MS = 20_000; // a connection on which nothing has come for so long is made anew
export const AWAY_MS = 5000; // a sharer that has sent nothing for so long counts as away

const decoder = new TextDecoder();
const now = () => performance.now();

/** Why a fetch ended without success; `code` is for programs (docs/spec/web.md). */
export class XylemError extends Error {
  name = "XylemError";
  constructor(code, message, options) {
    super(message, options);
    this.code = code;
  }
}

/** The parts of a link, or of a ticket alone: `{ ticket, peers: [{ host, url }] }`. `home` is the HOST:PORT of a page. */
export function parseLink(link, home) {
  const text = String(link).trim();
  const [, base, fragment] = /^([^#]*)#(.*)$/s.exec(text) ?? [, "", text];
  const [first, ...rest] = decoded(fragment).split("&");
  const hosts = [];
  let secure = globalThis.location?.protocol === "https:";
  if (base !== "") {
    const url = URL.canParse(base) ? new URL(base) : undefined;
    if (!url || !/^(https?|wss?):$/.test(url.protocol)) throw new XylemError("bad-link", `not a link: ${base.slice(0, 60)}`);
    secure = /^(https|wss):$/.test(url.protocol);
    hosts.push(url.host);
  } else if (home) hosts.push(home);
  for (const part of rest) {
    const at = /^peer=(?:wss?:\/\/)?([\w.-]+:\d{1,5}|\[[\da-fA-F:]+\]:\d{1,5})\/?$/.exec(part);
    if (!at) throw new XylemError("bad-link", `not an address: ${part.slice(0, 60)} (expected peer=HOST:PORT)`);
    hosts.push(at[1]);
  }
  const scheme = secure ? "wss://" : "ws://";
  return { ticket: first.trim(), peers: hosts.map((host) => ({ host, url: scheme + host })) };
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

/**
 * Call order: `start`, then `tick` runs by itself until `close` or a report with `is` "failed" or "done". `user` has
 * `report(event)` for objects with a field `is`, `run(offset, bytes)` for proven bytes, and `nodes(records)`; bytes given to it are
 * valid only during the call. An exception of its own ends the fetch.
 */
export class Engine {
  over = false;
  silent = false; // nothing is requested, and silence is no fault of a sharer
  peers = [];
  heard = Date.now(); // when a sharer has sent something last, in ms since 1970, or this began
  #w; // the module's exports
  #user;
  #socket;
  #byId = new Map();
  #nextId = 0;
  #turn = new MessageChannel();
  #scheduled = false;
  #timer;
  #watch;
  #timeout;
  #alone = now(); // since when no sharer is connected

  /**
   * `instance`: of the WebAssembly module, for this fetch alone. `socket`: the class WebSocket. `timeout`: without a connected
   * sharer for so many milliseconds it fails; without it, it waits.
   */
  constructor(instance, user, { socket = WebSocket, timeout = Infinity } = {}) {
    this.#w = instance.exports;
    this.#user = user;
    this.#socket = socket;
    this.#timeout = timeout;
    this.#turn.port1.onmessage = () => this.#run();
  }

  // ---- calls to the module, and its output -------------------------------------------------------

  /** The module's functions. */
  get exports() { return this.#w; }
  /** Room for the input of the next call. */
  room(length) {
    const at = this.#w.input(length); // may move all memory
    return new Uint8Array(this.#w.memory.buffer, at, length);
  }
  give(bytes) { this.room(bytes.length).set(bytes); }
  taken() { return new Uint8Array(this.#w.memory.buffer, this.#w.output(), this.#w.output_len()); }
  takenText() { return decoder.decode(this.taken()); }

  /** The name under which sharers know a ticket; empty if it is none. */
  passOf(ticket) {
    this.give(new TextEncoder().encode(ticket));
    this.#w.pass();
    return this.takenText();
  }

  /** Connected peers' numbers and counts, and what is proven of the total. */
  state() {
    this.#w.state(now());
    const state = JSON.parse(this.takenText());
    state.peers = state.peers.flatMap(([id, standing, bytes]) => {
      const peer = this.#byId.get(id);
      return peer ? [{ peer, standing, bytes }] : [];
    });
    return state;
  }

  // ---- beginning and end --------------------------------------------------------------------------

  /** `link`: as `parseLink` returns it. */
  async start({ ticket, peers }) {
    const pass = this.passOf(ticket);
    this.give(new TextEncoder().encode(ticket));
    const wrong = this.#w.start(Math.random());
    if (wrong !== 0) return this.fail(new XylemError(wrong === 2 ? "unfit" : "bad-link", this.takenText()));
    if (peers.length === 0) return this.fail(new XylemError("bad-link", "a ticket alone names no sharer: a link begins with the address of its page"));
    for (const peer of peers) {
      Object.assign(peer, { pass, train: new Uint8Array(TRAIN), filled: 0, before: 0, bytes: 0, bad: 0, tries: 0, state: "connecting" });
      this.peers.push(peer);
    }
    for (const peer of peers) this.#connect(peer);
    this.#watch = setInterval(() => this.#look(), 1000);
    await this.#askFirst(peers[0]);
  }

  // Over HTTP a ticket that is not shared is told from a sharer that has stopped. A page may ask its own port alone.
  async #askFirst(peer) {
    if (globalThis.location && location.host !== peer.host) return;
    const url = `${peer.url.replace(/^ws/, "http")}/${peer.pass}`;
    const answer = await fetch(url, { method: "HEAD" }).catch(() => undefined);
    if (this.over || answer?.status !== 404) return;
    peer.refused = "not-shared";
    peer.state = "does not share this";
    clearTimeout(peer.retry);
    if (this.peers.every((one) => one.refused)) this.fail(new XylemError("not-shared", "nothing of this ticket is shared here: ask for a new link"));
  }

  fail(error) {
    if (this.over) return;
    this.close();
    this.#user.report({ is: "failed", code: error.code, why: error.message, error });
  }

  close() {
    this.over = true;
    clearTimeout(this.#timer);
    clearInterval(this.#watch);
    for (const peer of this.peers) {
      clearTimeout(peer.retry);
      peer.socket?.close();
    }
    this.#turn.port1.close();
  }

  // ---- peers ----------------------------------------------------------------------------------------

  #connect(peer) {
    clearTimeout(peer.retry);
    if (this.over || peer.refused) return;
    const socket = new this.#socket(`${peer.url}/${peer.pass}`);
    socket.binaryType = "arraybuffer";
    peer.socket = socket;
    peer.state = "connecting";
    socket.onopen = () => {
      if (this.over) return;
      peer.id = this.#nextId++;
      this.#byId.set(peer.id, peer);
      peer.state = "connected";
      peer.heard = now();
      this.#alone = undefined;
      this.#w.add_peer(peer.id, now());
      this.schedule();
    };
    socket.onmessage = ({ data }) => {
      if (this.over || typeof data === "string" || peer.id === undefined) return;
      this.heard = Date.now();
      peer.heard = now();
      peer.tries = 0;
      this.give(new Uint8Array(data));
      this.#w.message(peer.id, now());
      this.schedule();
    };
    socket.onerror = () => {}; // it is closed next
    socket.onclose = () => {
      if (peer.id !== undefined) {
        if (!this.over) this.#w.remove_peer(peer.id, now());
        this.#byId.delete(peer.id);
        peer.before += peer.bytes;
        peer.bytes = 0;
        peer.id = undefined;
        if (this.#byId.size === 0) this.#alone = now();
      }
      if (this.over) return;
      if (this.peers.every((one) => one.refused)) {
        const code = this.peers.some((one) => one.refused === "lying") ? "lying" : "not-shared";
        return this.fail(new XylemError(code, "no sharer of this link can be asked any more"));
      }
      if (peer.refused) return;
      const wait = RETRY_MS[Math.min(peer.tries++, RETRY_MS.length - 1)];
      peer.state = peer.tries > 2 ? "not reachable" : "connecting";
      peer.retry = setTimeout(() => this.#connect(peer), wait);
      this.schedule();
    };
  }

  /** Connects at once to the sharers that do not answer, for a person who cannot wait for the next try. */
  again() {
    for (const peer of this.peers) {
      if (this.over || peer.refused || peer.socket?.readyState === this.#socket.CONNECTING) continue;
      peer.tries = 0;
      if (peer.id === undefined) this.#connect(peer);
      else if (now() - peer.heard > AWAY_MS) peer.socket.close();
    }
  }

  /** Silence up to now is no sharer's fault. */
  forgive() {
    this.heard = Date.now();
    for (const peer of this.peers) peer.heard = now();
    if (this.#byId.size === 0) this.#alone = now();
  }

  // Ends connections that are open in name only: their machine may be gone. Another is made then.
  #look() {
    if (this.silent) return;
    if (now() - this.#alone > this.#timeout) return this.fail(new XylemError("unreachable", "no sharer of this link can be reached"));
    for (const peer of this.peers) {
      if (peer.id !== undefined && now() - peer.heard > REDIAL_MS) peer.socket.close();
    }
  }

  // ---- the turn ---------------------------------------------------------------------------------------

  schedule() {
    if (this.#scheduled || this.over) return;
    this.#scheduled = true;
    this.#turn.port2.postMessage(0);
  }

  #run() {
    this.#scheduled = false;
    if (this.over) return;
    try {
      this.#w.tick(now());
      this.#drain();
      this.#ask();
    } catch (error) {
      this.fail(error);
    }
  }

  #ask() {
    if (this.over) return;
    for (let id; (id = this.#w.transmit(now())) >= 0; ) {
      const peer = this.#byId.get(id), interest = this.taken();
      if (!peer) continue;
      if (peer.filled + interest.length > peer.train.length) leave(peer);
      peer.train.set(interest, peer.filled);
      peer.filled += interest.length;
    }
    for (const peer of this.#byId.values()) leave(peer);
    clearTimeout(this.#timer);
    const due = this.#w.due(now());
    if (due >= 0) this.#timer = setTimeout(() => this.schedule(), Math.max(1, due));
  }

  #drain() {
    for (let kind; !this.over && (kind = this.#w.told()) !== 0; ) {
      if (kind === 1) this.#told(JSON.parse(this.takenText()));
      else if (kind === 2) this.#user.run(this.#w.offset(), this.taken());
      else this.#user.nodes(this.taken());
    }
  }

  #told(event) {
    if (event.is === "failed") return this.fail(new XylemError(event.code, event.why));
    if (event.is === "done") {
      this.sendNotices();
      this.close();
    }
    if (event.peer !== undefined) {
      const peer = this.#byId.get(event.peer);
      if (!peer) return;
      event.host = peer.host;
      peer.bad += 1;
      if (event.is === "dropped") {
        peer.refused = "lying";
        peer.state = "refused: sent wrong pieces";
        peer.socket.close();
      }
    }
    this.#user.report(event);
  }

  /** Sends what is to be sent now: the notices that all of it was fetched. */
  sendNotices() { this.#ask(); }
}

// A message costs more than a packet, so all Interests for a peer in one turn go in one message.
function leave(peer) {
  if (peer.filled > 0) peer.socket.send(peer.train.slice(0, peer.filled));
  peer.filled = 0;
}
