// Runs the official vectors and random messages through builds of this crate. Their results must be equal.
//
//   node check.mjs VECTORS SIMD.wasm PLAIN.wasm [--time]

import { readFileSync } from "node:fs";
import { deepStrictEqual as same, strictEqual as is } from "node:assert";

const [vectors, ...paths] = process.argv.slice(2).filter((word) => !word.startsWith("--"));
const timed = process.argv.includes("--time");
const CAPACITY = 1 << 20;

class Probe {
  constructor(path) {
    this.x = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(path)), {}).exports;
    this.name = Buffer.from(this.out(this.x.name())).toString();
  }
  put(bytes, at = this.x.input()) {
    new Uint8Array(this.x.memory.buffer, at, bytes.length).set(bytes);
  }
  out(len) {
    return new Uint8Array(this.x.memory.buffer, this.x.output(), len).slice();
  }
  // Output of a message in pieces of these lengths, repeated from the start when they run out.
  pieces(mode, message, pieces, seek, len) {
    this.begin(mode);
    this.put(message);
    for (let at = 0, i = 0; at < message.length; i++) {
      const now = Math.min(pieces[i % pieces.length], message.length - at);
      this.x.update(at, now);
      at += now;
    }
    this.x.finish(BigInt(seek), len);
    return this.out(len);
  }
  begin({ kind, key, context }) {
    if (key) this.put(key, this.x.key());
    if (context) this.put(context);
    this.x.begin(kind, context?.length ?? 0);
  }
}

const probes = paths.map((path) => new Probe(path));
is(new Set(probes.map((probe) => probe.name)).size, probes.length, "each build has its own backend");

// Official vectors: 35 lengths, three modes, 131 bytes of output, in several pieces each.
const lines = readFileSync(vectors, "utf8").split("\n").filter((line) => line && line[0] !== "#");
const key = Buffer.from(lines.shift().slice("key ".length));
const context = Buffer.from(lines.shift().slice("context ".length));
const modes = [{ kind: 0 }, { kind: 1, key }, { kind: 2, context }];
is(lines.length, 35);
for (const line of lines) {
  const [length, ...wanted] = line.split(" ");
  const message = Uint8Array.from({ length: Number(length) }, (_, i) => i % 251);
  for (const probe of probes) {
    for (const [i, mode] of modes.entries()) {
      const want = Buffer.from(wanted[i], "hex");
      is(want.length, 131);
      for (const piece of [63, 1024, 10_000, CAPACITY]) {
        const got = probe.pieces(mode, message, [piece], 0, 131);
        same(Buffer.from(got), want, `${probe.name}, ${length} bytes by ${piece}, mode ${i}`);
      }
    }
    probe.put(message);
    probe.put(key, probe.x.key());
    same(Buffer.from(probe.out(probe.x.plain(message.length))).toString("hex"), wanted[0].slice(0, 64));
    same(Buffer.from(probe.out(probe.x.keyed(message.length))).toString("hex"), wanted[1].slice(0, 64));
  }
}

// Random messages, equal in all builds: pieces, seeks, batches, blocks.
let state = 0x9e3779b9;
function random(below) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % below;
}
const alike = (what, of) => {
  const [first, ...others] = probes.map(of);
  for (const other of others) same(other, first, what);
};
const noise = Uint8Array.from({ length: CAPACITY }, () => random(256));
const CASES = 300;
for (let i = 0; i < CASES; i++) {
  const length = random([100, 3_000, 40_000, 300_000][i % 4]);
  const message = noise.subarray(random(1_000)).subarray(0, length);
  const pieces = Array.from({ length: 1 + random(8) }, () => 1 + random([200, 2_000, 20_000][random(3)]));
  const seek = random(2) ? random(10_000) : 2 ** 40 + random(10_000);
  const [mode, len] = [modes[i % 3], 1 + random(3_000)];
  alike(`message of ${length} by ${pieces}`, (probe) => probe.pieces(mode, message, pieces, seek, len));
}
for (const probe of probes) probe.put(noise);
for (let i = 0; i < CASES; i++) {
  const [count, first, step] = [1 + random(40), random(3_000), random(200)];
  alike(`${count} messages of ${first} and ${step} more each`, (probe) => {
    probe.x.many(count, first, step);
    return probe.out(32 * count);
  });
  const [len, block] = [random(100_000), 1 + random(9_000)];
  alike(`${len} bytes in blocks of ${block}`, (probe) => {
    probe.x.blocks(len, block);
    return probe.out(32 * Math.ceil(len / block));
  });
}
const names = probes.map((probe) => probe.name).join(", ");
console.log(`${names}: ${lines.length} official lengths in 3 modes, ${3 * CASES} random cases alike`);

if (timed) {
  for (const length of [64, 256, 1024, 2048, 3072, 4096, 16384, 1 << 20]) {
    const medians = probes.map(() => []);
    const count = Math.max(1, Math.round(2e6 / length));
    for (let round = 0; round < 21; round++) {
      for (const [i, { x }] of probes.entries()) {
        const start = process.hrtime.bigint();
        for (let n = 0; n < count; n++) x.plain(length);
        const ns = Number(process.hrtime.bigint() - start) / count;
        medians[i].push(length / ns);
      }
    }
    const figures = medians.map((all) => all.sort((a, b) => a - b)[10].toFixed(3));
    console.log(`${length} bytes, GB/s: ${probes.map((p, i) => `${p.name} ${figures[i]}`).join(", ")}`);
  }
}
