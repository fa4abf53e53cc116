"""Runs every case against the programs that `interop/run` has installed, and writes docs/interop.md.

Usage: main.py TOOLS [--only TEXT] [--peers-alone] [--document PATH]

TOOLS is the folder with the peers. --only runs the cases whose key (forwarder/section/row/column)
contains the text; --peers-alone adds those through NDNd in which no program is ours, to distinguish a peer's
limit from a fault here; with either no document is written. Exit code 1 when a case failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import authorities
import certificates
import direct
import elsewhere
import management
import objects
import repo
import routing
import schemas
import semantics
import svs
from forwarders import Ndnd, Node
from link import cases as link
from programs import Failed, Programs
from report import FAILED, LIMIT, PASSED, Report

SIZE = 10_000_000


def versions(tools):
    def ask(*command):
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    return [
        f"xylem: this tree ({ask(tools.xylem, '--version')})",
        "NDNd 1.5.3 (Go module github.com/named-data/ndnd)",
        "NDNts 0.0.20250307 (npm, @ndn/*), Node.js " + ask(tools.node, "--version"),
        f"python-ndn {version('python-ndn')}, ndn-python-repo {version('ndn-python-repo')}",
        "interop/link, on cryptography " + version("cryptography") + " and blake3 " + version("blake3"),
    ]


def through(report, programs, forwarder, content, peers_alone):
    """All cases with one forwarder in the middle."""
    try:
        forwarder.start()
        semantics.cases(report, forwarder)
        management.tools(report, programs, forwarder, peers_alone)
        objects.pairs(report, programs, forwarder, content, peers_alone)
        objects.transports(report, programs, forwarder, content)
        svs.cases(report, programs, forwarder)
        certificates.cases(report, programs, forwarder)
    except Failed as failure:
        report.case((forwarder.name, "objects", "forwarder", "runs"), reraise, failure)
    finally:
        if forwarder.program:
            code = forwarder.stop()
            if code != 0 and forwarder.name == "node":
                failure = Failed(f"the node ended with {code} on SIGTERM")
                report.case((forwarder.name, "objects", "forwarder", "ends"), reraise, failure)


def reraise(failure):
    raise failure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", type=Path)
    parser.add_argument("--only")
    parser.add_argument("--peers-alone", action="store_true")
    parser.add_argument("--document", type=Path)
    options = parser.parse_args()
    peers = options.tools.resolve()
    tools = SimpleNamespace(
        xylem=Path(os.environ.get("XYLEM", "target/release/xylem")).resolve(),
        ndnd=peers / "ndnd" / "ndnd",
        svs=peers / "ndnd" / "svs",
        ndnts=peers / "ndnts",
        node=os.environ.get("NODE", "node"),
        python=peers / "venv" / "bin",
    )
    report = Report(options.only)
    # Below /tmp: the path of a Unix socket has at most about 100 octets.
    with tempfile.TemporaryDirectory(prefix="xi-", dir="/tmp") as folder:
        programs = Programs(folder, tools)
        (programs.folder / "home").mkdir()

        def random_file(size):
            path = programs.file(f"random-{size}")
            path.write_bytes(os.urandom(size))
            return path

        try:
            # python-ndn's producer signs with a key of its own: a key store for this run.
            pyndnsec = tools.python / "pyndnsec"
            programs.run([pyndnsec, "Init-Pib"])
            programs.run([pyndnsec, "New-Item", "/interop"])
            link.cases(report, programs)
            schemas.cases(report, programs)
            authorities.cases(report, programs)
            routing.cases(report, programs)
            repo.cases(report, programs, random_file)
            direct.cases(report, programs, random_file)
            elsewhere.cases(report, programs, random_file)
            content = random_file(SIZE)
            through(report, programs, Node(programs), content, options.peers_alone)
            through(report, programs, Ndnd(programs), content, options.peers_alone)
        finally:
            programs.stop_all()

    counts = {outcome: report.count(outcome) for outcome in (PASSED, FAILED, LIMIT)}
    print(f"interop: {counts[PASSED]} passed, {counts[FAILED]} failed, {counts[LIMIT]} peer's limit")
    if options.document and not (options.only or options.peers_alone):
        options.document.write_text(report.document(versions(tools)))
    sys.exit(1 if counts[FAILED] else 0)


if __name__ == "__main__":
    main()
