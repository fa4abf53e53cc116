/** Strings are hashed as UTF-8. */
export type HashInput = string | ArrayBuffer | SharedArrayBuffer | ArrayBufferView | ArrayLike<number>;
export type Encoding = "hex" | "base64" | "base64url" | "utf8" | "utf-8";

export interface HashOptions {
  /** Bytes of output; 32 by default. */
  length?: number;
}
export interface DigestOptions extends HashOptions {
  /** `false` keeps the hasher usable. */
  dispose?: boolean;
}
export interface Disposable {
  /** Frees its memory in the WebAssembly module. May be called again. */
  dispose(): void;
}

export declare const defaultHashLength: 32;
/** 2^64 - 1. */
export declare const maxHashBytes: bigint;

/** Bytes of a hash. */
export declare class Hash extends Uint8Array {
  /** Returns whether the hashes are equal, in constant time. */
  equals(other: HashInput): boolean;
  /** In hexadecimal, unless another encoding is given. */
  toString(encoding?: Encoding): string;
  toJSON(): string;
}

/** Extendable output: any number of bytes from any position. */
export declare class HashReader implements Disposable {
  private constructor();
  get position(): bigint;
  set position(value: bigint | number);
  readInto(target: Uint8Array): void;
  read(length: number): Hash;
  /** The first 32 bytes, whatever the position. */
  toArray(): Hash;
  toString(encoding?: Encoding): string;
  dispose(): void;
}

/** Incremental hasher. */
export declare class Hasher implements Disposable {
  private constructor();
  update(data: HashInput, encoding?: "utf8" | "utf-8"): this;
  /** Disposes of the hasher, unless `dispose` is false. */
  digest(options?: DigestOptions): Hash;
  digest(encoding: undefined, options?: DigestOptions): Hash;
  digest(encoding: Encoding, options?: DigestOptions): string;
  reader(options?: { dispose?: boolean }): HashReader;
  /** A copy of the hasher in the same state. */
  clone(): Hasher;
  dispose(): void;
}

/** The hash of `input`. */
export declare function hash(input: HashInput, options?: HashOptions): Hash;
/** The keyed hash (a MAC) of `input` under a key of 32 bytes. */
export declare function keyedHash(key: HashInput, input: HashInput, options?: HashOptions): Hash;
/** A key for the purpose that `context` names: a hard-coded, globally unique string. */
export declare function deriveKey(context: string, material: HashInput, options?: HashOptions): Hash;

export declare function createHash(): Hasher;
export declare function createKeyed(key: HashInput): Hasher;
export declare function createDeriveKey(context: string): Hasher;

/** Calls `fn`, and disposes when it, or the promise that it returns, is done. */
export declare function using<T, D extends Disposable>(disposable: D, fn: (disposable: D) => T): T;

/** The code that hashes in this engine. */
export declare function platform(): "simd128" | "portable";
