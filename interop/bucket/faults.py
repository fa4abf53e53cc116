"""A gateway between an S3 client and a store that fails as stores do: chosen requests get a 500, are answered
slowly, or break off in the middle. Used by run.py.

`Faults(port)` serves on a port of its own (`.url`) and forwards to 127.0.0.1:port, with the Host header, which
the client's signature covers. `.how` is a function (method, path, number of the request) -> None, "error", "slow" or "short";
`.seen` lists (method, path, status); `.flip` is the offset of a byte that is wrong in answers for every object.
"""

import http.client
import http.server
import threading
import time

HOP = {"connection", "transfer-encoding", "keep-alive"}


class Faults:
    def __init__(self, port):
        self.port, self.how, self.seen, self.flip, self.lock = port, lambda *_: None, [], None, threading.Lock()
        gateway = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                with gateway.lock:
                    number = len(gateway.seen)
                    gateway.seen.append((self.command, self.path, 0))
                fault = gateway.how(self.command, self.path, number)
                if fault == "error":
                    self.finish_with(500, [], b"<Error><Code>InternalError</Code></Error>")
                    return
                try:
                    there = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
                    there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                    for name, value in self.headers.items():
                        if name.lower() not in HOP:
                            there.putheader(name, value)
                    there.endheaders(body)
                    answer = there.getresponse()
                    content = answer.read()
                except OSError:
                    self.close_connection = True
                    return
                span = answer.getheader("content-range", "")
                if gateway.flip is not None and span.startswith("bytes "):
                    first, last = map(int, span[6:].split("/")[0].split("-"))
                    if first <= gateway.flip <= last:
                        at = gateway.flip - first
                        content = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
                if fault == "slow":
                    time.sleep(1.5)
                with gateway.lock:
                    gateway.seen[number] = (self.command, self.path, answer.status)
                self.finish_with(answer.status, answer.getheaders(), content, fault == "short")

            def finish_with(self, status, headers, content, short=False):
                self.send_response_only(status)
                has_length = False
                for name, value in headers:
                    if name.lower() not in HOP:
                        has_length |= name.lower() == "content-length"
                        self.send_header(name, value)
                if not has_length:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                try:
                    if self.command != "HEAD":
                        self.wfile.write(content[: len(content) // 2] if short else content)
                except OSError:
                    pass
                self.close_connection |= short

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # a killed client leaves its connections open

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self, method, part=""):
        with self.lock:
            return sum(1 for m, path, status in self.seen if m == method and part in path and status == 200)
