// The page: reads the ticket after the #, shows the worker's reports, and offers proven files for download.
import { parseLink } from "./engine.js";

const $ = (id) => document.getElementById(id);
const CELLS = 1536; // maximum number of pieces in the map
const ROWS = 2000; // maximum number of listed files
const LONGEST = 1000 * 3600; // seconds; a longer remaining time is not shown

const units = ["B", "kB", "MB", "GB", "TB"];
function size(n) {
  let unit = 0;
  for (; n >= 999.5 && unit < 4; unit += 1) n /= 1000;
  return `${unit && n < 999.5 ? n.toPrecision(3) : Math.round(n)} ${units[unit]}`;
}
// Names come from a publisher: invisible characters, and those that reverse the text direction, are replaced.
const odd = /[\p{Cc}\p{Default_Ignorable_Code_Point}\u2028\u2029\ufff9-\ufffb]/gu;
const clean = (text) => String(text).replace(odd, "\ufffd");
function row(table, ...cells) {
  const tr = table.tBodies[0].insertRow();
  for (const cell of cells) tr.insertCell().append(cell);
  return tr;
}
function fail(why) {
  $("error").textContent = why;
  $("error").hidden = false;
  document.title = "xylem: failed";
}

// ---- the ticket, and the peers to ask -----------------------------------------------------------

let link = { ticket: "" };
try {
  link = parseLink(location.hash, location.host);
} catch (error) {
  fail(error.message);
}
addEventListener("hashchange", () => location.reload());

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  location.hash = $("ticket").value.trim().replace(/^.*#/, "");
});

// ---- the worker -----------------------------------------------------------------------------------

let manifest, layout, map, proven = 0, keeps = false, finished = null, began, kept = 0, failed = false;
if (!$("error").hidden) {
  // The link is wrong.
} else if (!link.ticket) {
  $("ask").hidden = false;
} else if (typeof WebAssembly !== "object") {
  fail("this browser is too old: it has no WebAssembly");
} else {
  const worker = new Worker("worker.js", { type: "module" });
  worker.onerror = (event) => fail(event.message || "the page's script could not be loaded");
  worker.onmessage = ({ data }) => handlers[data.is]?.(data);
  worker.postMessage(link);
  // After a failure the worker has ended. Before, it has proven data that may be nowhere else.
  $("again").onclick = () => (failed || !layout ? location.reload() : worker.postMessage({ again: true }));
  $("forget").onclick = () => { worker.postMessage({ forget: true }); };
}

