// The page of `xylem ui`. News come as server-sent events, one part at a time; a part that has changed is drawn anew.
// Text from peers (names, addresses, reasons) becomes text, never markup.
"use strict";

const token = new URLSearchParams(location.search).get("token");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const $ = (id) => document.getElementById(id);
const sections = [...document.querySelectorAll("section")];
const seen = { runs: null, folders: null, service: null, node: null };
// Samples of each run, for rates; fetches that ran at the last update; and those that have ended since.
const past = new Map(), ran = new Map(), ended = [];
const keyOf = (run) => `${run.pid}-${run.since_ms}`;
let held = false;

// ---- Words

const odd = /[\p{Cc}\p{Default_Ignorable_Code_Point}\u2028\u2029\ufff9-\ufffb]/gu;
const clean = (text) => String(text).replace(odd, "\ufffd");
const bytes = (n) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  while (n >= 1024 && u < units.length - 1) { n /= 1024; u += 1; }
  return `${u && n < 100 ? n.toFixed(1) : Math.round(n)}\u00a0${units[u]}`;
};
const number = (n) => Number(n).toLocaleString("en").replaceAll(",", "\u202f");
// Unknown values are shown as a dash.
const some = (value, how) => (value === undefined || value === null ? "–" : how(value));
const time = (s) => {
  if (!Number.isFinite(s)) return "–";
  s = Math.round(s);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return s < 172800 ? `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min` : `${Math.floor(s / 86400)} days`;
};
const last = (name) => {
  const parts = name.split("/").filter((part) => part && !/^(v|t|seq|seg)=/.test(part));
  try { return decodeURIComponent(parts.at(-1) ?? name); } catch { return parts.at(-1) ?? name; }
};

// ---- Elements

function el(tag, attributes, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...inside.flat().filter((part) => part !== null && part !== undefined)
    .map((part) => (part instanceof Node ? part : clean(part))));
  return made;
}
const facts = (...pairs) => el("dl", { class: "facts" }, pairs.filter((p) => p).map(([what, value, kind]) =>
  el("div", {}, el("dt", {}, what), el("dd", { class: kind }, value))));
// Columns: [heading, function of a row, class].
const table = (columns, rows, label) => el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
  el("table", {}, el("thead", {}, el("tr", {}, columns.map(([head, , kind]) => el("th", { class: kind, scope: "col" }, head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, columns.map(([, of, kind]) => el("td", { class: kind }, of(row))))))));
const none = (text) => el("p", { class: "none" }, text);
const show = (id, ...parts) => $(id).querySelector("div").replaceChildren(...parts);

