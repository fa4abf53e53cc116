#!/usr/bin/env python3
"""The package in Chromium: a page that fetches from another origin's sharer, and a service worker that serves a shared
directory as a site.

Usage: check-browser.py XYLEM CHROMIUM PACKAGE
"""

import sys; sys.dont_write_bytecode = True
import functools
import http.server
import importlib.util
import json
import pathlib
import random
import shutil
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
# Browsers, sharers and proxies are those of the page's own check.
spec = importlib.util.spec_from_file_location("page", HERE.parent / "check-browser.py")
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)

HOME = '<!doctype html><meta charset="utf-8"><title>host</title>'
WORKER = 'import { serve } from "./package/site.js";\nserve(%s);\n'
POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self' ws:"


class Host(http.server.BaseHTTPRequestHandler):
    """A static host: the package, a page, and workers' scripts. It never has a byte of the sites."""

    def __init__(self, files, asked, *rest):
        self.files, self.asked = files, asked
        super().__init__(*rest)

    def do_GET(self):
        path = self.path.split("?")[0]
        self.asked.append(path)
        body = self.files.get(path)
        self.send_response(200 if body is not None else 404)
        kinds = {"js": "text/javascript", "wasm": "application/wasm"}
        self.send_header("Content-Type", kinds.get(path.rsplit(".")[-1], "text/html"))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


FETCHED = """(async () => {
  const { get } = await import("./package/index.js");
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", await get(%s).bytes()));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
})()"""
REGISTERED = """(async () => {
  const one = await navigator.serviceWorker.register(%s, { type: "module", scope: %s });
  const worker = one.installing ?? one.waiting ?? one.active;
  while (worker.state !== "activated") await new Promise((resolve) => worker.addEventListener("statechange", resolve, { once: true }));
  return true;
})()"""
ASKED = """(async () => {
  const answer = await fetch(%s, { headers: %s });
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", await answer.arrayBuffer()));
  const digest = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [answer.status, answer.headers.get("Content-Type"), answer.headers.get("Content-Range"), digest];
})()"""


def check(xylem: str, browser, work: pathlib.Path, package: pathlib.Path):
    data = page.content(work / "film.bin", 9_999_999, 1)
    tree = work / "tree"
    (tree / "deep").mkdir(parents=True)
    film = random.Random(2).randbytes(3_000_000)
    (tree / "index.html").write_text('<!doctype html><title>the site</title><p id="p">wait</p><script src="deep/site.js"></script>')
    (tree / "deep/site.js").write_text('document.getElementById("p").textContent = "scripts run";')
    (tree / "deep/film.webm").write_bytes(film)
    (tree / "404.html").write_text("<!doctype html><title>gone</title>")

    files = {f"/package/{path.name}": path.read_bytes() for path in package.iterdir()}
    files["/"] = HOME.encode()
    asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Host, files, asked))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"http://127.0.0.1:{server.server_port}/"
    shares = [page.Share(xylem, work / "film.bin", work / "store-a"), page.Share(xylem, tree, work / "store-b")]
    try:
        files["/site.js"] = (WORKER % json.dumps(shares[1].link())).encode()
        liar = page.Between(shares[1].host, tamper=True)
        files["/lies.js"] = (WORKER % json.dumps(shares[1].link(liar.at))).encode()

        browser.open(host)
        page.until("the host's page", lambda: browser.run('document.title === "host"'))
        assert browser.run(FETCHED % json.dumps(shares[0].link())) == page.sha(data), "other bytes than were shared"
        print("  a page of another origin: exact bytes of a file")

        assert browser.run(REGISTERED % ('"site.js"', '"site/"'))
        browser.open(f"{host}site/")
        page.until("the site's script", lambda: browser.run('document.title === "the site" && document.getElementById("p").textContent === "scripts run"'))
        assert browser.run(ASKED % ('"deep/film.webm"', "{}")) == [200, "video/webm", None, page.sha(film)]
        part = browser.run(ASKED % ('"deep/film.webm"', '{ Range: "bytes=1000000-1999999" }'))
        assert part == [206, "video/webm", "bytes 1000000-1999999/3000000", page.sha(film[1_000_000:2_000_000])], part
        gone = browser.run(ASKED % ('"nope"', "{}"))
        assert gone[:2] == [404, "text/html; charset=utf-8"], gone
        assert not [path for path in asked if path.startswith("/site/")], "the host was asked for the site"
        print("  a site by the service worker: page, script, a part of a film, 404; nothing of it from the host")

        browser.open(host)
        page.until("the host's page", lambda: browser.run('document.title === "host"'))
        assert browser.run(REGISTERED % ('"lies.js"', '"lies/"'))
        status = browser.run(ASKED % ('"lies/deep/film.webm"', "{}"))
        # The page is out of the worker's scope, so the host answers.
        assert status[0] == 404, status
        browser.open(f"{host}lies/index.html")
        page.until("an answer", lambda: browser.run('document.readyState === "complete" && document.body?.textContent'))
        outcome = browser.run('fetch("deep/film.webm").then((one) => one.arrayBuffer().then(() => one.status), () => "ended")')
        assert outcome in (502, "ended") and liar.changed, (outcome, liar.changed)
        print(f"  a site of a sharer that changed {liar.changed} pieces: an error, no byte")
    finally:
        for share in shares:
            share.close()


def main() -> int:
    xylem, chromium, package = sys.argv[1:]
    home = tempfile.mkdtemp(prefix="xylem-npm-")
    work = pathlib.Path(home, "work")
    work.mkdir()
    browser = page.Chromium(chromium, home)
    try:
        print("the package in Chromium:")
        check(xylem, browser, work, pathlib.Path(package))
    finally:
        browser.close()
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
