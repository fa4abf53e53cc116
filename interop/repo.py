"""Cases: the clients of ndn-python-repo insert a file at the repository of our node, fetch it after they and the node
have gone, and delete it."""

import re
from pathlib import Path

from forwarders import Node
from programs import Failed

PEER = Path(__file__).parent / "peers" / "python_ndn_repo.py"

REPO = """\
[node.repo]
prefix = "/xylem/repo"
directory = "{directory}"
anchors = ["{anchor}"]
"""


class RepoNode(Node):
    """Our node with a repository that trusts the default key of python-ndn."""

    def __init__(self, programs, anchor, directory):
        super().__init__(programs)
        self.repo = REPO.format(directory=directory, anchor=anchor)

    def config(self):
        return super().config() + self.repo.replace("{", "{{").replace("}", "}}")


def client(programs, node, what, name, path):
    """Runs one client to its end, and returns the number that it printed."""
    python = programs.tools.python / "python"
    output = programs.run([python, PEER, what, "/xylem/repo", "/interop/client", name, path], node.transport("unix"))
    found = re.search(r"^done (\d+)$", output, re.MULTILINE)
    if not found:
        raise Failed(f"{what}: {output}")
    return int(found[1])


def keeps(programs, node, content):
    node.start()
    packets = -(-content.stat().st_size // 4000)
    try:
        inserted = client(programs, node, "put", "/interop/file", content)
        if inserted != packets:
            raise Failed(f"{inserted} of {packets} packets inserted")
        for restarted in (False, True):
            if restarted:
                node.stop()
                node.start()
            fetched = programs.file("fetched")
            client(programs, node, "get", "/interop/file", fetched)
            if fetched.read_bytes() != content.read_bytes():
                raise Failed(f"other bytes, restarted: {restarted}")
    finally:
        node.stop()


def deletes(programs, node, content):
    node.start()
    packets = -(-content.stat().st_size // 4000)
    try:
        deleted = client(programs, node, "delete", "/interop/file", content)
        if deleted != packets:
            raise Failed(f"{deleted} of {packets} packets deleted")
        fetched = programs.file("deleted")
        if client(programs, node, "get", "/interop/file", fetched) != 0:
            raise Failed("it is still there")
    finally:
        node.stop()


def refuses(programs, node, content):
    """A file under a name that the key may not sign."""
    node.start()
    try:
        try:
            inserted = client(programs, node, "put", "/elsewhere/file", content)
        except Failed as failure:
            # The client ends with an error at any code that it does not know.
            if "unrecognized status code 403" not in str(failure):
                raise
        else:
            raise Failed(f"{inserted} packets inserted")
    finally:
        node.stop()


def cases(report, programs, random_file):
    content = random_file(1_000_000)
    anchor = programs.file("python.cert")

    def node():
        pyndnsec = programs.tools.python / "pyndnsec"
        anchor.write_text(programs.run([pyndnsec, "Export-Cert", "/interop"]))
        return RepoNode(programs, anchor, anchor.parent / "repository")

    for column, case in (("insert and fetch", keeps), ("delete", deletes), ("refused", refuses)):
        report.case(
            ("node", "repository", "ndn-python-repo", column), lambda case=case: case(programs, node(), content)
        )