// ---- Drawing

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
// A canvas with a text alternative; `draw` is called once its size is known.
function canvas(kind, label, draw) {
  const made = el("canvas", { class: kind, role: "img", "aria-label": label });
  made.draw = () => {
    const wide = made.clientWidth, scale = devicePixelRatio || 1;
    if (!wide) return;
    const high = draw.high ? draw.high(wide) : made.clientHeight;
    if (draw.high) made.style.height = `${high}px`;
    made.width = Math.round(wide * scale);
    made.height = Math.round(high * scale);
    const pen = made.getContext("2d");
    pen.scale(scale, scale);
    draw(pen, wide, high);
  };
  return made;
}
function pieceMap(digits, done, total) {
  const gap = 2;
  const grid = (wide) => {
    const n = digits.length;
    const columns = Math.max(1, Math.min(n, Math.floor(wide / (n > 256 ? 11 : 14))));
    return { columns, size: Math.min(wide / columns, 26), rows: Math.ceil(n / columns) };
  };
  const draw = (pen, wide) => {
    const { columns, size } = grid(wide);
    const [leaf, pale] = [colour("leaf"), colour("pale")];
    [...digits].forEach((digit, i) => {
      const [x, y] = [(i % columns) * size, Math.floor(i / columns) * size];
      pen.globalAlpha = 1;
      pen.fillStyle = pale;
      pen.fillRect(x, y, size - gap, size - gap);
      pen.globalAlpha = digit === "9" ? 1 : 0.15 + Number(digit) * 0.07;
      pen.fillStyle = leaf;
      if (digit !== "0") pen.fillRect(x, y, size - gap, size - gap);
    });
  };
  draw.high = (wide) => { const { size, rows } = grid(wide); return rows * size; };
  const whole = [...digits].filter((digit) => digit === "9").length;
  return canvas("map", `Pieces: ${whole} of ${digits.length} parts are whole; ${bytes(done)} of ${bytes(total)} verified`, draw);
}
function rateLine(rates) {
  const most = Math.max(...rates, 1);
  const draw = (pen, wide, high) => {
    const step = wide / 59, at = (r) => high - 2 - (r / most) * (high - 6);
    const from = wide - (rates.length - 1) * step;
    pen.strokeStyle = colour("line");
    pen.beginPath(); pen.moveTo(0, high - 1.5); pen.lineTo(wide, high - 1.5); pen.stroke();
    pen.strokeStyle = pen.fillStyle = colour("blue");
    pen.lineWidth = 1.5;
    pen.beginPath();
    rates.forEach((rate, i) => pen[i ? "lineTo" : "moveTo"](from + i * step, at(rate)));
    pen.stroke();
    pen.lineTo(wide, high - 2); pen.lineTo(from, high - 2);
    pen.globalAlpha = 0.15; pen.fill();
  };
  return canvas("rate", `Rate in the last minute, at most ${bytes(most)} a second`, draw);
}
function bars(values, what, from, to, name) {
  const all = values.reduce((sum, n) => sum + n, 0), most = Math.max(...values, 1);
  const top = values.indexOf(Math.max(...values));
  const draw = (pen, wide, high) => {
    const step = wide / values.length;
    values.forEach((n, i) => {
      const tall = n ? Math.max(2, (n / most) * (high - 2)) : 1;
      pen.fillStyle = colour(n ? "blue" : "line");
      pen.fillRect(i * step, high - tall, Math.max(1, step - 2), tall);
    });
  };
  const words = all ? `${what}: ${number(all)} in all, most of them ${name(top)}` : `${what}: none`;
  return el("figure", {}, el("figcaption", {}, what, all ? ` · most: ${name(top)}` : " · none"), canvas("bars", words, draw),
    el("div", { class: "axis", "aria-hidden": "true" }, el("span", {}, from), el("span", {}, to)));
}
const sizeName = (i) => (i === 12 ? "1536 B and more" : `${i * 128}–${i * 128 + 127} B`);
const micros = (us) => (us < 1000 ? `${us} µs` : us < 1e6 ? `${Math.round(us / 1000)} ms` : `${Math.round(us / 1e6)} s`);
const gapName = (i) => (i === 0 ? "less than 2 µs" : `${micros(2 ** i)} to ${micros(2 ** (i + 1))}`);

// ---- Rates: differences of the reported figures over the last seconds

function track(run) {
  const samples = past.get(keyOf(run)) ?? [];
  past.set(keyOf(run), samples);
  const now = performance.now() / 1000;
  if (!samples.length || now - samples.at(-1).now > 0.4) samples.push({ now, done: run.done });
  while (samples.length > 2 && now - samples[0].now > 60) samples.shift();
  return samples;
}
const slope = (from, to) => Math.max(0, (to.done - from.done) / Math.max(to.now - from.now, 0.001));
function rateOf(samples) {
  const end = samples.at(-1), start = samples.find((s) => end.now - s.now <= 5.5) ?? samples[0];
  return start === end ? NaN : slope(start, end);
}
const ratesOf = (samples) => samples.slice(1).map((sample, i) => slope(samples[i], sample));

// ---- Sections

const phases = { looking: "looking for peers", hashing: "hashing", fetching: "fetching", seeding: "complete, seeding", serving: "serving", "": "starting" };

