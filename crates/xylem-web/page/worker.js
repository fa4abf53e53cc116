// The fetch: WebSockets, the WebAssembly module that verifies their packets, and the kept file.
"use strict";

const RECORD = 40; // bytes of a record of nodes
const TRAIN = 8000; // maximum bytes of Interests in one message; sharers accept a packet's length
const STATE_MS = 200; // interval of reports to the page
const FLUSH_MS = 500; // interval at which unfinished runs are written
const RETRY_MS = [500, 1000, 2000, 4000, 8000];
const AWAY_MS = 5000; // a sharer that has sent nothing for so long counts as away
const REDIAL_MS = 20_000; // a connection on which nothing has come for so long is made anew

let w; // the module's exports
let store;
let over = false;
let looking = false; // kept data are read back, and nothing is requested
let heard; // when a sharer has sent something last, in ms since 1970, or the page began
let ranges = []; // proven since the last report to the page: offset, length, …
const peers = [];
const byId = new Map();
const decoder = new TextDecoder();
const now = () => performance.now();

// ---- calls to the module, and its output -------------------------------------------------------

function room(length) {
  const at = w.input(length); // may move all memory
  return new Uint8Array(w.memory.buffer, at, length);
}
function give(bytes) { room(bytes.length).set(bytes); }
function giveText(text) { give(new TextEncoder().encode(text)); }
function taken() { return new Uint8Array(w.memory.buffer, w.output(), w.output_len()); }
function takenText() { return decoder.decode(taken()); }

function fail(why) {
  if (over) return;
  over = true;
  for (const peer of peers) peer.socket?.close();
  store?.close();
  postMessage({ is: "failed", why });
}

// ---- kept data --------------------------------------------------------------------------------------

// A file of the browser's own (OPFS). Its content is used as far as it is proven anew.
class Kept {
  static async open(name) {
    const all = await navigator.storage.getDirectory();
    const directory = await all.getDirectoryHandle(name, { create: true });
    const open = async (file) => (await directory.getFileHandle(file, { create: true })).createSyncAccessHandle();
    const kept = new Kept();
    kept.name = name;
    kept.data = await open("data");
    kept.nodes = await open("nodes");
    kept.end = kept.nodes.getSize();
    kept.end -= kept.end % RECORD;
    return kept;
  }
  write(at, bytes) { whole(this.data.write(bytes, { at }), bytes); }
  read(at, into) { return this.data.read(into, { at }); }
  remember(records) {
    whole(this.nodes.write(records, { at: this.end }), records);
    this.end += records.length;
  }
  recall(take) {
    const chunk = new Uint8Array(RECORD * 25_000);
    for (let at = 0; at < this.end; at += chunk.length) {
      const length = this.nodes.read(chunk, { at });
      take(chunk.subarray(0, Math.min(length, this.end - at)));
    }
  }
  finish(bytes) {
    this.data.truncate(bytes);
    this.data.flush();
    this.close();
    return { store: this.name };
  }
  close() {
    this.data.close();
    this.nodes.close();
  }
}

function whole(written, bytes) {
  if (written !== bytes.length) throw new DOMException("", "QuotaExceededError");
}

// A replacement where the browser offers no such file (a page over http from another machine): data stay until the page
// is left.
class Memory {
  parts = [];
  write(at, bytes) { this.parts.push([at, new Blob([bytes])]); }
  read() { return 0; }
  remember() {}
  recall() {}
  finish() {
    this.parts.sort((a, b) => a[0] - b[0]);
    return { parts: this.parts.map(([, blob]) => blob) };
  }
  close() {}
}

async function openStore(name) {
  if (!self.isSecureContext || !navigator.storage?.getDirectory) {
    postMessage({ is: "note", what: "this page came over http from another machine, so the browser keeps nothing: save the files before you close the page" });
    return new Memory();
  }
  try {
    return await Kept.open(name);
  } catch (error) {
    if (error.name === "NoModificationAllowedError") throw new Error("another tab of this browser already fetches this");
    postMessage({ is: "note", what: "this browser keeps nothing here (a private window?): save the files before you close the page" });
    return new Memory();
  }
}

