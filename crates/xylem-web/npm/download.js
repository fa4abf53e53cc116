// What the package gives: `Download`, one publication, and its files, each of which is read from anywhere, as often as
// wanted. Only what is read is fetched, and little ahead of its reader.
import { Engine, XylemError, parseLink } from "./engine.js";

const AHEAD = 8 << 20; // maximum bytes that are fetched before a reader takes them
const SEGMENT = 8192; // the largest segment; smaller ones divide it
const STEP = 1 << 20; // a reader asks for so many bytes at a time
const LINGER_MS = 5000; // a connection that nothing is read from is closed after so long
const TIMEOUT_MS = 60_000;

/** One connection to the sharers, and what is read over it. Positions are those among all files' bytes, one behind the other. */
class Session {
  over = false;
  #engine;
  #signal;
  #readers = new Set();
  #shared = new Set();
  #whole = new Set(); // files of which every byte was read
  #opened = resolvers();
  #filled; // the number of files that are not empty
  #manifest;
  #linger;

  constructor(instance, link, { signal, timeout = TIMEOUT_MS }, socket) {
    this.#engine = new Engine(instance, this, { socket, timeout });
    this.#signal = signal;
    signal?.addEventListener("abort", this.#abort);
    this.opened = this.#opened.promise;
    this.opened.catch(() => {}); // given to those that wait for it
    this.#engine.start(link).catch((error) => this.#engine.fail(error));
  }

  #abort = () => this.close(this.#signal.reason);

  // ---- what the engine reports ----

  report(event) {
    if (event.is === "failed") this.close(event.error);
    else if (event.is === "manifest") this.#manifest = event;
    else if (event.is === "layout") {
      this.#engine.exports.begin_reading();
      this.layout = { name: this.#manifest.name, size: event.bytes, directory: this.#manifest.directory, files: event.files };
      this.#filled = event.files.filter(([, bytes]) => bytes > 0).length;
      this.#opened.resolve(this);
      this.#settle();
    }
  }

  run(offset, bytes) {
    for (const reader of this.#readers) reader.add(offset, bytes);
  }

  nodes() {} // they would serve a later visit

  // ---- readers ----

  join(reader) {
    if (this.over) return reader.fail(new XylemError("closed", "the download was closed"));
    clearTimeout(this.#linger);
    this.#engine.silent = false;
    this.#engine.forgive();
    this.#readers.add(reader);
    this.reopen(reader.number);
  }

  /** Whether several readers had the file since it was opened. */
  isShared(number) { return this.#shared.has(number); }

  /** Wants bytes of a file, by their places in it. */
  want(number, start, end) {
    this.#engine.exports.want(number, start, end);
    this.#engine.schedule();
  }

  leave(reader) {
    if (!this.#readers.delete(reader) || this.over) return;
    if (reader.isWhole) this.#whole.add(reader.number);
    else if ([...this.#readers].some((one) => one.number === reader.number)) this.reopen(reader.number);
    if (![...this.#readers].some((one) => one.number === reader.number)) this.#engine.exports.close_file(reader.number);
    // Sharers show and count complete fetches.
    if (reader.isWhole && this.#whole.size === this.#filled) {
      this.#engine.exports.all_read();
      this.#engine.sendNotices();
      if (this.#readers.size === 0) return this.close();
    }
    this.#settle();
  }

  /**
   * Bytes that came for one reader do not come again for another that was elsewhere then, before the file is opened anew. Then
   * each reader wants what it lacks.
   */
  reopen(number) {
    const { exports } = this.#engine;
    const readers = [...this.#readers].filter((reader) => reader.number === number);
    if (readers.length > 1) this.#shared.add(number);
    else this.#shared.delete(number);
    exports.close_file(number);
    if (exports.open_file(number) === 0) return this.close(new XylemError("unfit", "too many files are read at once"));
    for (const reader of readers) reader.wantMissing(this);
  }

  #settle() {
    if (this.#readers.size > 0 || this.over) return;
    this.#engine.silent = true;
    this.#linger = setTimeout(() => this.close(), LINGER_MS);
  }

  close(error) {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.#linger);
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#engine.close();
    const why = error ?? new XylemError("closed", "the download was closed");
    this.#opened.reject(why);
    for (const reader of this.#readers) reader.fail(why);
  }
}

function resolvers() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}

/** Bytes of one file in order, as an async iterator. Those that came too early wait here. */
class Reader {
  #at; // of the next byte to give
  #end;
  #start;
  #wanted; // up to where bytes are wanted
  #parts = []; // proven bytes at or after `#at`, by their place
  #base;
  #size;
  #session;
  #error;
  #done = false;
  #wake = [];
  #open;
  #options;

  /** `open`: returns a promise of the session and the file's number. */
  constructor(open, options) {
    this.#open = open;
    this.#options = options;
    const { signal } = options;
    if (signal?.aborted) this.#error = signal.reason;
    signal?.addEventListener("abort", this.#abort);
  }

  #abort = () => {
    this.#parts = [];
    this.fail(this.#options.signal.reason);
  };

  /** Whether every byte of its file was given. */
  get isWhole() { return this.#start === this.#base && this.#at === this.#base + this.#size; }

  async next() {
    if (this.#open && !this.#error) {
      const open = this.#open;
      this.#open = undefined;
      try {
        this.#begin(await open());
      } catch (error) {
        this.fail(error);
      }
    }
    for (;;) {
      if (this.#done) return { done: true, value: undefined };
      const value = this.#take();
      if (value) {
        const given = this.#at - this.#start, size = this.#end - this.#start;
        if (this.#at === this.#end) this.#finish();
        this.#options.progress?.({ path: this.path, bytes: given, size });
        return { done: false, value };
      }
      if (this.#error) throw this.#error;
      await new Promise((resolve) => this.#wake.push(resolve));
    }
  }

  async return(value) {
    this.#finish();
    return { done: true, value };
  }

  [Symbol.asyncIterator]() { return this; }

  #begin({ session, number, path, size, base }) {
    if (this.#done || this.#error) return;
    const { start = 0, end = Infinity } = this.#options;
    if (!(start >= 0 && start <= end)) throw new RangeError(`not a range: ${start} to ${end}`);
    [this.number, this.path, this.#base, this.#size] = [number, path, base, size];
    this.#start = this.#at = this.#wanted = base + Math.min(start, size);
    this.#end = base + Math.min(end, size);
    if (this.#at === this.#end) return this.#finish();
    this.#session = session;
    session.join(this);
  }

  add(offset, bytes) {
    const from = Math.max(offset, this.#at), to = Math.min(offset + bytes.length, this.#wanted);
    if (from >= to) return;
    const part = { offset: from, bytes: bytes.slice(from - offset, to - offset) };
    const after = this.#parts.findLastIndex((one) => one.offset <= from);
    this.#parts.splice(after + 1, 0, part);
    if (from === this.#at) this.#awake();
  }

  // The next bytes in order, if they are here.
  #take() {
    while (this.#parts[0]?.offset <= this.#at) {
      const { offset, bytes } = this.#parts.shift();
      if (offset + bytes.length <= this.#at) continue; // came twice
      const value = bytes.subarray(this.#at - offset);
      this.#at += value.length;
      this.#wantMore();
      return value;
    }
    return undefined;
  }

  // Whole segments, as the rest of one that came is not kept.
  #target() {
    const ahead = Math.ceil((this.#at - this.#base + AHEAD) / SEGMENT) * SEGMENT;
    return Math.min(this.#end, this.#base + ahead);
  }

  #wantMore() {
    const target = this.#target(), fresh = target - this.#wanted;
    if (this.#error || fresh === 0 || (fresh < STEP && target < this.#end)) return;
    if (this.#session.isShared(this.number)) {
      // All readers lose what is under way, so this one first uses up what it has.
      if (this.#at === this.#wanted) this.#session.reopen(this.number);
      return;
    }
    this.#session.want(this.number, this.#wanted - this.#base, target - this.#base);
    this.#wanted = target;
  }

  /** Wants what was wanted and has not come; if that is nothing, the next bytes. */
  wantMissing(session) {
    if (this.#at === this.#wanted) this.#wanted = this.#target();
    let at = this.#at;
    for (const { offset, bytes } of [...this.#parts, { offset: this.#wanted, bytes: [] }]) {
      if (at < offset) session.want(this.number, at - this.#base, offset - this.#base);
      at = Math.max(at, offset + bytes.length);
    }
  }

  #awake() {
    for (const resolve of this.#wake.splice(0)) resolve();
  }

  /** What is proven up to here is given before the error. */
  fail(error) {
    if (this.#done || this.#error) return;
    this.#error = error;
    this.#leave();
  }

  #finish() {
    this.#done = true;
    this.#parts = [];
    this.#leave();
  }

  #leave() {
    this.#options.signal?.removeEventListener("abort", this.#abort);
    this.#session?.leave(this);
    this.#awake();
  }
}

/** One file. Its `size`, `mode` and `modified` are there once its download is open. */
class DownloadFile {
  #download;
  #made;

  constructor(download, path, made) {
    this.#download = download;
    this.#made = made;
    this.path = path;
  }

  get size() { return this.#made?.size; }
  get mode() { return this.#made?.mode; }
  get modified() { return this.#made && new Date(this.#made.seconds * 1000 + Math.floor(this.#made.nanos / 1e6)); }

  /** Waits for `size`, `mode` and `modified`. */
  async open() {
    await this.#download.connect();
    this.#made ??= this.#download.find(this.path);
    return this;
  }

  /** The bytes from `start` up to `end`, each proven before it is given. */
  read(options = {}) {
    const all = { ...this.#download.options, ...options };
    return new Reader(async () => {
      const session = await this.#download.connect();
      this.#made ??= this.#download.find(this.path);
      return { ...this.#made, session };
    }, all);
  }

  [Symbol.asyncIterator]() { return this.read(); }

  stream(options) {
    const reader = this.read(options);
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await reader.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => reader.return(),
    }, { highWaterMark: 0 });
  }

  async bytes(options) {
    const parts = [];
    for await (const part of this.read(options)) parts.push(part);
    const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  async blob(options) {
    const parts = [];
    for await (const part of this.read(options)) parts.push(part);
    return new Blob(parts);
  }
}

/** One publication. Nothing is fetched before something is asked of it. */
class Download {
  #link;
  #host;
  #session;
  #byPath;

  constructor(host, link, options) {
    this.#host = host;
    this.#link = String(link);
    Object.defineProperty(this, "options", { value: options });
  }

  async #start() {
    const link = parseLink(this.#link);
    const [instance, socket] = await Promise.all([this.#host.program().then((module) => WebAssembly.instantiate(module, {})), this.options.WebSocket ?? this.#host.socket()]);
    this.options.signal?.throwIfAborted();
    return new Session(instance, link, this.options, socket);
  }

  /** Internal: the session, which is made anew after it was closed. */
  async connect() {
    this.options.signal?.throwIfAborted();
    const last = this.#session;
    const over = last && (await last.then((session) => session.over, () => true));
    if (over && this.#session === last) this.#session = undefined;
    this.#session ??= this.#start();
    const session = await (await this.#session).opened;
    if (!this.files) this.#fill(session.layout);
    return session;
  }

  #fill({ name, size, directory, files }) {
    Object.assign(this, { name, size, directory });
    const places = files.map(([path, size, base, mode, seconds, nanos], number) => ({ number, path, size, base, mode, seconds, nanos }));
    this.files = places.map((place) => new DownloadFile(this, place.path, place));
    this.#byPath = new Map(places.map((place) => [place.path, place]));
  }

  /** Internal: the place of a file. */
  find(path) {
    if (path === undefined && this.directory) throw new XylemError("directory", "this link leads to a directory: read its `files`, or `file(path)`");
    const made = path === undefined ? this.#byPath.values().next().value : this.#byPath.get(path);
    if (!made) throw new XylemError("no-such-file", `there is no file ${path}`);
    return made;
  }

  /** Waits for `name`, `size`, `directory` and `files`. */
  async open() {
    await this.connect();
    return this;
  }

  /** Whether the open download has a file of this path. */
  has(path) { return this.#byPath.has(path); }

  /** A file of a directory. */
  file(path) { return new DownloadFile(this, String(path)); }

  #only() { return new DownloadFile(this); }
  read(options) { return this.#only().read(options); }
  stream(options) { return this.#only().stream(options); }
  bytes(options) { return this.#only().bytes(options); }
  blob(options) { return this.#only().blob(options); }
  [Symbol.asyncIterator]() { return this.read(); }

  /** Ends what is under way, and closes the connections. What is read later opens them again. */
  async close() {
    const session = await this.#session?.catch(() => undefined);
    session?.close();
  }
  [Symbol.asyncDispose ?? Symbol("asyncDispose")]() { return this.close(); }
}

/** `host`: promises of the WebAssembly module (`program`) and of the class WebSocket (`socket`). */
export const getOn = (host) => (link, options = {}) => new Download(host, link, options);
