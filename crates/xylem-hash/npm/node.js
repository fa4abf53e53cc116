// What `import` means in Node, Deno and Bun: the module is read from disk.
import { readFileSync } from "node:fs";
import { name } from "./module.js";
import { start } from "./blake3.js";

start(new WebAssembly.Module(readFileSync(new URL(name, import.meta.url))));

export * from "./blake3.js";
