// A service worker that serves a shared directory as a site: `serve(link)` in the worker's script answers each request below
// its scope from the directory. Only what is asked for is fetched, and each byte is proven before it leaves.
import { XylemError, get } from "./index.js";

const TYPES = {
  html: "text/html; charset=utf-8", htm: "text/html; charset=utf-8", xhtml: "application/xhtml+xml", css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8", mjs: "text/javascript; charset=utf-8", json: "application/json", map: "application/json",
  webmanifest: "application/manifest+json", wasm: "application/wasm", xml: "application/xml", txt: "text/plain; charset=utf-8",
  md: "text/plain; charset=utf-8", csv: "text/csv; charset=utf-8", pdf: "application/pdf", zip: "application/zip",
  svg: "image/svg+xml", png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp",
  avif: "image/avif", ico: "image/x-icon", woff: "font/woff", woff2: "font/woff2", ttf: "font/ttf", otf: "font/otf",
  mp3: "audio/mpeg", ogg: "audio/ogg", wav: "audio/wav", flac: "audio/flac", m4a: "audio/mp4",
  mp4: "video/mp4", webm: "video/webm", mov: "video/quicktime", vtt: "text/vtt; charset=utf-8",
};

/** The media type of a name, by what follows its last dot. */
export function mediaType(path) {
  const ending = /\.([^./]+)$/.exec(path)?.[1].toLowerCase();
  return Object.hasOwn(TYPES, ending ?? "") ? TYPES[ending] : "application/octet-stream";
}

/** The bytes that a Range header names: `undefined` for all, `null` for none of them. Several ranges count as all. */
function ranged(header, size) {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(header ?? "") ?? [];
  if (first === undefined || (first === "" && last === "") || (first && last && Number(last) < Number(first))) return undefined;
  const start = first === "" ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === "" || last === "" ? size : Math.min(size, Number(last) + 1);
  return start < end ? { start, end } : null;
}

const line = (status, text, headers = {}) => new Response(`${text}\n`, {
  status,
  headers: { "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff", ...headers },
});

/** The answer to a request for `path` (below the site's root, percent-encoded) from a directory's download. */
export async function answer(download, request, path) {
  if (!["GET", "HEAD"].includes(request.method)) return line(405, "only GET and HEAD are allowed", { Allow: "GET, HEAD" });
  let name;
  try {
    name = decodeURIComponent(path);
  } catch {
    return line(400, "not a path");
  }
  try {
    await download.open();
    if (!download.directory) throw new XylemError("unfit", "the link leads to a single file: a site is a directory");
    const there = (file) => download.has(file);
    if (name === "" || name.endsWith("/")) name += "index.html";
    else if (!there(name) && there(`${name}/index.html`)) return new Response(null, { status: 301, headers: { Location: `${request.url.split(/[?#]/)[0]}/` } });
    if (there(name)) return await content(download.file(name), request, 200);
    return there("404.html") ? await content(download.file("404.html"), request, 404) : line(404, "no such file");
  } catch (error) {
    return line(502, error.message);
  }
}

async function content(file, request, status) {
  const { size } = await file.open();
  const headers = { "Content-Type": mediaType(file.path), "X-Content-Type-Options": "nosniff", "Accept-Ranges": "bytes" };
  // There is no entity tag that If-Range could name.
  const range = status === 200 && !request.headers.has("If-Range") ? ranged(request.headers.get("Range"), size) : undefined;
  if (range === null) return line(416, "no such bytes", { "Content-Range": `bytes */${size}` });
  const { start, end } = range ?? { start: 0, end: size };
  headers["Content-Length"] = String(end - start);
  if (range) headers["Content-Range"] = `bytes ${start}-${end - 1}/${size}`;
  const init = { status: range ? 206 : status, headers };
  if (request.method === "HEAD") return new Response(null, init);
  // The first bytes are awaited: if they cannot be had, the answer is an error.
  const signal = request.signal;
  const reader = file.read({ start, end, signal });
  let first = await reader.next();
  return new Response(new ReadableStream({
    async pull(controller) {
      const { done, value } = first ?? (await reader.next());
      first = undefined;
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => reader.return(),
  }, { highWaterMark: 0 }), init);
}

/** Makes this service worker answer each request below its scope from the directory that `link` names. */
export function serve(link, options) {
  const download = get(link, options);
  addEventListener("install", () => skipWaiting());
  addEventListener("activate", (event) => event.waitUntil(clients.claim()));
  addEventListener("fetch", (event) => {
    const url = event.request.url.split(/[?#]/)[0];
    const { scope } = registration;
    if (url.startsWith(scope)) event.respondWith(answer(download, event.request, url.slice(scope.length)));
  });
}
