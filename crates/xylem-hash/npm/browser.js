// The entry point in a browser: fetches the module from beside this file. Under a Content-Security-Policy, `script-src`
// needs 'wasm-unsafe-eval'.
import { name } from "./module.js";
import { start } from "./blake3.js";

// Written out twice, as bundlers recognize only this form.
const url =
  name === "simd128.wasm"
    ? new URL("./simd128.wasm", import.meta.url)
    : new URL("./portable.wasm", import.meta.url);
const answer = await fetch(url);
if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
start(await WebAssembly.compile(await answer.arrayBuffer()));

export * from "./blake3.js";
