// BLAKE3 with the names of the npm package `blake3`, over the module that src/lib.rs makes.

let x;
let stage;

/** Called once, by node.js or browser.js. @hidden */
export function start(module) {
  x = new WebAssembly.Instance(module, {}).exports;
  stage = x.stage_length();
}

/** `length` bytes of the module's memory, which may have grown since the last call. */
const staged = (length) => new Uint8Array(x.memory.buffer, x.stage(), length);

const freed = globalThis.FinalizationRegistry && new FinalizationRegistry((at) => x.release(at));

/** Default length of output in bytes. */
export const defaultHashLength = 32;
/** Most bytes of output: 2^64 - 1. */
export const maxHashBytes = 2n ** 64n - 1n;

const KEY_LENGTH = 32;

function toBytes(input) {
  if (typeof input === "string") return new TextEncoder().encode(input);
  if (input instanceof Uint8Array) return input;
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  if (input instanceof ArrayBuffer) return new Uint8Array(input);
  if (globalThis.SharedArrayBuffer && input instanceof SharedArrayBuffer) return new Uint8Array(input);
  if (input !== null && typeof input === "object" && Number.isInteger(input.length)) {
    return Uint8Array.from(input);
  }
  throw new TypeError("a string, an ArrayBuffer, a view of one, or an array of bytes is hashed");
}

function lengthOf({ length = defaultHashLength } = {}) {
  if (!Number.isSafeInteger(length) || length < 0) throw new RangeError(`no length: ${length}`);
  return length;
}

/** Bytes of a hash. */
export class Hash extends Uint8Array {
  // `slice` and `map` return plain bytes, not a hash.
  static get [Symbol.species]() {
    return Uint8Array;
  }

  /** Returns whether the hashes are equal, in constant time. */
  equals(other) {
    const bytes = toBytes(other);
    if (bytes.length !== this.length) return false;
    let difference = 0;
    for (let i = 0; i < this.length; i++) difference |= this[i] ^ bytes[i];
    return difference === 0;
  }

  toString(encoding = "hex") {
    switch (encoding) {
      case "hex":
        return Array.from(this, (byte) => byte.toString(16).padStart(2, "0")).join("");
      case "base64":
        return btoa(Array.from(this, (byte) => String.fromCharCode(byte)).join(""));
      case "base64url":
        return this.toString("base64").replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
      case "utf8":
      case "utf-8":
        return new TextDecoder().decode(this);
      default:
        throw new RangeError(`unknown encoding: ${encoding}`);
    }
  }

  toJSON() {
    return this.toString();
  }
}

/** An index into the module's table, released by `dispose` or with this object. */
class Held {
  #at;
  constructor(at) {
    this.#at = at;
    freed?.register(this, at, this);
  }
  get at() {
    if (this.#at === undefined) throw new Error("it has been disposed of");
    return this.#at;
  }
  /** Frees its memory in the module. May be called again. */
  dispose() {
    if (this.#at === undefined) return;
    freed?.unregister(this);
    x.release(this.#at);
    this.#at = undefined;
  }
}
if (Symbol.dispose) {
  Held.prototype[Symbol.dispose] = Held.prototype.dispose;
}

/** Extendable output: any number of bytes from any position. */
export class HashReader extends Held {
  #position = 0n;

  get position() {
    return this.#position;
  }
  set position(value) {
    const position = BigInt(value);
    if (position < 0n || position > maxHashBytes) throw new RangeError(`no position: ${value}`);
    this.#position = position;
  }

  readInto(target) {
    const end = this.#position + BigInt(target.length);
    if (end > maxHashBytes) throw new RangeError("past the end of the output");
    x.seek(this.at, this.#position);
    for (let from = 0; from < target.length; from += stage) {
      const now = Math.min(stage, target.length - from);
      x.fill(this.at, now);
      target.set(staged(now), from);
      x.wipe(now);
    }
    this.#position = end;
  }

  read(length) {
    const hash = new Hash(lengthOf({ length }));
    this.readInto(hash);
    return hash;
  }

  /** The first 32 bytes, whatever the position. */
  toArray() {
    const before = this.#position;
    this.#position = 0n;
    try {
      return this.read(defaultHashLength);
    } finally {
      this.#position = before;
    }
  }

  toString(encoding = "hex") {
    return this.toArray().toString(encoding);
  }
}

/** Incremental hasher. */
export class Hasher extends Held {
  update(data, encoding) {
    if (encoding !== undefined && !/^utf-?8$/i.test(encoding)) {
      throw new RangeError(`unknown encoding: ${encoding}`);
    }
    const bytes = toBytes(data);
    for (let from = 0; from < bytes.length; from += stage) {
      const piece = bytes.subarray(from, from + stage);
      staged(piece.length).set(piece);
      x.update(this.at, piece.length);
    }
    return this;
  }

  /** The hash of the input: bytes, or text if an encoding is given. Disposes, unless `dispose` is false. */
  digest(encoding, options) {
    if (typeof encoding === "object" && encoding !== null) [encoding, options] = [undefined, encoding];
    const length = lengthOf(options);
    const reader = new HashReader(x.output(this.at));
    try {
      const hash = reader.read(length);
      return encoding ? hash.toString(encoding) : hash;
    } finally {
      reader.dispose();
      if (options?.dispose !== false) this.dispose();
    }
  }

  reader({ dispose = true } = {}) {
    const reader = new HashReader(x.output(this.at));
    if (dispose) this.dispose();
    return reader;
  }

  /** A copy of the hasher in the same state. */
  clone() {
    return new Hasher(x.copy(this.at));
  }
}

function begin(mode, bytes) {
  if (bytes.length > stage) throw new RangeError(`a context has at most ${stage} bytes`);
  staged(bytes.length).set(bytes);
  return new Hasher(x.begin(mode, bytes.length));
}

export const createHash = () => begin(0, new Uint8Array());

export function createKeyed(key) {
  const bytes = toBytes(key);
  if (bytes.length !== KEY_LENGTH) throw new RangeError(`a key has ${KEY_LENGTH} bytes, not ${bytes.length}`);
  return begin(1, bytes);
}

export function createDeriveKey(context) {
  if (typeof context !== "string") throw new TypeError("a context is a string");
  return begin(2, toBytes(context));
}

/** The hash of `input`. */
export function hash(input, options) {
  const bytes = toBytes(input);
  if (bytes.length > stage || lengthOf(options) !== defaultHashLength) {
    return createHash().update(bytes).digest(options ?? {});
  }
  staged(bytes.length).set(bytes);
  x.once(bytes.length);
  return new Hash(staged(defaultHashLength));
}

/** The keyed hash (a MAC) of `input` under a key of 32 bytes. */
export const keyedHash = (key, input, options) => createKeyed(key).update(input).digest(options ?? {});

/** A key for the purpose that `context` names. */
export function deriveKey(context, material, options) {
  const key = createDeriveKey(context).update(material).digest(options ?? {});
  x.wipe(stage);
  return key;
}

/** Calls `fn`, and disposes when it, or the promise that it returns, is done. */
export function using(disposable, fn) {
  let result;
  try {
    result = fn(disposable);
  } catch (error) {
    disposable.dispose();
    throw error;
  }
  if (typeof result?.then === "function") return result.finally(() => disposable.dispose());
  disposable.dispose();
  return result;
}

/** The code that hashes in this engine: "simd128", or "portable". */
export function platform() {
  return new TextDecoder().decode(staged(x.backend()).slice());
}