// Reads back data of an earlier visit, and keeps what is proven.
async function look() {
  looking = true;
  store.recall((records) => {
    give(records);
    w.recall();
  });
  let steps = 0, kept = 0;
  for (let length; (length = w.next_check()) > 0; steps += 1) {
    const at = w.offset();
    const read = store.read(at, room(length));
    const proven = read > 0 ? w.check() : 0;
    kept += proven;
    if (proven > 0) ranges.push(at, proven);
    if (steps % 32 === 31) {
      tellState();
      await new Promise((resolve) => setTimeout(resolve));
      if (over) return;
    }
  }
  if (kept > 0) postMessage({ is: "kept", bytes: kept });
  tellState();
  looking = false;
  heard = Date.now();
  for (const peer of peers) peer.heard = now();
  w.begin();
  schedule();
}

// ---- peers ----------------------------------------------------------------------------------------------

let nextId = 0;

function connect(peer) {
  clearTimeout(peer.retry);
  if (over || peer.refused) return;
  const socket = new WebSocket(`${peer.url}/${peer.pass}`);
  socket.binaryType = "arraybuffer";
  peer.socket = socket;
  peer.state = "connecting";
  socket.onopen = () => {
    if (over) return;
    peer.id = nextId++;
    byId.set(peer.id, peer);
    peer.state = "connected";
    peer.heard = now();
    w.add_peer(peer.id, now());
    schedule();
  };
  socket.onmessage = ({ data }) => {
    if (over || typeof data === "string" || peer.id === undefined) return;
    heard = Date.now();
    peer.heard = now();
    peer.tries = 0;
    give(new Uint8Array(data));
    w.message(peer.id, now());
    schedule();
  };
  socket.onclose = () => {
    if (peer.id !== undefined) {
      if (!over) w.remove_peer(peer.id, now());
      byId.delete(peer.id);
      peer.before += peer.bytes;
      peer.bytes = 0;
      peer.id = undefined;
    }
    if (over) return;
    if (peers.every((one) => one.refused)) return fail("no sharer of this link can be asked any more");
    if (peer.refused) return;
    const wait = RETRY_MS[Math.min(peer.tries++, RETRY_MS.length - 1)];
    peer.state = peer.tries > 2 ? "not reachable" : "connecting";
    peer.retry = setTimeout(() => connect(peer), wait);
    schedule();
  };
}

// Connects at once to the sharers that do not answer, for a person who cannot wait for the next try.
function again() {
  for (const peer of peers) {
    if (over || peer.refused || peer.socket?.readyState === WebSocket.CONNECTING) continue;
    peer.tries = 0;
    if (peer.id === undefined) connect(peer);
    else if (now() - peer.heard > AWAY_MS) peer.socket.close();
  }
}

// Ends connections that are open in name only: their machine may be gone. Another is made then.
function redial() {
  if (looking) return;
  for (const peer of peers) {
    if (peer.id !== undefined && now() - peer.heard > REDIAL_MS) peer.socket.close();
  }
}

// ---- the turn ---------------------------------------------------------------------------------------------

const turn = new MessageChannel();
let scheduled = false, timer;
function schedule() {
  if (scheduled || over) return;
  scheduled = true;
  turn.port2.postMessage(0);
}
turn.port1.onmessage = () => {
  scheduled = false;
  if (over) return;
  try {
    w.tick(now());
    drain();
    ask();
  } catch (error) {
    fail(error.name === "QuotaExceededError" ? "this browser has no more storage for it: fetch it with xylem get" : String(error));
  }
};

function ask() {
  if (over) return;
  for (let id; (id = w.transmit(now())) >= 0; ) {
    const peer = byId.get(id), interest = taken();
    if (!peer) continue;
    if (peer.filled + interest.length > peer.train.length) leave(peer);
    peer.train.set(interest, peer.filled);
    peer.filled += interest.length;
  }
  for (const peer of byId.values()) leave(peer);
  clearTimeout(timer);
  const due = w.due(now());
  if (due >= 0) timer = setTimeout(schedule, Math.max(1, due));
}

// A message costs more than a packet, so all Interests for a peer in one turn go in one message.
function leave(peer) {
  if (peer.filled > 0) peer.socket.send(peer.train.subarray(0, peer.filled));
  peer.filled = 0;
}

function drain() {
  for (let kind; !over && (kind = w.told()) !== 0; ) {
    if (kind === 1) told(takenText());
    else if (kind === 2) {
      const bytes = taken();
      store.write(w.offset(), bytes);
      ranges.push(w.offset(), bytes.length);
    } else store.remember(taken());
  }
}

