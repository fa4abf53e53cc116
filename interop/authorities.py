"""Cases: certificates by NDNCERT, NDNts and NDNd with ours, each as CA or as client (NDNd has no CA).

Packets pass over pipes: interop/peers/ndncert.mjs and ndnd_ndncert.go start crates/xylem-ndncert/examples/lines.rs,
and print a line for each case.
"""

import os
import subprocess

from programs import Failed


def said(command, environment):
    out = subprocess.run([str(a) for a in command], capture_output=True, text=True, timeout=120, env=environment)
    lines = [line for line in out.stdout.splitlines() if line[:4] in ("ok  ", "FAIL")]
    return lines or [f"FAIL {command[-2]}: start: printed no outcome: {out.stdout}{out.stderr}"]


def check(verdict, why):
    if verdict != "ok":
        raise Failed(why)


def cases(report, programs):
    tools = programs.tools
    lines = tools.ndnts.parent / "lines"
    script = os.path.join(os.path.dirname(__file__), "peers", "ndncert.mjs")
    environment = dict(os.environ, NDNTS=str(tools.ndnts))
    for command in ([tools.node, script, lines], [tools.ndnd.parent / "ndncert", lines]):
        for line in said(command, environment):
            verdict, rest = line[:4].strip(), line[5:]
            who, what, why = rest.split(": ", 2)
            report.case(("direct", "certificates", who, what), check, verdict, why)
