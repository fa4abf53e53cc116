#!/usr/bin/env python3
"""The package in a browser, imported as a page imports it, under a Content-Security-Policy.

Usage: check-browser.py CHROMIUM PACKAGE VECTORS
"""

import sys; sys.dont_write_bytecode = True
import functools
import http.server
import pathlib
import re
import subprocess
import tempfile
import threading

PAGE = """<!doctype html><meta charset="utf-8"><title>check</title><p id="out">nothing ran</p>
<script type="module" src="page.js"></script>"""
SCRIPT = """
import * as b3 from "./browser.js";
import { check } from "./check.js";
const vectors = await (await fetch("./vectors.txt")).text();
const { wrong, checks } = check(b3, vectors);
document.getElementById("out").textContent = [`${b3.platform()}: ${checks} checks, ${wrong.length} wrong`, ...wrong].join("\\n");
document.title = "done";
const report = await fetch("/report", { method: "POST", body: document.getElementById("out").textContent });
"""
POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'"


class Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, files, reported, *rest):
        self.files, self.reported = files, reported
        super().__init__(*rest)

    def do_GET(self):
        body = self.files.get(self.path)
        self.send_response(200 if body is not None else 404)
        kinds = {"js": "text/javascript", "wasm": "application/wasm", "txt": "text/plain"}
        self.send_header("Content-Type", kinds.get(self.path.rsplit(".")[-1], "text/html"))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def do_POST(self):
        said = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(204)
        self.end_headers()
        self.reported.append(said)
        self.reported[0].set()

    def log_message(self, *_):
        pass


def main() -> int:
    chromium, package, vectors = sys.argv[1:]
    here = pathlib.Path(__file__).parent
    files = {f"/{p.name}": p.read_bytes() for p in pathlib.Path(package).iterdir() if p.is_file()}
    files |= {"/": PAGE.encode(), "/page.js": SCRIPT.encode(), "/check.js": (here / "check.js").read_bytes()}
    files["/vectors.txt"] = pathlib.Path(vectors).read_bytes()
    reported = [threading.Event()]
    handler = functools.partial(Handler, files, reported)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={home}"]
        browser = subprocess.Popen([*command, f"http://127.0.0.1:{server.server_port}/"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            reported[0].wait(120)
        finally:
            browser.terminate()
            browser.wait()
    if len(reported) < 2:
        print("the browser has said nothing in two minutes")
        return 1
    print("in the browser,", reported[1])
    return 0 if re.match(r"simd128: [1-9]\d* checks, 0 wrong$", reported[1]) else 1


if __name__ == "__main__":
    sys.exit(main())