const handlers = {
  failed({ why }) {
    failed = true;
    $("away").hidden = true;
    fail(proven && keeps ? `${why}. ${size(proven)} are proven and kept in this browser: the next try continues with them` : why);
    $("actions").hidden = $("again").hidden = false;
  },
  bad({ host, what }) { note(`${host} ${what}: thrown away and requested again`); },
  dropped({ host }) { note(`${host} gets no more requests`); },
  note({ what }) { note(what, "dim"); },
  manifest(told) {
    manifest = told;
    const name = clean(told.name || "file");
    $("name").textContent = name;
    const files = told.directory ? `, ${told.files} file${told.files === 1 ? "" : "s"}` : "";
    $("about").textContent = `${size(told.bytes)}${files}. Signed by the publisher that the link names; every piece is proven before it counts.`;
    document.title = name;
  },
  layout(told) {
    layout = told;
    began = performance.now();
    map = new PieceMap($("map"), told.bytes);
    for (const id of ["progress", "actions"]) $(id).hidden = false;
    if (!manifest.directory) return;
    $("files").hidden = false;
    $("files").querySelector("summary").textContent = `Files (${told.files.length})`;
    const table = $("files").querySelector("table");
    told.files.slice(0, ROWS).forEach(([path, bytes], number) => { row(table, clean(path), size(bytes), "").id = `f${number}`; });
    if (told.files.length > ROWS) row(table, `and ${told.files.length - ROWS} more`, "", "");
  },
  kept({ bytes }) { kept = bytes; },
  file({ number }) {
    const cell = document.getElementById(`f${number}`)?.cells[2];
    if (cell) cell.textContent = "✓";
  },
  state({ verified, rate, ranges, peers, away, keeps: outlives }) {
    [proven, keeps] = [verified, outlives];
    showAway(away, peers.length);
    for (let i = 0; i < ranges.length; i += 2) map?.add(ranges[i], ranges[i + 1]);
    map?.draw();
    showPeers(peers);
    if (!layout) return;
    const share = layout.bytes ? verified / layout.bytes : 1;
    $("bar").firstElementChild.style.width = `${share * 100}%`;
    $("bar").setAttribute("aria-valuenow", Math.floor(share * 100));
    const seconds = rate >= 1 && share < 1 ? (layout.bytes - verified) / rate : Infinity;
    const left = seconds < LONGEST ? `, ${span(seconds)} left` : "";
    const from = kept ? `, ${size(kept)} of it were here already` : "";
    $("status").textContent = `${size(verified)} of ${size(layout.bytes)} proven${from}${share < 1 && !away ? `, ${size(rate)}/s${left}` : ""}`;
  },
  async done({ store, parts }) {
    const blob = store ? await stored(store) : new Blob(parts);
    finished = blob;
    $("away").hidden = $("again").hidden = true;
    const took = (performance.now() - began) / 1e3;
    $("status").textContent = `All ${size(layout.bytes)} proven${kept ? `, ${size(kept)} of it were here already` : ""}. ${span(took)}.`;
    $("forget").hidden = !store;
    $("save").disabled = false;
    if (manifest.directory) {
      $("save").textContent = "Save all (.tar)";
      const table = $("files").querySelector("table");
      layout.files.slice(0, ROWS).forEach(([path, bytes, base], number) => {
        const button = document.createElement("button");
        button.className = "plain";
        button.textContent = "Save";
        button.onclick = () => offer(blob.slice(base, base + bytes), path.replace(/^.*\//, ""));
        table.rows[number].cells[2].replaceChildren(button);
      });
    }
    $("save").onclick = () => manifest.directory
      ? offer(tar(blob), `${manifest.name || "files"}.tar`)
      : offer(blob, manifest.name || "file");
    document.title = `✓ ${manifest.name || "file"}`;
  },
  forgotten() {
    finished = null;
    $("save").disabled = $("forget").hidden = true;
    $("again").hidden = false;
    $("status").textContent = "Removed from this browser.";
  },
};

function span(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  return seconds < 5400 ? `${Math.ceil(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// States that no sharer answers, since when, and what is kept, and offers to try again; hides that when one answers.
function showAway(since, peers) {
  $("away").hidden = !since;
  $("again").hidden = !since;
  if (!since) return;
  $("actions").hidden = false;
  const who = peers > 1 ? "No sharer has" : "The sharer has not";
  const when = new Date(since).toLocaleTimeString();
  const where = keeps ? "kept in this browser, also when the page is closed" : "kept until this page is closed";
  const have = proven ? ` ${size(proven)} are proven and ${where}.` : "";
  const text = `${who} answered since ${when}.${have} This page goes on when ${peers > 1 ? "one" : "it"} answers.`;
  // Announced to screen readers once, not with every report.
  if ($("away").textContent !== text) $("away").textContent = text;
}

async function stored(store) {
  const all = await navigator.storage.getDirectory();
  const directory = await all.getDirectoryHandle(store);
  return (await directory.getFileHandle("data")).getFile();
}

function note(what, kind = "bad") {
  const item = document.createElement("li");
  item.className = kind;
  item.textContent = clean(what);
  $("told").append(item);
  if ($("told").childElementCount > 20) $("told").firstElementChild.remove();
}

function showPeers(peers) {
  $("peers").hidden = peers.length === 0;
  const table = $("peers").querySelector("table");
  peers.forEach((peer, i) => {
    const tr = table.tBodies[0].rows[i] ?? row(table, "", "", "");
    [peer.host, peer.state, `${size(peer.bytes)}${peer.rate > 0 ? `, ${size(peer.rate)}/s` : ""}`]
      .forEach((text, cell) => { tr.cells[cell].textContent = text; });
    tr.className = peer.bad ? "bad" : "";
  });
}

// ---- the map of pieces --------------------------------------------------------------------------------

class PieceMap {
  constructor(canvas, bytes) {
    this.canvas = canvas;
    this.count = Math.max(1, Math.min(CELLS, Math.ceil(bytes / 65536)));
    this.each = Math.max(1, bytes / this.count);
    this.have = new Float64Array(this.count);
    addEventListener("resize", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  add(start, length) {
    const end = start + length;
    for (let cell = Math.floor(start / this.each); cell < this.count && cell * this.each < end; cell += 1) {
      this.have[cell] += Math.min(end, (cell + 1) * this.each) - Math.max(start, cell * this.each);
    }
  }

  draw() {
    const { canvas, count } = this;
    const ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth || 320;
    const edge = count > 512 ? 9 : 14;
    const columns = Math.max(1, Math.floor(width / edge));
    canvas.width = width * ratio;
    canvas.height = Math.ceil(count / columns) * edge * ratio;
    const style = getComputedStyle(document.documentElement);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    for (let cell = 0; cell < count; cell += 1) {
      const x = (cell % columns) * edge, y = Math.floor(cell / columns) * edge;
      pen.globalAlpha = 1;
      pen.fillStyle = style.getPropertyValue("--cell");
      pen.fillRect(x, y, edge - 2, edge - 2);
      pen.globalAlpha = Math.min(1, this.have[cell] / this.each);
      pen.fillStyle = style.getPropertyValue("--green");
      pen.fillRect(x, y, edge - 2, edge - 2);
    }
  }
}

// ---- downloads ------------------------------------------------------------------------------------------

function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// All files as one archive (POSIX ustar, with pax headers for long names, large files and times that are not whole
// seconds since 1970). It consists of slices, so nothing is copied.
function tar(blob) {
  const parts = [];
  const top = manifest.name ? `${manifest.name}/` : "";
  const text = (value) => new TextEncoder().encode(value);
  for (const [path, bytes, base, mode, secs, nanos] of layout.files) {
    const name = text(top + path), large = bytes >= 8 ** 11;
    const plain = secs >= 0 && secs < 8 ** 11;
    const pax = [];
    if (name.length > 100) pax.push(record("path", name));
    if (large) pax.push(record("size", text(String(bytes))));
    if (!plain || nanos) pax.push(record("mtime", text(seconds(secs, nanos))));
    if (pax.length) {
      const body = new Blob(pax);
      parts.push(header(text("pax"), body.size, "x", 0o644, 0), body, pad(body.size));
    }
    const head = header(name.slice(0, 100), large ? 0 : bytes, "0", mode & 0o777, plain ? secs : 0);
    parts.push(head, blob.slice(base, base + bytes), pad(bytes));
  }
  return new Blob([...parts, new Uint8Array(1024)]);
}

// A time in pax form: a decimal number, negative before 1970.
function seconds(secs, nanos) {
  if (secs >= 0 || !nanos) return `${secs}.${String(nanos).padStart(9, "0")}`;
  return `-${-(secs + 1)}.${String(1e9 - nanos).padStart(9, "0")}`;
}

function pad(bytes) { return new Uint8Array((512 - (bytes % 512)) % 512); }

function record(key, value) {
  const rest = key.length + value.length + 3; // blank, equals sign, line feed
  let length = rest + String(rest).length;
  if (String(length).length > String(rest).length) length += 1;
  return new Blob([`${length} ${key}=`, value, "\n"]);
}

function header(name, bytes, type, mode, secs) {
  const block = new Uint8Array(512);
  const put = (at, text) => block.set(new TextEncoder().encode(text), at);
  const octal = (n, digits) => n.toString(8).padStart(digits, "0");
  block.set(name, 0);
  put(100, `${octal(mode, 7)}\0` + "0000000\0" + "0000000\0" + octal(bytes, 11) + "\0" + octal(secs, 11) + "\0" + "        " + type);
  put(257, "ustar\0" + "00");
  put(148, octal(block.reduce((sum, byte) => sum + byte, 0), 6) + "\0 ");
  return block;
}
