/** Why nothing, or nothing more, is given. */
export type XylemErrorCode =
  /** The link, its ticket or one of its addresses is wrong. */
  | "bad-link"
  /** The ticket is not from `xylem share --web`, or its content is more than a browser can hold. */
  | "unfit"
  /** It is encrypted for its recipients. */
  | "encrypted"
  /** The sharers do not share this (any more). */
  | "not-shared"
  /** No sharer was connected for `timeout` milliseconds. */
  | "unreachable"
  /** Sharers are connected, and none has sent anything that can be proven for a minute. */
  | "no-progress"
  /** Every sharer has sent data that are not the publisher's. None of these was given. */
  | "lying"
  /** The link leads to a directory, and no file was named. */
  | "directory"
  | "no-such-file"
  /** `close` was called. */
  | "closed"
  /** This Node has no WebSocket. */
  | "no-websocket"
  /** xylem.wasm could not be loaded. */
  | "no-program";

export declare class XylemError extends Error {
  readonly name: "XylemError";
  readonly code: XylemErrorCode;
}

export interface ReadOptions {
  /** Ends it: what waits is rejected with the signal's reason. */
  signal?: AbortSignal;
  /** Called whenever bytes are given. */
  progress?: (state: { path: string; bytes: number; size: number }) => void;
}
export interface RangeOptions extends ReadOptions {
  /** The first byte; 0 by default. */
  start?: number;
  /** The end, exclusive; that of the file by default. */
  end?: number;
}
export interface GetOptions extends ReadOptions {
  /** Milliseconds without a connected sharer until it fails; 60,000 by default. */
  timeout?: number;
  /** The class to connect with, in place of the engine's own. */
  WebSocket?: typeof WebSocket;
}

/** Bytes, each of them proven from the publisher's signature before it is given. Reads again with each call. */
export interface Readable extends AsyncIterable<Uint8Array> {
  read(options?: RangeOptions): AsyncIterableIterator<Uint8Array>;
  stream(options?: RangeOptions): ReadableStream<Uint8Array>;
  bytes(options?: RangeOptions): Promise<Uint8Array>;
  blob(options?: RangeOptions): Promise<Blob>;
}

export interface DownloadFile extends Readable {
  readonly path: string;
  /** These three are there when it, or its download, is open. */
  readonly size?: number;
  readonly mode?: number;
  readonly modified?: Date;
  open(): Promise<OpenFile>;
}

export interface OpenFile extends DownloadFile {
  readonly size: number;
  /** Permission bits. */
  readonly mode: number;
  readonly modified: Date;
}

/** Name, size and files of a publication, signed by its publisher. It chooses the names, so they are shown as text alone. */
export interface Listing {
  readonly name: string;
  /** Bytes of all files. */
  readonly size: number;
  readonly directory: boolean;
  readonly files: readonly OpenFile[];
}

/** Reading the download itself reads its file, if it is no directory. */
export interface Download extends Readable, Partial<Listing> {
  open(): Promise<this & Listing>;
  /** A file of a directory, by its path with `/`. */
  file(path: string): DownloadFile;
  /** Whether the open download has a file of this path. */
  has(path: string): boolean;
  /** Ends what is under way and closes the connections, as happens by itself 5 s after the last read. */
  close(): Promise<void>;
}

/** The publication that a link of `xylem share --web` names. Nothing is fetched before something is asked of it. */
export declare function get(link: string | URL, options?: GetOptions): Download;
