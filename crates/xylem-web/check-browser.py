#!/usr/bin/env python3
"""Tests the page of `xylem share --web` in a browser, as people use it: the release program serves, nothing else is installed.

Usage: check-browser.py XYLEM BROWSER [--rate [MIB]]

BROWSER is Chromium (driven over the pipe of its DevTools) or Firefox (over Marionette). The page fetches exact bytes of a
file and of a directory, from two peers of which one changes its packets. It continues after a reload, with a byte of
the kept data changed. It shows a line for an invalid or unfit ticket, and is refused without a pass. With
--rate a fetch is timed in turn with a plain download of the same bytes by the same browser instead.
"""

import sys; sys.dont_write_bytecode = True
import argparse
import hashlib
import http.server
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import socket
import statistics
import struct
import subprocess
import tempfile
import threading
import time

PATIENCE = 180  # seconds for anything; all of it takes a few


def until(what: str, look, every: float = 0.05):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(every)
    raise AssertionError(f"{what}: not within {PATIENCE} s")


# ---- browsers --------------------------------------------------------------------------------------


class Chromium:
    """Over --remote-debugging-pipe: messages of JSON, each ended by a zero byte, on descriptors 3 and 4."""

    name = "Chromium"

    def __init__(self, program: str, home: str):
        theirs_in, self.out = os.pipe()
        self.inp, theirs_out = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--disable-dev-shm-usage", f"--user-data-dir={home}/profile", "--remote-debugging-pipe", "about:blank"]

        def place():
            a, b = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen([program, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=place, close_fds=False)
        os.close(theirs_in)
        os.close(theirs_out)
        self.numbers, self.rest, self.session = itertools.count(1), b"", None
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=f"{home}/saved")
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **params):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                got = os.read(self.inp, 1 << 20)
                if not got:
                    raise AssertionError("the browser has ended")
                self.rest += got
            one, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(one)
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url: str):
        # A fragment alone is no new page.
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)

    def run(self, script: str):
        """The awaited value of an expression; None while a page loads."""
        try:
            answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        except AssertionError as error:
            if "ontext" in str(error):
                return None
            raise
        if "exceptionDetails" in answer:
            raise AssertionError(str(answer["exceptionDetails"])[:400])
        return answer["result"].get("value")

    def close(self):
        self.process.terminate()
        self.process.wait()


class Firefox:
    """Firefox over Marionette: JSON messages, each preceded by its length, on a port of loopback."""

    name = "Firefox"

    def __init__(self, program: str, home: str):
        os.makedirs(f"{home}/profile")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        prefs = {"marionette.port": port, "browser.download.dir": f"{home}/saved", "browser.download.folderList": 2,
                 "app.update.enabled": False, "datareporting.policy.dataSubmissionEnabled": False}
        lines = "".join(f"user_pref({json.dumps(key)}, {json.dumps(value)});\n" for key, value in prefs.items())
        pathlib.Path(f"{home}/profile/user.js").write_text(lines)
        self.process = subprocess.Popen([program, "--headless", "--no-remote", "--profile", f"{home}/profile", "--marionette"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "HOME": home, "MOZ_CRASHREPORTER_DISABLE": "1"})
        self.numbers = itertools.count(1)
        self.socket = until("Marionette", lambda: self.dial(port), 0.3)
        self.receive()
        self.call("WebDriver:NewSession", capabilities={"alwaysMatch": {}})
        self.call("WebDriver:SetTimeouts", script=PATIENCE * 1000, pageLoad=PATIENCE * 1000)

    def dial(self, port: int):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        except OSError:
            return None

    def receive(self):
        length = b""
        while not length.endswith(b":"):
            length += self.socket.recv(1)
        body = b""
        while len(body) < int(length[:-1]):
            body += self.socket.recv(int(length[:-1]) - len(body))
        return json.loads(body)

    def call(self, method: str, **params):
        message = json.dumps([0, next(self.numbers), method, params])
        self.socket.sendall(f"{len(message.encode())}:{message}".encode())
        _, _, error, result = self.receive()
        if error:
            raise AssertionError(f"{method}: {error['error']}: {error['message']}"[:400])
        return result

    def open(self, url: str):
        self.call("WebDriver:Navigate", url="about:blank")
        self.call("WebDriver:Navigate", url=url)

    def run(self, script: str):
        # The expression is part of the script, as the page's policy forbids `eval`.
        body = (f"const done = arguments[0]; (async () => ({script}))()"
                ".then((v) => done([v ?? null]), (e) => done([null, String(e)]));")
        value = self.call("WebDriver:ExecuteAsyncScript", script=body, args=[])["value"]
        if len(value) > 1:
            raise AssertionError(value[1][:400])
        return value[0]

    def close(self):
        self.process.terminate()
        self.process.wait()