function fetchCard(run) {
  const samples = track(run), rate = rateOf(samples), running = run.phase !== "seeding";
  const percent = run.total ? Math.floor((run.done / run.total) * 100) : 0;
  // Under a byte a second, or with more than 1,000 hours left, nearly nothing comes.
  const remaining = running && rate >= 1 ? (run.total - run.done) / rate : NaN;
  const left = remaining <= 3_600_000 ? remaining : NaN;
  const trouble = run.trouble ? el("p", { class: "none warn" }, run.trouble) : null;
  return el("article", { class: "card" },
    el("div", { class: "row" },
      el("h3", {}, run.name || "…"), el("span", { class: "tag" }, phases[run.phase] ?? run.phase),
      el("span", { class: "big end" }, `${percent} %`)),
    run.pieces ? pieceMap(run.pieces, run.done, run.total) : null,
    el("div", { class: "split" },
      facts(["verified", `${bytes(run.done)} of ${bytes(run.total)}`], ["rate", Number.isFinite(rate) ? `${bytes(rate)}/s` : "–"],
        running ? ["left", time(left)] : null, ["peers", number(run.peers.length)],
        run.directory ? ["files", number(run.files)] : null, ["running for", time(Date.now() / 1000 - run.since_ms / 1000)]),
      samples.length > 2 ? rateLine(ratesOf(samples).slice(-60)) : null),
    trouble);
}
function drawFetches(runs) {
  const fetching = runs.filter((run) => run.verb === "get" || run.verb === "sync" && run.total);
  const keys = new Set(runs.map(keyOf));
  [...past.keys()].filter((key) => !keys.has(key)).forEach((key) => past.delete(key));
  for (const [key, run] of ran) {
    if (!keys.has(key)) {
      ended.unshift(run);
      ran.delete(key);
    }
  }
  ended.splice(5);
  fetching.forEach((run) => ran.set(keyOf(run), run));
  const last = ended.map((run) => none(`Ended: ${run.name || "a fetch"}, last seen with ${bytes(run.done)} of ${bytes(run.total)} verified`));
  show("fetches", ...(fetching.length ? fetching.map(fetchCard) : [none("Nothing is being fetched: xylem get TICKET")]), ...last);
}
const steps = { not_running: "not running", starting: "being scanned", paused: "paused", no_member: "not a member of its group", behind: "not in step", in_step: "in step" };
function folderCard(folder) {
  const now = Date.now(), ago = (ms) => time((now - ms) / 1000), coming = folder.fetching;
  const missing = folder.missing.length + folder.more;
  const parts = [el("div", { class: "row" }, el("h3", {}, folder.folder), el("span", { class: "tag" }, steps[folder.step] ?? folder.step),
    el("span", { class: "dim" }, `as ${folder.name}${folder.role === "read_only" ? ", read-only" : ""}`))];
  if (coming) {
    parts.push(el("p", {}, `From ${coming.from}: ${bytes(coming.done)}${coming.total ? ` of ${bytes(coming.total)}` : ""}, ${number(coming.files)} files: ${coming.paths.join(", ")}`));
  }
  if (folder.members.length) {
    parts.push(table([
      ["Member", (m) => m.name || m.key.slice(0, 16), "wide"], ["Role", (m) => m.role.replace("_", " ")],
      ["Link", (m) => `${m.here ? "connected" : folder.members.length > 16 ? "no link" : "disconnected"} for ${ago(m.since_ms)}`],
      ["State", (m) => el("span", { class: m.here && !m.in_step ? "warn" : "dim" }, m.here ? (m.in_step ? "in step" : "not in step yet") : "–")],
    ], folder.members, `Members of ${folder.folder}`));
  }
  if (missing) {
    parts.push(el("h4", {}, `Not in step (${number(missing)})`), table([
      ["Path", (m) => m.path, "wide"], ["What", (m) => m.what], ["Why", (m) => el("span", { class: "warn" }, m.why)], ["For", (m) => ago(m.since_ms), "n"],
    ], folder.missing.slice(0, 100), `Missing in ${folder.folder}`));
  }
  return el("article", { class: "card" }, ...parts);
}
const drawFolders = (folders) => show("folders", ...(folders?.length ? folders.map(folderCard) : [none("No folder is kept in step: xylem sync DIR")]));
function drawShares(runs, service) {
  const rows = runs.flatMap((run) => run.shares.map((share) => ({
    ...share, name: last(share.name), by: `share, process ${run.pid}`,
    peers: run.peers.length, since: run.since_ms / 1000,
  })));
  const hashing = runs.filter((run) => run.phase === "hashing");
  rows.push(...(service ?? []).map((row) => ({
    ...row, name: row.path.split("/").at(-1), by: row.why ? row.why : "background node", since: row.since_s, bad: !row.served,
  })));
  const parts = hashing.map((run) => el("p", { class: "none" }, `Hashing: ${bytes(run.done)}${run.total ? ` of ${bytes(run.total)}` : ""} read (process ${run.pid})`));
  if (rows.length) {
    parts.push(el("div", { class: "card" }, table([
      ["Name", (row) => row.name, "wide"],
      ["Size", (row) => bytes(row.bytes), "n"],
      ["Files", (row) => number(row.files), "n"],
      ["Sent", (row) => some(row.sent, bytes), "n"],
      ["Peers", (row) => number(row.peers), "n"],
      ["Fetched", (row) => number(row.fetched), "n"],
      ["For", (row) => time(Date.now() / 1000 - row.since), "n"],
      ["By", (row) => el("span", { class: row.bad ? "warn" : "dim" }, row.by)],
    ], rows, "Shares")));
  } else if (!parts.length) {
    parts.push(none("Nothing is shared: xylem share PATH"));
  }
  show("shares", ...parts);
}
function drawPeers(runs) {
  // A share reports the bytes sent to peers, a fetch its Interests to them.
  const rows = runs.flatMap((run) => run.peers.map((peer) => (run.verb === "get" ? { ...peer, run }
    : { peer: peer.peer, relayed: peer.relayed, way: peer.way, standing: peer.standing, rtt_ms: peer.rtt_ms, took: peer.link?.sent.bytes ?? peer.sent, run })));
  show("peers", rows.length ? el("div", { class: "card" }, table([
    ["Peer", (row) => row.peer],
    ["Connection", (row) => row.way || (row.relayed ? "relayed" : "direct")],
    ["For", (row) => `${row.run.verb} ${row.run.name || row.run.pid}`, "wide"],
    ["Received", (row) => some(row.bytes, bytes), "n"],
    ["Sent", (row) => some(row.took, bytes), "n"],
    ["Round trip", (row) => some(row.rtt_ms, (ms) => `${ms.toFixed(1)} ms`), "n"],
    ["Interests", (row) => some(row.interests, number), "n"],
    ["Lost", (row) => some(row.lost, number), "n"],
    ["Refused", (row) => some(row.refused, number), "n"],
    ["Invalid", (row) => el("span", { class: row.wrong ? "bad" : undefined }, some(row.wrong, number)), "n"],
    ["State", (row) => el("span", { class: row.standing === "active" ? "dim" : "warn" }, row.standing)],
  ], rows, "Peers")) : none("No peers."));
}
function drawNode(node) {
  if (!node) return show("node", none("No forwarder runs here: xylem ndn node"));
  const { status, cs } = node;
  const counters = [
    ["Face", (f) => f.face, "n"], ["Remote", (f) => f.remote, "wide"], ["Kind", (f) => `${f.scope}, ${f.persistency}`],
    ["Interests in", (f) => number(f.in_interests), "n"], ["Data in", (f) => number(f.in_data), "n"], ["Bytes in", (f) => bytes(f.in_bytes), "n"],
    ["Interests out", (f) => number(f.out_interests), "n"], ["Data out", (f) => number(f.out_data), "n"], ["Bytes out", (f) => bytes(f.out_bytes), "n"],
  ];
  const part = (title, columns, rows, empty) => [el("h4", {}, title), rows.length ? table(columns, rows, title) : none(empty)];
  const ratio = cs.hits + cs.misses ? `${Math.round((cs.hits / (cs.hits + cs.misses)) * 100)} %` : "–";
  show("node", el("div", { class: "card" },
    el("div", { class: "row" }, el("h3", {}, status.version), el("span", { class: "tag" }, `up ${time(status.uptime_seconds)}`)),
    facts(["Interests in / out", `${number(status.in_interests)} / ${number(status.out_interests)}`],
      ["Data in / out", `${number(status.in_data)} / ${number(status.out_data)}`],
      ["satisfied", number(status.satisfied)], ["not satisfied", number(status.unsatisfied)],
      ["FIB", number(status.fib_entries)], ["PIT", number(status.pit_entries)],
      ["content store", `${number(cs.entries)} of ${number(cs.capacity)}`], ["hits", `${number(cs.hits)} (${ratio})`]),
    part(`Faces (${node.faces.length})`, counters, node.faces, "none"),
    part(`Routes (${node.routes.length})`, [["Prefix", (r) => r.prefix, "wide"], ["Face", (r) => r.face, "n"], ["Cost", (r) => r.cost, "n"],
      ["Origin", (r) => r.origin, "n"], ["Expires", (r) => (r.expires_seconds === null ? "never" : `in ${time(r.expires_seconds)}`)]], node.routes, "none"),
    part(`FIB (${node.fib.length})`, [["Prefix", (r) => r.prefix, "wide"], ["Next hop", (r) => `face ${r.face}`, "n"], ["Cost", (r) => r.cost, "n"]], node.fib, "none"),
    part(`Strategies (${node.strategies.length})`, [["Prefix", (r) => r.prefix], ["Strategy", (r) => r.strategy, "wide"]], node.strategies, "none")));
}
function drawLinks(runs) {
  const links = runs.flatMap((run) => run.peers.filter((peer) => peer.link?.sent.sizes.length).map((peer) => ({ run, peer, link: peer.link })));
  const share = (part, all) => (all ? `${bytes(part)} (${Math.round((part / all) * 100)}\u00a0%)` : bytes(part));
  show("links", ...(links.length ? links.map(({ run, peer, link }) => el("article", { class: "card" },
    el("div", { class: "row" }, el("h3", {}, peer.peer), el("span", { class: "tag" }, `shaping ${link.shaping}`),
      el("span", { class: "dim" }, `${run.verb} ${run.name}`)),
    facts(["sent in datagrams", `${bytes(link.sent.bytes)} in ${number(link.sent.datagrams)}`], ["received", `${bytes(link.received.bytes)} in ${number(link.received.datagrams)}`],
      ["padding sent", share(link.padding, link.sent.bytes)], ["cover sent", share(link.cover, link.sent.bytes)],
      ["datagram", bytes(link.datagram)], ["keys", link.post_quantum ? "X25519 + ML-KEM-768" : "X25519"]),
    el("div", { class: "four" },
      bars(link.sent.sizes, "Sizes sent", "0", "1536 B and more", sizeName), bars(link.received.sizes, "Sizes received", "0", "1536 B and more", sizeName),
      bars(link.sent.gaps, "Intervals sent", "2 µs", "8 s", gapName), bars(link.received.gaps, "Intervals received", "2 µs", "8 s", gapName))))
    : [none("No encrypted link is up.")]));
}

