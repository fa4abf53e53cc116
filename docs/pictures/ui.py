#!/usr/bin/env python3
"""The page of `xylem ui` in a real browser: what it shows while things are fetched, its keys, its widths; and its
pictures (ui-light.png, ui-dark.png, ui-phone.png).

Usage: ui.py CHROMIUM XYLEM [FOLDER]   FOLDER: where the pictures go; without it they are only looked at
"""

import sys; sys.dont_write_bytecode = True
import base64
import contextlib
import json
import os
import pathlib
import queue
import random
import subprocess
import tempfile
import threading
import time

LIMIT = 120
MAX_PICTURE = 150_000


class Browser:
    """Chromium over its debugging pipe: requests and answers are JSON, ended by a zero byte."""

    def __init__(self, chromium, home):
        from_browser, browser_out = os.pipe()
        browser_in, self.to_browser = os.pipe()

        def give():
            os.dup2(browser_in, 13), os.dup2(browser_out, 14)
            os.dup2(13, 3), os.dup2(14, 4)

        command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--force-color-profile=srgb", "--remote-debugging-pipe", f"--user-data-dir={home}", "about:blank"]
        self.process = subprocess.Popen(command, preexec_fn=give, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(browser_in), os.close(browser_out)
        self.answers, self.events, self.number, self.session = {}, [], 0, None
        self.came = queue.Queue()
        threading.Thread(target=self.read, args=(from_browser,), daemon=True).start()
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log"]:
            self.ask(f"{domain}.enable")

    def read(self, pipe):
        held = b""
        while piece := os.read(pipe, 1 << 20):
            *whole, held = (held + piece).split(b"\0")
            for message in whole:
                self.came.put(json.loads(message))

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.came.get(timeout=LIMIT)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def of(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, what, expression):
        end = time.monotonic() + LIMIT
        while not (value := self.of(expression)):
            if time.monotonic() > end:
                raise SystemExit(f"the page never showed {what}; it shows: " + str(self.of("document.body.innerText")))
            time.sleep(0.2)
        return value

    def key(self, key):
        for kind in ["keyDown", "keyUp"]:
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 and kind == "keyDown" else "")

    def looks(self, width, height, scheme="light", mobile=False, scale=1):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile)
        features = [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
        self.ask("Emulation.setEmulatedMedia", features=features)
        time.sleep(0.6)

    def picture(self, folder, name):
        data = base64.b64decode(self.ask("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"])
        assert len(data) < MAX_PICTURE, f"{name}: {len(data)} bytes"
        if folder:
            (folder / name).write_bytes(data)
        return len(data)


def check(holds, what):
    if not holds:
        raise SystemExit(f"ui: {what}")


@contextlib.contextmanager
def running(*command, first_line=False):
    """A process that is ended; yields the first line that it prints, where that is wanted."""
    out = subprocess.PIPE if first_line else subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process.stdout.readline().strip() if first_line else None
    finally:
        process.terminate()
        process.wait()


def see(browser, url, folder):
    browser.looks(1100, 860)
    browser.ask("Page.navigate", url=url)
    browser.until("that it is live", "document.querySelector('#state')?.className === 'live'")
    fetches = "[...document.querySelectorAll('#fetches canvas.map')].map((map) => map.getAttribute('aria-label'))"
    browser.until("two fetches", f"{fetches}.length === 2")
    browser.until("all parts", "['shares', 'peers', 'node', 'links'].every((id) => document.querySelector(`#${id} table, #${id} canvas`))")
    before = browser.of(fetches)
    browser.until("a fetch that grows", f"JSON.stringify({fetches}) !== {json.dumps(json.dumps(before, separators=(',', ':'), ensure_ascii=False))}")
    # The map is drawn: pixels of more than one colour.
    colours = """(() => { const map = document.querySelector('#fetches canvas.map'); const pen = map.getContext('2d');
        const data = pen.getImageData(0, 0, map.width, map.height).data, seen = new Set();
        for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add(data.slice(i, i + 3).join()); return seen.size; })()"""
    check(browser.of(colours) >= 2, "the piece map is blank")
    browser.until("a fetch that is a third done", "[...document.querySelectorAll('#fetches .big')].some((e) => parseInt(e.textContent) >= 33)")

    # A share tells what went to whom.
    took = "[...document.querySelectorAll('#peers tbody tr')].some((row) => row.cells[2].textContent.startsWith('share') && /[1-9]/.test(row.cells[4].textContent))"
    browser.until("what a peer of a share took", took)

    # Keys.
    focus = "document.activeElement.id"
    for key, expected in [("j", "fetches"), ("j", "shares"), ("j", "folders"), ("k", "shares"), ("6", "links"), ("j", "links"), ("1", "fetches")]:
        browser.key(key)
        check(browser.of(focus) == expected, f"{key} leads to {browser.of(focus)} and not {expected}")
    check(browser.of("document.querySelector('nav a.here').textContent") == "Fetches", "the section is not marked")
    browser.key("?")
    check(browser.of("!document.querySelector('#keys').hidden"), "? shows no keys")
    browser.key("Escape")
    check(browser.of("document.querySelector('#keys').hidden"), "Escape hides no keys")
    browser.of("scrollTo(0, 0); document.activeElement.blur()")

    # Widths: nothing sticks out of the page; tables scroll within themselves.
    for width in [1100, 700, 360, 320]:
        browser.looks(width, 800, mobile=width < 500)
        wide = browser.of("document.documentElement.scrollWidth")
        check(wide <= width, f"at {width} pixels the page is {wide} wide")
    sizes = {}
    for name, width, height, scheme, scale in [("ui-light.png", 1100, 860, "light", 1), ("ui-phone.png", 360, 740, "light", 1.5)]:
        browser.looks(width, height, scheme, mobile=width < 500, scale=scale)
        sizes[name] = browser.picture(folder, name)
    browser.looks(1100, 860, "dark")
    light, dark = "rgb(251, 251, 249)", browser.of("getComputedStyle(document.body).backgroundColor")
    check(dark != light, "dark is light")
    browser.key("6")
    time.sleep(0.5)
    sizes["ui-dark.png"] = browser.picture(folder, "ui-dark.png")

    # The address of somebody else's page, and none: one line.
    browser.ask("Page.navigate", url=url.split("?")[0])
    said = browser.until("a refusal", "document.body.innerText")
    check(said.strip() == "open the address that `xylem ui` printed", f"without a token: {said}")
    bad = [e for e in browser.events if e.get("method") == "Runtime.exceptionThrown"
           or e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error" and "403" not in e["params"]["entry"]["text"]]
    check(not bad, f"the browser complains: {bad}")
    print("in the browser: live, growing, keys, four widths, two schemes, no complaint;", ", ".join(f"{n} {s}" for n, s in sizes.items()))


def main():
    chromium, xylem, *folder = sys.argv[1:]
    folder = pathlib.Path(folder[0]) if folder else None
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        home = pathlib.Path(home)
        enter = stack.enter_context
        os.environ |= {"XYLEM_NO_LAN": "1", "XYLEM_NO_MAP": "1"}
        store = home / "store"
        (home / "film.mkv").write_bytes(random.Random(1).randbytes(24_000_000))
        (home / "photos").mkdir()
        for i in range(40):
            (home / "photos" / f"{i:03}.jpg").write_bytes(random.Random(i).randbytes(300_000))
        command = [xylem, "--store", str(store)]
        film = enter(running(*command, "share", "--listen", "127.0.0.1:0", "--shape", "medium", str(home / "film.mkv"), first_line=True))
        photos = enter(running(*command, "share", "--listen", "127.0.0.1:0", str(home / "photos"), first_line=True))
        socket = f"unix://{home}/node.sock"
        config = home / "node.toml"
        config.write_text(f'[node]\nlisten = ["{socket}"]\n[node.multicast]\nenabled = false\n')
        enter(running(xylem, "--store", str(home / "node"), "--config", str(config), "ndn", "node"))
        enter(running(*command, "get", film, "--shape", "medium", "--limit", "900K", "-o", str(home / "got.mkv")))
        enter(running(*command, "get", photos, "--limit", "500K", "-o", str(home / "got")))
        url = enter(running(*command, "ui", "--at", socket, first_line=True))
        browser = Browser(chromium, str(home / "browser"))
        try:
            see(browser, url, folder)
        finally:
            browser.process.terminate()
            browser.process.wait()


if __name__ == "__main__":
    main()