# ---- sharers, and proxies between ---------------------------------------------------------------------


class Share:
    def __init__(self, xylem: str, path: pathlib.Path, store: pathlib.Path, at: str = "127.0.0.1:0"):
        command = [xylem, "--store", store, "--no-progress", "share", path, "--web-listen", at,
                   "--listen", "127.0.0.1:0", "--foreground"]
        self.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.ticket = self.process.stdout.readline().strip()
        for line in self.process.stderr:
            if found := re.match(r"\s*http://([^/]+)/#(\S+)", line):
                assert found[2] == self.ticket, line
                self.host = found[1]
                break
        self.lines = []
        threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True).start()

    def link(self, host: str | None = None, *peers: str) -> str:
        return f"http://{host or self.host}/#{self.ticket}" + "".join(f"&peer={peer}" for peer in peers)

    def close(self):
        self.process.terminate()
        self.process.wait()


class Between:
    """Forwards connections; changes or slows down the data that the sharer sends over a WebSocket."""

    def __init__(self, host: str, tamper: bool = False, rate: int | None = None):
        self.host, self.tamper, self.rate = host, tamper, rate
        self.passed = self.changed = 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.at = "127.0.0.1:%d" % self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.server.accept()
            address, port = self.host.rsplit(":", 1)
            try:
                far = socket.create_connection((address, int(port)))
            except OSError:
                near.close()
                continue
            threading.Thread(target=self.up, args=(near, far), daemon=True).start()
            threading.Thread(target=self.down, args=(far, near), daemon=True).start()

    def up(self, near, far):
        try:
            while got := near.recv(1 << 16):
                far.sendall(got)
            far.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        finally:
            if not self.rate:
                far.close()

    def change(self, train: bytearray):
        """Flips one bit of each segment in a sequence of packets, each with type and length (NDN's TLV)."""
        at = 0
        while at < len(train):
            if train[at + 1] == 253:
                length = 4 + struct.unpack_from(">H", train, at + 2)[0]
            else:
                length = 2 + train[at + 1]
            if length > 8000:
                train[at + length // 2] ^= 1
                self.changed += 1
            at += length

    def down(self, far, near):
        try:
            file = far.makefile("rb")
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = file.readline()
                if not line:
                    break
                head += line
            near.sendall(head)
            if b" 101 " not in head.split(b"\r\n")[0]:
                while got := file.read1(1 << 16):
                    near.sendall(got)
                return near.shutdown(socket.SHUT_WR)
            while first := file.read(2):
                length, more = first[1] & 127, b""
                if length == 126:
                    more = file.read(2)
                    length = struct.unpack(">H", more)[0]
                elif length == 127:
                    more = file.read(8)
                    length = struct.unpack(">Q", more)[0]
                body = bytearray(file.read(length))
                if self.tamper:
                    self.change(body)
                near.sendall(first + more + body)
                self.passed += length
                if self.rate:
                    time.sleep(length / self.rate)
            near.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def content(path: pathlib.Path, length: int, seed: int) -> bytes:
    data = random.Random(seed).randbytes(length)
    path.write_bytes(data)
    return data


# ---- contents of the page -------------------------------------------------------------------------------

TEXT = 'document.getElementById("%s")?.textContent'
FINISHED = 'document.title.startsWith("✓")'
FAILED = 'document.getElementById("error")?.textContent'
# SHA-256 of each file that the browser keeps, of all tickets of this origin.
DIGESTS = """(async () => {
  const all = await navigator.storage.getDirectory(), found = [];
  for await (const [name, directory] of all.entries()) {
    const file = await (await directory.getFileHandle("data")).getFile();
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
    found.push(Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join(""));
  }
  return found;
})()"""
FLIP = """(async () => {
  const all = await navigator.storage.getDirectory();
  for await (const [name, directory] of all.entries()) {
    const handle = await directory.getFileHandle("data"), file = await handle.getFile();
    const byte = new Uint8Array(await file.slice(100000, 100001).arrayBuffer());
    const out = await handle.createWritable({ keepExistingData: true });
    await out.write({ type: "write", position: 100000, data: new Uint8Array([byte[0] ^ 1]) });
    await out.close();
  }
  return true;
})()"""


def finish(browser):
    def look():
        if browser.run(FINISHED):
            return True
        if why := browser.run(FAILED):
            raise AssertionError(f"the page says: {why}")
        return False
    until("the fetch", look)


def failure(browser) -> str:
    return until("a line that says what is wrong", lambda: browser.run(FAILED))


def forget(browser):
    browser.run('document.getElementById("forget").click()')
    until("nothing kept", lambda: browser.run('document.getElementById("forget").hidden'))


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def saved(home: str, name: str) -> bytes:
    path = pathlib.Path(home, "saved", name)
    until(f"{name} among the downloads", lambda: path.exists() and not list(path.parent.glob("*.crdownload")) and not list(path.parent.glob("*.part")))
    return path.read_bytes()


# ---- the checks -------------------------------------------------------------------------------------------


def check(xylem: str, browser, home: str, work: pathlib.Path):
    data = content(work / "film.bin", 9_999_999, 1)
    film = Share(xylem, work / "film.bin", work / "store-a")
    try:
        browser.open(film.link())
        finish(browser)
        assert browser.run(DIGESTS) == [sha(data)], "other bytes than were shared"
        browser.run('document.getElementById("save").click()')
        assert saved(home, "film.bin") == data, "other bytes were saved"
        until("the sharer's line", lambda: any("fetched all of film.bin" in line for line in film.lines))
        assert any("fetches film.bin over the web page" in line for line in film.lines), film.lines
        print("  a file: exact, kept and saved, and the sharer reports it")

        forget(browser)
        assert browser.run(DIGESTS) == [], "something is kept still"
        liar = Between(film.host, tamper=True)
        browser.open(film.link(None, liar.at))
        finish(browser)
        assert browser.run(DIGESTS) == [sha(data)], "a changed byte was kept"
        told = browser.run(TEXT % "peers")
        assert liar.changed and "thrown away" in told and liar.at in told, told
        assert "refused: sent wrong pieces" in told, told
        print(f"  two peers, one of which changed {liar.changed} pieces: exact, and told")
        alone = Between(film.host, tamper=True)
        browser.open(film.link(alone.at))
        assert "misbehaved" in failure(browser)
        assert browser.run(DIGESTS) in ([], [sha(b"")]), "something unproven was kept"
        print("  nobody but a liar: told, nothing kept")

        for ticket, says in [("xylem:aaaa", "ticket"), ("hello", "not a ticket"), (film.ticket[:-1], "damaged")]:
            browser.open(f"http://{film.host}/#{ticket}")
            assert says in (why := failure(browser)), why
        print("  what is no ticket: a line")

        (work / "other.txt").write_bytes(b"something else")
        other = Share(xylem, work / "other.txt", work / "store-b")
        try:
            browser.open(f"http://{film.host}/#{other.ticket}")
            assert "nothing of this ticket" in (why := failure(browser)), why
            # A page of another sharer: without the ticket it is refused, with the ticket it is accepted.
            browser.open(f"http://{other.host}/style.css")
            opens = ('new Promise((done) => { const s = new WebSocket("ws://%s/%s"); '
                     's.onopen = () => { s.close(); done(true); }; s.onerror = () => done(false); })')
            assert browser.run(opens % (film.host, "")) is False, "a page without the ticket was let in"
            assert browser.run(opens % (film.host, "0" * 64)) is False, "a page with a made-up pass was let in"
            browser.open(f"http://{other.host}/#{film.ticket}&peer={film.host}")
            finish(browser)
            assert browser.run(DIGESTS) == [sha(data)]
            print("  a page from elsewhere: let in with the ticket, not without")
        finally:
            other.close()
    finally:
        film.close()

    data = content(work / "large.bin", 48 << 20, 2)
    large = Share(xylem, work / "large.bin", work / "store-c")
    try:
        slow = Between(large.host, rate=25_000_000)
        share_of = 'Number(document.getElementById("bar")?.getAttribute("aria-valuenow") ?? 0)'
        browser.open(large.link(slow.at))
        until("a third of it", lambda: (browser.run(share_of) or 0) >= 33)
        # The kept data are changed while no page is open.
        browser.open(f"http://{slow.at}/style.css")
        until("what was kept", lambda: browser.run(FLIP))
        before = slow.passed
        browser.open(large.link(slow.at))
        finish(browser)
        assert browser.run(DIGESTS) == [sha(data)], "a changed byte was kept"
        again = slow.passed - before
        assert "were here already" in browser.run(TEXT % "status")
        assert again < 0.8 * len(data), f"{again:,} bytes once more"
        forget(browser)
        browser.open(large.link(slow.at))
        until("a third of it", lambda: (browser.run(share_of) or 0) >= 33)
        large.close()
        away = 'document.getElementById("away")?.hidden === false && document.getElementById("away").textContent'
        told = until("a line that the sharer is away", lambda: browser.run(away))
        assert "has not answered since" in told and "are proven and kept" in told, told
        assert not re.search(r"\de-\d|/s| left", browser.run(TEXT % "status")), browser.run(TEXT % "status")
        assert browser.run('document.getElementById("again").hidden') is False, "no button to try again"
        large = Share(xylem, work / "large.bin", work / "store-c", large.host)
        browser.run('document.getElementById("again").click()')
        finish(browser)
        assert browser.run(DIGESTS) == [sha(data)] and browser.run(away) is False
        print("  the sharer went and came back: told, and complete")
        print(f"  left in the middle: went on with {again / len(data):.0%} of the bytes, what was changed meanwhile came again")
    finally:
        large.close()

    tree = work / "tree"
    (tree / "deep" / ("x" * 120)).mkdir(parents=True)
    parts = {"a.txt": b"a", "deep/empty": b"", f"deep/{'x' * 120}/long.bin": random.Random(3).randbytes(300_000)}
    for name, body in parts.items():
        (tree / name).write_bytes(body)
    # Modes and times, one of them before 1970.
    looks = {"a.txt": (0o750, 1_700_000_000_123_456_789), "deep/empty": (0o644, -1_500_000_000)}
    for name, (mode, time) in looks.items():
        (tree / name).chmod(mode)
        os.utime(tree / name, ns=(time, time))
    folder = Share(xylem, tree, work / "store-d")
    try:
        browser.open(folder.link())
        finish(browser)
        browser.run('document.getElementById("save").click()')
        (work / "out").mkdir()
        (work / "tree.tar").write_bytes(saved(home, "tree.tar"))
        subprocess.run(["tar", "-xpf", work / "tree.tar", "-C", work / "out"], check=True)
        for name, body in parts.items():
            assert (work / "out" / "tree" / name).read_bytes() == body, name
        for name, (mode, time) in looks.items():
            is_now = (work / "out" / "tree" / name).stat()
            assert (is_now.st_mode & 0o777, is_now.st_mtime_ns) == (mode, time), name
        print(f"  a directory of {len(parts)} files: exact, as an archive")
    finally:
        folder.close()


class Plain(http.server.BaseHTTPRequestHandler):
    """Speed of the same bytes without verification: the most that a browser can do."""

    file: pathlib.Path

    def do_GET(self):
        is_page = self.path == "/"
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if is_page else "application/octet-stream")
        self.send_header("Content-Length", "0" if is_page else str(self.file.stat().st_size))
        self.end_headers()
        if not is_page:
            with self.file.open("rb") as file:
                self.wfile.flush()
                self.connection.sendfile(file)

    def log_message(self, *_):
        pass


