import type { Download, GetOptions } from "./index.js";

/** In a service worker's script: answers each request below the worker's scope from the directory that the link names. */
export declare function serve(link: string | URL, options?: GetOptions): void;
/** The answer to a request for `path`: below the site's root, percent-encoded, without a first `/`. */
export declare function answer(download: Download, request: Request, path: string): Promise<Response>;
/** The media type of a name, by what follows its last dot. */
export declare function mediaType(path: string): string;