let layout;
function told(text) {
  const event = JSON.parse(text);
  if (event.is === "failed") return fail(event.why);
  if (event.is === "done") {
    ask(); // the notices that all of it was fetched
    over = true;
    for (const peer of peers) peer.socket?.close();
    const kept = store.finish(layout.bytes);
    tellState();
    return postMessage({ is: "done", ...kept });
  }
  if (event.peer !== undefined) {
    const peer = byId.get(event.peer);
    if (!peer) return;
    event.host = peer.host;
    peer.bad += 1;
    if (event.is === "dropped") {
      peer.refused = true;
      peer.state = "refused: sent wrong pieces";
      peer.socket.close();
    }
  }
  postMessage(event);
  if (event.is === "layout") {
    layout = event;
    opened(event).catch((error) => fail(error.message || String(error)));
  }
}

async function opened({ bytes }) {
  const room = await navigator.storage?.estimate?.().catch(() => undefined);
  if (room?.quota !== undefined && bytes > room.quota) throw new Error("this browser has no room for it: fetch it with xylem get");
  store = await openStore(storeName);
  if (over) return store.close();
  await look();
}

let storeName, last = { at: 0, verified: 0 }, rate = 0;
function tellState() {
  if (!w) return;
  w.state(now());
  const state = JSON.parse(takenText());
  const at = now(), span = Math.max(1, at - last.at) / 1e3;
  // Below one byte a second nothing comes: an average only ever approaches 0.
  const smooth = (old, fresh) => {
    const mean = old ? old * 0.7 + fresh * 0.3 : fresh;
    return mean < 1 ? 0 : mean;
  };
  rate = smooth(rate, looking ? 0 : (state.verified - last.verified) / span);
  for (const [id, standing, bytes] of state.peers) {
    const peer = byId.get(id);
    if (!peer) continue;
    peer.rate = smooth(peer.rate, (bytes - peer.bytes) / span);
    peer.bytes = bytes;
    if (peer.state === "connected" || peer.state === "silent") peer.state = standing === "stalled" ? "silent" : "connected";
  }
  last = { at, verified: state.verified };
  const away = !looking && Date.now() - heard > AWAY_MS;
  postMessage({
    is: "state", verified: state.verified, total: state.total, rate: away ? 0 : rate, ranges,
    // Since when no sharer has sent anything, and whether what is proven outlives the page.
    away: away ? heard : 0, keeps: store instanceof Kept,
    peers: peers.map((peer) => ({ host: peer.host, state: peer.state, bytes: peer.before + peer.bytes, rate: peer.id === undefined || over ? 0 : peer.rate, bad: peer.bad > 0 })),
  });
  ranges = [];
}

// ---- the beginning ----------------------------------------------------------------------------------------

async function run(data) {
  let module;
  try {
    module = await WebAssembly.instantiateStreaming(fetch("xylem.wasm"), {});
  } catch (error) {
    return fail(error instanceof WebAssembly.CompileError ? "this browser is too old: its WebAssembly has no SIMD" : `the page's program could not be loaded: ${error.message}`);
  }
  w = module.instance.exports;
  heard = Date.now();
  giveText(data.ticket);
  w.pass();
  const pass = takenText();
  storeName = `xylem-${pass.slice(0, 32)}`;
  giveText(data.ticket);
  if (w.start(Math.random()) !== 0) return fail(takenText());
  const home = await fetch(`/${pass}`, { method: "HEAD" }).catch(() => undefined);
  for (const peer of data.peers) {
    Object.assign(peer, { pass, train: new Uint8Array(TRAIN), filled: 0, before: 0, bytes: 0, bad: 0, tries: 0, state: "connecting" });
    peers.push(peer);
  }
  if (home?.status === 404) {
    peers[0].refused = true;
    peers[0].state = "does not share this";
    if (peers.length === 1) return fail("nothing of this ticket is shared here: ask for a new link");
  }
  for (const peer of peers) connect(peer);
  setInterval(() => {
    if (over) return;
    redial();
    tellState();
  }, STATE_MS);
  setInterval(() => {
    if (over || !store) return;
    w.flush();
    schedule();
  }, FLUSH_MS);
}

onmessage = async ({ data }) => {
  if (data.forget) {
    const all = await navigator.storage.getDirectory();
    await all.removeEntry(storeName, { recursive: true }).catch(() => undefined);
    return postMessage({ is: "forgotten" });
  }
  if (data.again) return again();
  run(data).catch((error) => fail(String(error)));
};