READ = """(async () => {
  const began = performance.now(), reader = (await fetch("/file?" + Math.random(), { cache: "no-store" })).body.getReader();
  let bytes = 0;
  for (let one; !(one = await reader.read()).done; ) bytes += one.value.length;
  return [bytes, performance.now() - began];
})()"""
KEEP = """(async () => {
  const began = performance.now(), all = await navigator.storage.getDirectory();
  const out = await (await all.getFileHandle("plain", { create: true })).createWritable();
  await (await fetch("/file?" + Math.random(), { cache: "no-store" })).body.pipeTo(out);
  const took = performance.now() - began;
  await all.removeEntry("plain");
  return [0, took];
})()"""


def rate(xylem: str, browser, work: pathlib.Path, mib: int, rounds: int = 5):
    file = work / "large.bin"
    with file.open("wb") as out:
        for i in range(mib):
            out.write(random.Random(i).randbytes(1 << 20))
    Plain.file = file
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Plain)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    plain = f"http://127.0.0.1:{server.server_port}/"
    share = Share(xylem, file, work / "store")
    found = {"read": [], "kept": [], "proven": []}
    try:
        for _ in range(rounds):
            browser.open(plain)
            found["read"].append(mib / 1e-3 / browser.run(READ)[1])
            found["kept"].append(mib / 1e-3 / browser.run(KEEP)[1])
            began = time.monotonic()
            browser.open(share.link())
            finish(browser)
            found["proven"].append(mib / (time.monotonic() - began))
            assert not browser.run(FAILED)
            forget(browser)
    finally:
        share.close()
    medians = {key: statistics.median(values) for key, values in found.items()}
    for key, what in [("read", "plain download, thrown away"), ("kept", "plain download, kept in the same place"), ("proven", "the page, from opening it to the last byte kept")]:
        each = " ".join(f"{value:.0f}" for value in found[key])
        print(f"  {what}: {medians[key]:.0f} MiB/s ({each})")
    print(f"  the page beside them: {medians['proven'] / medians['read']:.2f} and {medians['proven'] / medians['kept']:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("xylem")
    parser.add_argument("browser")
    parser.add_argument("--rate", type=int, nargs="?", const=256, metavar="MIB")
    args = parser.parse_args()
    room = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = tempfile.mkdtemp(prefix="xylem-web-", dir=room)
    work = pathlib.Path(home, "work")
    work.mkdir()
    kind = Firefox if "firefox" in pathlib.Path(args.browser).name else Chromium
    browser = kind(args.browser, home)
    try:
        print(f"{kind.name}:")
        if args.rate:
            rate(args.xylem, browser, work, args.rate)
        else:
            check(args.xylem, browser, home, work)
    finally:
        browser.close()
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
