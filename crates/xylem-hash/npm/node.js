// The entry point in Node, Deno and Bun: reads the module from disk.
import { readFileSync } from "node:fs";
import { name } from "./module.js";
import { start } from "./blake3.js";

start(new WebAssembly.Module(readFileSync(new URL(name, import.meta.url))));

export * from "./blake3.js";
