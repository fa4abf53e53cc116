// Both builds in Node, each as the package that users import.
//
//   node check-node.mjs PACKAGE VECTORS [--time]

import { readFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { pathToFileURL } from "node:url";
import { check } from "./check.js";

const [folder, vectors] = process.argv.slice(2);
const at = (file) => new URL(file, pathToFileURL(`${folder}/`));
const simd = await import(at("node.js"));
// The same script again, with the other module.
const portable = await import(at("blake3.js?portable"));
portable.start(new WebAssembly.Module(readFileSync(at("portable.wasm"))));

const names = [];
for (const b3 of [simd, portable]) {
  const { wrong, checks } = check(b3, readFileSync(vectors, "utf8"));
  for (const line of wrong) console.error(`${b3.platform()}: ${line}`);
  if (wrong.length > 0) process.exitCode = 1;
  names.push(b3.platform());
  console.log(`${b3.platform()}: ${checks} checks, ${wrong.length} wrong`);
}
if (names.join() !== "simd128,portable") {
  console.error(`each build has its own code, and this engine simd128: ${names}`);
  process.exitCode = 1;
}

if (process.argv.includes("--time")) {
  const others = [["Node's SHA-256", (bytes) => createHash("sha256").update(bytes).digest()]];
  const all = [["simd128", simd.hash], ["portable", portable.hash], ...others];
  for (const length of [64, 1024, 16_384, 1 << 20]) {
    const bytes = new Uint8Array(length).fill(7);
    const count = Math.max(1, Math.round(5e6 / length));
    const rates = all.map(() => []);
    for (let round = 0; round < 15; round++) {
      for (const [i, [, hash]] of all.entries()) {
        const start = process.hrtime.bigint();
        for (let n = 0; n < count; n++) hash(bytes);
        rates[i].push((length * count) / Number(process.hrtime.bigint() - start));
      }
    }
    const median = (list) => list.sort((a, b) => a - b)[7].toFixed(3);
    console.log(`${length} bytes, GB/s: ${all.map(([name], i) => `${name} ${median(rates[i])}`).join(", ")}`);
  }
}