function draw() {
  const runs = seen.runs ?? [];
  const focused = document.activeElement?.getAttribute?.("aria-label");
  const scrolled = new Map([...document.querySelectorAll(".scroll")].map((e) => [e.getAttribute("aria-label"), e.scrollLeft]));
  drawFetches(runs);
  drawShares(runs, seen.service);
  drawFolders(seen.folders);
  drawPeers(runs);
  drawNode(seen.node);
  drawLinks(runs);
  for (const region of document.querySelectorAll(".scroll")) {
    region.scrollLeft = scrolled.get(region.getAttribute("aria-label")) ?? 0;
    if (focused && region.getAttribute("aria-label") === focused) region.focus({ preventScroll: true });
  }
  paint();
}
const paint = () => document.querySelectorAll("canvas").forEach((made) => made.draw?.());

// ---- News

function state(text, kind) {
  $("state").textContent = text;
  $("state").className = kind;
}
let due = false;
function later() {
  if (due || held) return;
  due = true;
  requestAnimationFrame(() => { due = false; draw(); });
}
const events = new EventSource(`events?token=${encodeURIComponent(token)}`);
events.onopen = () => state("live", "live");
events.onerror = () => state("xylem ui has ended", "lost");
for (const part of Object.keys(seen)) {
  events.addEventListener(part, (event) => {
    seen[part] = JSON.parse(event.data);
    later();
  });
}
// Rates fall and times pass even without news.
setInterval(() => { if (seen.runs?.length) later(); }, 1000);
addEventListener("resize", paint);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);

