// The package in Node, against real sharers on loopback.
//
//   XYLEM_PROGRAM=… XYLEM_PACKAGE=… node --test test.mjs

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createInterface } from "node:readline";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

const at = (file) => new URL(file, pathToFileURL(`${process.env.XYLEM_PACKAGE}/`));
const { get, XylemError } = await import(at("node.js"));
const { answer, mediaType } = await import(at("site.js"));

// ---- sharers, and proxies between ---------------------------------------------------------------------

const room = fs.mkdtempSync(path.join(os.tmpdir(), "xylem-npm-"));
const ends = [];
after(async () => {
  for (const end of ends) await end();
  fs.rmSync(room, { recursive: true, force: true });
});

// A run that is ended from outside leaves no sharer behind.
const children = new Set();
process.on("exit", () => children.forEach((child) => child.kill()));
process.on("SIGTERM", () => process.exit(1));

let shares = 0;
async function share(what, ...options) {
  const store = path.join(room, `store-${(shares += 1)}`);
  const child = spawn(process.env.XYLEM_PROGRAM, ["--store", store, "--no-progress", "share", what, "--listen", "127.0.0.1:0", "--foreground", ...options]);
  children.add(child);
  const closed = new Promise((resolve) => child.on("close", resolve)).then(() => children.delete(child));
  ends.push(() => (child.kill(), closed));
  const lines = [];
  const until = (pattern) => new Promise((resolve, reject) => {
    const look = () => {
      const found = lines.join("\n").match(pattern);
      if (found) resolve(found);
      return found;
    };
    if (!look()) {
      waiting.push(look);
      closed.then(() => reject(new Error(`the sharer ended: ${lines.join("\n")}`)));
    }
  });
  const waiting = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface(stream).on("line", (line) => {
      lines.push(line);
      for (const look of waiting) look();
    });
  }
  const [ticket] = await until(/^xylem:\S+/m);
  if (options.length === 0) return { ticket, until };
  const [link, host] = await until(/http:\/\/([^/\s]+)\/#\S+/);
  return { ticket, until, link, host };
}
const web = (what) => share(what, "--web-listen", "127.0.0.1:0");

