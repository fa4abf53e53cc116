// The entry point in a browser, a worker and a service worker: fetches the WebAssembly module from beside this file. Under a
// Content-Security-Policy, `script-src` needs 'wasm-unsafe-eval', and `connect-src` the sharers.
import { XylemError } from "./engine.js";
import { getOn } from "./download.js";

let compiled;
async function program() {
  const answer = await fetch(new URL("./xylem.wasm", import.meta.url));
  if (!answer.ok) throw new XylemError("no-program", `${answer.url}: ${answer.status}`);
  return WebAssembly.compile(await answer.arrayBuffer());
}

export const get = getOn({
  program: () => (compiled ??= program().catch((error) => { compiled = undefined; throw error; })),
  socket: async () => WebSocket,
});
export { XylemError };