// ---- Keys

let here = 0;
function go(to) {
  here = Math.max(0, Math.min(sections.length - 1, to));
  sections[here].focus({ preventScroll: true });
  sections[here].scrollIntoView({ behavior: still.matches ? "auto" : "smooth" });
  mark();
}
function mark() {
  document.querySelectorAll("nav a").forEach((link, i) => {
    link.classList.toggle("here", i === here);
    if (i === here) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
  });
}
function keys(open) {
  $("keys").hidden = !open;
  $("help").setAttribute("aria-expanded", open);
}
$("help").addEventListener("click", () => keys($("keys").hidden));
document.querySelectorAll("nav a").forEach((link, i) => link.addEventListener("click", (event) => {
  event.preventDefault();
  go(i);
}));
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = sections.indexOf(document.activeElement);
  if (at >= 0) here = at;
  if (event.key === "j") go(at < 0 && here === 0 ? 0 : here + 1);
  else if (event.key === "k") go(here - 1);
  else if (/^[1-6]$/.test(event.key)) go(Number(event.key) - 1);
  else if (event.key === "?") keys($("keys").hidden);
  else if (event.key === "Escape") keys(false);
  else if (event.key === " " && !event.target.closest("button, a")) {
    event.preventDefault();
    held = !held;
    state(held ? "paused" : "live", held ? "" : "live");
    later();
  }
});
draw();
