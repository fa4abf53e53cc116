"""Checks the carriers with an analyser: Wireshark's dissectors on a capture of a fetch through each,
and strangers that ask as a browser or a DNS client would.

    python3 interop/carriers.py XYLEM [--keep DIR]

XYLEM has to be a build with debug assertions: only those write TLS keys to SSLKEYLOGFILE. It
needs tshark and the right to capture on loopback; where either is missing it prints a line and ends with 0.
Every packet of every capture has to be dissected without an error, and its content has to be
what it imitates. Exit code 1 when a check failed.
"""

import argparse
import base64
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

SIZE = 3_000_000
SCHEMES = ["xylem+tls", "xylem+ws", "xylem+wss", "xylem+doh"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Share:
    def __init__(self, xylem, directory, ports):
        source = directory / "source"
        source.write_bytes(os.urandom(SIZE))
        command = [xylem, "--store", directory / "share", "--json", "share", source]
        for scheme, port in ports.items():
            command += ["--listen", f"{scheme}://127.0.0.1:{port}"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "shared":
                self.ticket = event["ticket"]
                return
        raise SystemExit("carriers: `xylem share` ended before it printed a ticket")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def capture(xylem, share, directory, scheme, port):
    """Fetches through one carrier while loopback is captured; returns the capture, and the TLS keys."""
    pcap, keys = directory / f"{scheme}.pcapng", directory / f"{scheme}.keys"
    sniffer = subprocess.Popen(
        ["tshark", "-q", "-i", "lo", "-f", f"tcp port {port}", "-w", str(pcap), "-s", "0", "-B", "64"],
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in sniffer.stderr:
        if "Capturing on" in line:
            break
    time.sleep(1)
    if sniffer.poll() is not None:
        return None
    out = directory / f"{scheme}.out"
    environment = os.environ | {"SSLKEYLOGFILE": str(keys)}
    uri = f"{scheme}://localhost:{port}"
    command = [xylem, "--store", directory / f"{scheme}.store", "-q"]
    command += ["get", share.ticket, "--from", uri, "-o", out, "--timeout", "20"]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, timeout=120)
    assert out.read_bytes() == (directory / "source").read_bytes(), scheme
    time.sleep(1)
    sniffer.terminate()
    sniffer.wait()
    return pcap, keys


def dissect(pcap, keys, port, scheme, fields, display=None):
    """Rows of fields, one for each packet that passes the display filter."""
    inner = "http" if scheme == "xylem+ws" else "tls"
    command = ["tshark", "-r", str(pcap), "-d", f"tcp.port=={port},{inner}", "-T", "fields"]
    command += ["-o", "tcp.desegment_tcp_streams:TRUE", "-o", "http.desegment_body:TRUE"]
    if scheme == "xylem+tls":
        # The hello promises HTTP, but the data look random: now and then a part of them begins like HTTP and is a
        # malformed packet of that.
        command += ["--disable-protocol", "http"]
    if keys.exists():
        command += ["-o", f"tls.keylog_file:{keys}"]
    if display:
        command += ["-Y", display]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


class Findings:
    def __init__(self):
        self.failed = False

    def expect(self, what, good, seen=""):
        print(f"{'ok  ' if good else 'FAIL'} {what}{f': {seen}' if seen != '' else ''}")
        self.failed |= not good


def values(rows):
    return Counter(v for row in rows for cell in row for v in cell.split(",") if v)


def look(findings, pcap, keys, port, scheme):
    def rows(fields, display=None):
        return dissect(pcap, keys, port, scheme, fields, display)

    bad = rows(["frame.number", "_ws.col.Info"], "_ws.malformed || _ws.unreassembled")
    findings.expect(f"{scheme}: no malformed packet", not bad, bad[:3] if bad else len(rows(["frame.number"])))
    protocols = values(rows(["frame.protocols"]))
    inside = {p for stack in protocols for p in stack.split(":")} - {"eth", "ethertype", "ip", "tcp"}
    findings.expect(f"{scheme}: protocols", True, " ".join(sorted(inside)))
    if scheme != "xylem+ws":
        hello = rows(["tls.handshake.extensions_server_name", "tls.handshake.extensions_alpn_str"],
                     "tls.handshake.type == 1")
        findings.expect(f"{scheme}: ClientHello with SNI and ALPN", hello == [["localhost", "http/1.1"]], hello)
        version = values(rows(["tls.handshake.extensions.supported_version"], "tls.handshake.type == 2"))
        findings.expect(f"{scheme}: TLS 1.3", set(version) == {"0x0304"}, dict(version))
        lengths = values(rows(["tls.record.length"], "tls.record.opaque_type == 23"))
        longest = max(int(n) for n in lengths)
        findings.expect(f"{scheme}: no record above 2^14 + 256", longest <= 16_640, f"longest {longest}")
    if scheme in ("xylem+ws", "xylem+wss"):
        upgrade = rows(["http.response.code", "http.upgrade"], "http.response")
        findings.expect(f"{scheme}: one upgrade", upgrade == [["101", "websocket"]], upgrade)
        opcodes = values(rows(["websocket.opcode"], "websocket"))
        findings.expect(f"{scheme}: binary messages alone", set(opcodes) <= {"2", "8"} and opcodes["2"] > 5, dict(opcodes))
        up = values(rows(["websocket.mask"], f"websocket && tcp.dstport == {port}"))
        down = values(rows(["websocket.mask"], f"websocket && tcp.srcport == {port}"))
        good = set(up) <= {"1", "True"} and set(down) <= {"0", "False"} and up and down
        findings.expect(f"{scheme}: the client masks and the server does not", bool(good))
    if scheme == "xylem+doh":
        requests = values(rows(["http.request.method"], "http.request"))
        types = values(rows(["http.content_type"], "http"))
        codes = values(rows(["http.response.code"], "http.response"))
        findings.expect(f"{scheme}: POST alone, answered by 200", set(requests) == {"POST"} and set(codes) == {"200"},
                        f"{dict(requests)} {dict(codes)}")
        findings.expect(f"{scheme}: all of them DNS messages", set(types) == {"application/dns-message"}, dict(types))
        flags = values(rows(["dns.flags"], "dns"))
        options = values(rows(["dns.opt.code"], "dns"))
        records = values(rows(["dns.resp.type"], "dns"))
        findings.expect(f"{scheme}: queries and answers", set(flags) == {"0x0100", "0x8180"}, dict(flags))
        findings.expect(f"{scheme}: one OPT record each, options 65348", set(options) == {"65348"} and set(records) == {"41"},
                        f"{sum(options.values())} options")


def strangers(findings, ports):
    """Foreign clients: Python's TLS, HTTP and, where it is installed, curl."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for scheme in ("xylem+wss", "xylem+doh"):
        web = http.client.HTTPSConnection("127.0.0.1", ports[scheme], context=context, timeout=10)
        for path in ("/", "/index.html", "/socket/x"):
            web.request("GET", path)
            answer = web.getresponse()
            body = answer.read()
            findings.expect(f"{scheme}: GET {path} over a kept connection", answer.status == 404 and b"404" in body, answer.status)
    # A query for example.com A, as a DNS client posts it.
    query = bytes.fromhex("000001000001000000000000076578616d706c6503636f6d0000010001")
    headers = {"Content-Type": "application/dns-message", "Accept": "application/dns-message"}
    web = http.client.HTTPSConnection("127.0.0.1", ports["xylem+doh"], context=context, timeout=10)
    web.request("POST", "/dns-query", body=query, headers=headers)
    answer = web.getresponse()
    body = answer.read()
    refused = answer.status == 200 and body[3] & 15 == 5 and body[12:] == query[12:]
    findings.expect("xylem+doh: a DNS client is refused in order", refused, base64.b16encode(body[:12]).decode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("xylem")
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    if shutil.which("tshark") is None:
        print("carriers: tshark is not installed; SKIPPED")
        return 0
    directory = Path(arguments.keep or tempfile.mkdtemp(prefix="xylem-carriers-"))
    directory.mkdir(parents=True, exist_ok=True)
    xylem = str(Path(arguments.xylem).resolve())
    ports = {scheme: free_port() for scheme in SCHEMES}
    findings = Findings()
    share = Share(xylem, directory, ports)
    try:
        for scheme, port in ports.items():
            found = capture(xylem, share, directory, scheme, port)
            if found is None:
                print("carriers: loopback cannot be captured here; SKIPPED")
                return 0
            look(findings, *found, port, scheme)
        strangers(findings, ports)
    finally:
        share.stop()
        if not arguments.keep:
            shutil.rmtree(directory, ignore_errors=True)
    return int(findings.failed)


if __name__ == "__main__":
    sys.exit(main())