/** Forwards connections to `host`. `change(count)` says whether a bit of the next segment, number `count`, is flipped. */
async function between(host, change = () => false) {
  const proxy = { passed: 0, segments: 0, changed: 0 };
  const server = net.createServer((near) => {
    const far = net.connect(Number(host.split(":")[1]), "127.0.0.1");
    for (const [one, other] of [[near, far], [far, near]]) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
    near.pipe(far);
    let rest = Buffer.alloc(0), opened = false;
    far.on("data", (bytes) => {
      rest = Buffer.concat([rest, bytes]);
      if (!opened) {
        const end = rest.indexOf("\r\n\r\n");
        if (end < 0) return;
        near.write(rest.subarray(0, end + 4));
        opened = rest.includes(" 101 ");
        rest = rest.subarray(end + 4);
      }
      for (let frame; (frame = frameOf(rest)); rest = rest.subarray(frame.end)) {
        tamper(proxy, rest.subarray(frame.start, frame.end), change);
        if (!near.write(rest.subarray(0, frame.end))) {
          far.pause();
          near.once("drain", () => far.resume());
        }
        proxy.passed += frame.end;
      }
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  ends.push(() => server.close());
  proxy.host = `127.0.0.1:${server.address().port}`;
  return proxy;
}

function frameOf(bytes) {
  if (bytes.length < 2) return undefined;
  const short = bytes[1] & 127, start = 2 + (short === 126 ? 2 : short === 127 ? 8 : 0);
  if (bytes.length < start) return undefined;
  const length = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
  return bytes.length < start + length ? undefined : { start, end: start + length };
}

// Flips a bit in the middle of segments in a sequence of packets, each with type and length (NDN's TLV).
function tamper(proxy, train, change) {
  for (let at = 0; at + 2 < train.length; ) {
    const length = train[at + 1] === 253 ? 4 + train.readUInt16BE(at + 2) : 2 + train[at + 1];
    if (length > 8000) {
      if (change(proxy.segments)) {
        train[at + (length >> 1)] ^= 1;
        proxy.changed += 1;
      }
      proxy.segments += 1;
    }
    at += length;
  }
}

const same = (given, data, what = "other bytes than were shared") => assert.ok(Buffer.from(given).equals(data), what);
const failsWith = (code) => (error) => {
  assert.ok(error instanceof XylemError, String(error));
  assert.equal(error.code, code, error.message);
  return true;
};

const data = randomBytes(9_999_999);
const large = randomBytes(48 << 20);
const parts = { "index.html": Buffer.from("<!doctype html><p>home"), "deep/index.html": Buffer.from("deep"), "deep/a film.webm": randomBytes(3_000_000), empty: Buffer.alloc(0) };
let film, big, tree;

before(async () => {
  fs.writeFileSync(path.join(room, "film.bin"), data);
  fs.writeFileSync(path.join(room, "large.bin"), large);
  for (const [name, body] of Object.entries(parts)) {
    fs.mkdirSync(path.dirname(path.join(room, "tree", name)), { recursive: true });
    fs.writeFileSync(path.join(room, "tree", name), body);
  }
  [film, big, tree] = await Promise.all(["film.bin", "large.bin", "tree"].map((name) => web(path.join(room, name))));
});

// ---- a file ---------------------------------------------------------------------------------------------

test("a file comes as chunks, a stream, bytes and a blob, and the sharer reports it", async () => {
  const chunks = [], states = [];
  for await (const chunk of get(film.link, { progress: (state) => states.push(state) })) chunks.push(chunk);
  assert.ok(chunks.length > 1 && chunks.every((chunk) => chunk instanceof Uint8Array));
  same(Buffer.concat(chunks), data);
  assert.deepEqual(states.at(-1), { path: "film.bin", bytes: data.length, size: data.length });
  await film.until(/fetched all of film\.bin/);
  const download = get(film.link);
  const streamed = [];
  for await (const chunk of download.stream()) streamed.push(chunk);
  same(Buffer.concat(streamed), data);
  same(await download.bytes(), data);
  same(await (await download.blob()).arrayBuffer(), data);
});

test("name and size are there before any byte", async () => {
  const download = await get(film.link).open();
  assert.deepEqual([download.name, download.size, download.directory], ["film.bin", data.length, false]);
  assert.deepEqual(download.files.map(({ path, size }) => [path, size]), [["film.bin", data.length]]);
  await download.close();
});

test("a range is exact wherever it begins and ends, and little else comes", async () => {
  const proxy = await between(big.host);
  const download = get(big.link.replace(big.host, proxy.host));
  for (const [start, end] of [[0, 1], [8191, 8193], [100_000, 1_234_567], [large.length - 5, large.length], [7, 7]]) {
    same(await download.bytes({ start, end }), large.subarray(start, end), `${start} to ${end}`);
  }
  same(await download.bytes({ start: large.length - 3 }), large.subarray(-3));
  await assert.rejects(download.bytes({ start: 2, end: 1 }), RangeError);
  assert.ok(proxy.passed < 4_000_000, `${proxy.passed} bytes came`);
  await download.close();
});

test("a reader that waits holds little: no more is fetched than it may need soon", async () => {
  const proxy = await between(big.host);
  const reader = get(big.link.replace(big.host, proxy.host)).read();
  const first = await reader.next();
  // Whatever comes meanwhile: it is bounded.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  assert.ok(proxy.passed < 16 << 20, `${proxy.passed} bytes came`);
  const rest = [first.value];
  for await (const chunk of reader) rest.push(chunk);
  same(Buffer.concat(rest), large);
});

test("readers at different places of one file do not take each other's bytes", async () => {
  const download = get(big.link);
  same(await download.bytes({ start: 100_001 }), large.subarray(100_001), "alone");
  // Each waits for the other between two chunks, and one goes over what the other had.
  const places = [1, 12_345_678, 12_345_679];
  const readers = places.map((start) => ({ reader: download.read({ start }), chunks: [] }));
  for (let open = readers; open.length > 0; ) {
    const steps = await Promise.all(open.map(async ({ reader, chunks }) => {
      const { done, value } = await reader.next();
      if (!done) chunks.push(value);
      return !done;
    }));
    open = open.filter((_, i) => steps[i]);
  }
  readers.forEach(({ chunks }, i) => same(Buffer.concat(chunks), large.subarray(places[i]), String(places[i])));
  // One is ahead, and ends, while another has not begun to read.
  const behind = download.read();
  const first = (await behind.next()).value;
  same(await download.bytes({ start: 30_000_000 }), large.subarray(30_000_000));
  const rest = [first];
  for await (const chunk of behind) rest.push(chunk);
  same(Buffer.concat(rest), large);
  await download.close();
});

test("several readers of one file at once each get all of it", async () => {
  const download = get(film.link);
  const slow = download.read();
  const head = (await slow.next()).value;
  const [one, two] = await Promise.all([download.bytes(), download.bytes({ start: 5_000_000 })]);
  same(one, data);
  same(two, data.subarray(5_000_000));
  const rest = [head];
  for await (const chunk of slow) rest.push(chunk);
  assert.ok(rest.every((chunk) => chunk.length > 0));
  same(Buffer.concat(rest), data);
  await download.close();
});

// ---- a directory ------------------------------------------------------------------------------------------

test("a directory has a listing, and each file is read by its path", async () => {
  const download = await get(tree.link).open();
  assert.deepEqual([download.name, download.directory, download.files.length], ["tree", true, 4]);
  for (const [name, body] of Object.entries(parts)) same(await download.file(name).bytes(), body, name);
  for (const file of download.files) same(await file.bytes({ start: 1 }), parts[file.path].subarray(1), file.path);
  await tree.until(/fetched all of tree/);
  await assert.rejects(download.file("nope").bytes(), failsWith("no-such-file"));
  await assert.rejects(download.file("../film.bin").bytes(), failsWith("no-such-file"));
  await assert.rejects(download.bytes(), failsWith("directory"));
  await download.close();
  same(await download.file("index.html").bytes(), parts["index.html"], "after it was closed");
  await download.close();
});

// ---- ends -------------------------------------------------------------------------------------------------

test("an abort ends what is under way, with the signal's reason", async () => {
  const stop = new AbortController(), reason = new Error("enough");
  const reader = get(big.link, { signal: stop.signal }).read();
  await reader.next();
  stop.abort(reason);
  await assert.rejects(reader.next(), reason);
  await assert.rejects(get(big.link, { signal: stop.signal }).open(), reason);
  await assert.rejects(get(big.link, { signal: stop.signal }).bytes(), reason);
  // Of one read of several.
  const alone = new AbortController(), download = get(film.link);
  const ended = download.bytes({ signal: alone.signal }), other = download.bytes();
  alone.abort(reason);
  await assert.rejects(ended, reason);
  same(await other, data);
});

test("a loop that is left early ends the fetch", async () => {
  const proxy = await between(big.host);
  const download = get(big.link.replace(big.host, proxy.host));
  for await (const chunk of download) {
    assert.ok(chunk.length > 0);
    break;
  }
  await download.close();
  assert.ok(proxy.passed < 16 << 20, `${proxy.passed} bytes came`);
});

test("a wrong link is refused with its code", async () => {
  const page = `http://${film.host}/#`;
  for (const link of [`${page}hello`, page + film.ticket.slice(0, -1), "xylem:aaaa", film.ticket, `file:///x#${film.ticket}`, `${film.link}&peer=here`]) {
    await assert.rejects(get(link).open(), failsWith("bad-link"), link);
  }
  const nameless = await share(path.join(room, "film.bin"));
  await assert.rejects(get(page + nameless.ticket).open(), failsWith("unfit"));
  await assert.rejects(get(page + tree.ticket).open(), failsWith("not-shared"));
  const home = path.join(room, "store-of-another");
  const [card] = /xylem-peer:\S+/.exec(spawnSync(process.env.XYLEM_PROGRAM, ["--store", home, "inbox", "card"]).stdout);
  const sealed = await share(path.join(room, "film.bin"), "--for", card, "--web-listen", "127.0.0.1:0");
  await assert.rejects(get(sealed.link).open(), failsWith("encrypted"));
  const free = await new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
  await assert.rejects(get(`http://127.0.0.1:${free}/#${film.ticket}`, { timeout: 1 }).bytes(), failsWith("unreachable"));
});

// ---- lies ---------------------------------------------------------------------------------------------------

test("a sharer that lies: an error, and no byte of it is given", async () => {
  const liar = await between(film.host, () => true);
  const given = [];
  await assert.rejects(async () => {
    for await (const chunk of get(film.link.replace(film.host, liar.host))) given.push(chunk);
  }, failsWith("lying"));
  assert.ok(liar.changed >= 3 && given.length === 0, `${liar.changed} changed, ${given.length} given`);
});

test("a sharer that lies after a while: what is given is right up to there", async () => {
  const liar = await between(film.host, (count) => count >= 300);
  const given = [];
  await assert.rejects(async () => {
    for await (const chunk of get(film.link.replace(film.host, liar.host))) given.push(chunk);
  }, failsWith("lying"));
  const all = Buffer.concat(given);
  assert.ok(all.length > 0 && all.length < data.length);
  same(all, data.subarray(0, all.length));
});

test("beside one that lies an honest sharer is enough", async () => {
  const liar = await between(film.host, () => true);
  same(await get(`${film.link}&peer=${liar.host}`).bytes(), data);
  assert.ok(liar.changed > 0, "the liar was asked");
});

// ---- a site ---------------------------------------------------------------------------------------------------

test("a site answers as a web server does", async () => {
  const download = get(tree.link);
  const ask = (where, headers = {}, method = "GET") => answer(download, new Request(`http://site.test/${where}`, { method, headers }), where);
  const body = async (response) => Buffer.from(await response.arrayBuffer());
  const home = await ask("");
  assert.deepEqual([home.status, home.headers.get("Content-Type"), home.headers.get("Content-Length")], [200, "text/html; charset=utf-8", "22"]);
  same(await body(home), parts["index.html"]);
  same(await body(await ask("deep/")), parts["deep/index.html"]);
  const moved = await ask("deep");
  assert.deepEqual([moved.status, moved.headers.get("Location")], [301, "http://site.test/deep/"]);
  const whole = await ask("deep/a%20film.webm");
  assert.equal(whole.headers.get("Content-Type"), "video/webm");
  const all = parts["deep/a film.webm"];
  same(await body(whole), all);
  for (const [range, from, to] of [["bytes=0-0", 0, 1], ["bytes=1000-99999999", 1000, all.length], ["bytes=2999990-", 2_999_990, all.length], ["bytes=-7", all.length - 7, all.length]]) {
    const part = await ask("deep/a%20film.webm", { Range: range });
    assert.deepEqual([part.status, part.headers.get("Content-Range")], [206, `bytes ${from}-${to - 1}/${all.length}`], range);
    same(await body(part), all.subarray(from, to), range);
  }
  for (const range of ["bytes=3000000-", "bytes=-0"]) assert.equal((await ask("deep/a%20film.webm", { Range: range })).status, 416, range);
  for (const range of ["bytes=2-1", "bytes=-", "lines=1-2", "bytes=0-1,5-6"]) assert.equal((await ask("index.html", { Range: range })).status, 200, range);
  const nothing = await ask("empty");
  assert.deepEqual([nothing.status, (await body(nothing)).length], [200, 0]);
  const head = await ask("deep/a%20film.webm", {}, "HEAD");
  assert.deepEqual([head.status, head.headers.get("Content-Length"), (await body(head)).length], [200, String(all.length), 0]);
  for (const [where, status] of [["nope", 404], ["%2e%2e/film.bin", 404], ["nope/", 404], ["%ff", 400]]) assert.equal((await ask(where)).status, status, where);
  assert.equal((await ask("", {}, "POST")).status, 405);
  await download.close();
  assert.deepEqual(["a.HTML", "b.tar.gz", "c", "d.constructor", "e.js"].map(mediaType), ["text/html; charset=utf-8", "application/octet-stream", "application/octet-stream", "application/octet-stream", "text/javascript; charset=utf-8"]);
});

test("a site of a sharer that lies answers with an error, or ends", async () => {
  const liar = await between(tree.host, () => true);
  const lied = await answer(get(tree.link.replace(tree.host, liar.host)), new Request("http://site.test/"), "deep/a%20film.webm");
  assert.equal(lied.status, 502);
  const later = await between(tree.host, (count) => count >= 150);
  const begun = await answer(get(tree.link.replace(tree.host, later.host)), new Request("http://site.test/"), "deep/a%20film.webm");
  assert.equal(begun.status, 200);
  await assert.rejects(begun.arrayBuffer());
});
