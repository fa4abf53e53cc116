// The entry point in Node: reads the WebAssembly module from disk. Node has WebSocket from version 22 on; before, the package
// `ws` is used.
import { readFile } from "node:fs/promises";
import { XylemError } from "./engine.js";
import { getOn } from "./download.js";

let compiled;
const program = async () => WebAssembly.compile(await readFile(new URL("./xylem.wasm", import.meta.url)));

async function socket() {
  if (globalThis.WebSocket) return globalThis.WebSocket;
  try {
    return (await import("ws")).WebSocket;
  } catch (cause) {
    throw new XylemError("no-websocket", "this Node has no WebSocket: take Node 22, or npm install ws", { cause });
  }
}

export const get = getOn({ program: () => (compiled ??= program()), socket });
export { XylemError };
