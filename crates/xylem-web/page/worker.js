// The page's worker: a fetch of all of it (engine.js) into a file that the browser keeps, and reports to the page.
import { AWAY_MS, Engine } from "./engine.js";

const RECORD = 40; // bytes of a record of nodes
const STATE_MS = 200; // interval of reports to the page
const FLUSH_MS = 500; // interval at which unfinished runs are written

let engine, store, storeName;
let ranges = []; // proven since the last report to the page: offset, length, …
const now = () => performance.now();

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
  engine.silent = true;
  const w = engine.exports;
  store.recall((records) => {
    engine.give(records);
    w.recall();
  });
  let steps = 0, kept = 0;
  for (let length; (length = w.next_check()) > 0; steps += 1) {
    const at = w.offset();
    const read = store.read(at, engine.room(length));
    const proven = read > 0 ? w.check() : 0;
    kept += proven;
    if (proven > 0) ranges.push(at, proven);
    if (steps % 32 === 31) {
      tellState();
      await new Promise((resolve) => setTimeout(resolve));
      if (engine.over) return;
    }
  }
  if (kept > 0) postMessage({ is: "kept", bytes: kept });
  tellState();
  engine.silent = false;
  engine.forgive();
  w.begin();
  engine.schedule();
}

// ---- what the engine reports ----------------------------------------------------------------------------

let layout;
const user = {
  report(event) {
    if (event.is === "failed") {
      store?.close();
      const full = event.error.name === "QuotaExceededError";
      return postMessage({ is: "failed", why: full ? "this browser has no more storage for it: fetch it with xylem get" : event.why });
    }
    if (event.is === "done") {
      const kept = store.finish(layout.bytes);
      tellState();
      return postMessage({ is: "done", ...kept });
    }
    postMessage(event);
    if (event.is === "layout") {
      layout = event;
      opened(event).catch((error) => engine.fail(error));
    }
  },
  run(offset, bytes) {
    store.write(offset, bytes);
    ranges.push(offset, bytes.length);
  },
  nodes(records) { store.remember(records); },
};

async function opened({ bytes }) {
  const room = await navigator.storage?.estimate?.().catch(() => undefined);
  if (room?.quota !== undefined && bytes > room.quota) throw new Error("this browser has no room for it: fetch it with xylem get");
  store = await openStore(storeName);
  if (engine.over) return store.close();
  await look();
}

let last = { at: 0, verified: 0 }, rate = 0;
function tellState() {
  const { verified, total, peers } = engine.state();
  const at = now(), span = Math.max(1, at - last.at) / 1e3;
  // Below one byte a second nothing comes: an average only ever approaches 0.
  const smooth = (old, fresh) => {
    const mean = old ? old * 0.7 + fresh * 0.3 : fresh;
    return mean < 1 ? 0 : mean;
  };
  rate = smooth(rate, engine.silent ? 0 : (verified - last.verified) / span);
  for (const { peer, standing, bytes } of peers) {
    peer.rate = smooth(peer.rate, (bytes - peer.bytes) / span);
    peer.bytes = bytes;
    if (peer.state === "connected" || peer.state === "silent") peer.state = standing === "stalled" ? "silent" : "connected";
  }
  last = { at, verified };
  const away = !engine.silent && Date.now() - engine.heard > AWAY_MS;
  postMessage({
    is: "state", verified, total, rate: away ? 0 : rate, ranges,
    // Since when no sharer has sent anything, and whether what is proven outlives the page.
    away: away ? engine.heard : 0, keeps: store instanceof Kept,
    peers: engine.peers.map((peer) => ({ host: peer.host, state: peer.state, bytes: peer.before + peer.bytes, rate: peer.id === undefined || engine.over ? 0 : peer.rate, bad: peer.bad > 0 })),
  });
  ranges = [];
}

// ---- the beginning ----------------------------------------------------------------------------------------

async function run(link) {
  let module;
  try {
    module = await WebAssembly.instantiateStreaming(fetch("xylem.wasm"), {});
  } catch (error) {
    const why = error instanceof WebAssembly.CompileError ? "this browser is too old: its WebAssembly has no SIMD" : `the page's program could not be loaded: ${error.message}`;
    return postMessage({ is: "failed", why });
  }
  engine = new Engine(module.instance, user);
  storeName = `xylem-${engine.passOf(link.ticket).slice(0, 32)}`;
  setInterval(() => {
    if (!engine.over) tellState();
  }, STATE_MS);
  setInterval(() => {
    if (engine.over || !store) return;
    engine.exports.flush();
    engine.schedule();
  }, FLUSH_MS);
  await engine.start(link);
}

onmessage = async ({ data }) => {
  if (data.forget) {
    const all = await navigator.storage.getDirectory();
    await all.removeEntry(storeName, { recursive: true }).catch(() => undefined);
    return postMessage({ is: "forgotten" });
  }
  if (data.again) return engine.again();
  run(data).catch((error) => postMessage({ is: "failed", why: String(error) }));
};
