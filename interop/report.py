"""Results: one line a case on standard output, and docs/interop.md at the end."""

import sys
import time

from programs import Failed

# Cases that a peer's own limit decides. Each was confirmed between that peer and a third program before it was listed
# here. They are run and reported like others, but do not fail the run.
PEERS_LIMITS = {
    ("ndnd", "management", tool, "erase"): "NDNd does not answer cs/erase"
    for tool in ("xylem ndn ctl", "NDNts")
} | {
    ("ndnd", "management", "pynfdc", "face"): "python-ndn refuses the order of the fields in NDNd's "
    "answer to faces/create",
} | {
    ("ndnd", "management", "pynfdc", column): "pynfdc signs its dataset Interests, and NDNd answers "
    "only unsigned ones"
    for column in ("status", "faces", "routes", "strategies")
}

PASSED, FAILED, LIMIT = "passed", "FAILED", "peer's limit"
# Outcomes for a peer that is only observed.
SO, NOT_SO = "yes", "no"


class Report:
    """Outcomes by key: (forwarder, section, row, column)."""

    def __init__(self, only=None):
        self.only = only
        self.outcomes = {}
        self.notes = {}

    def case(self, key, body, *arguments, theirs=False):
        """Runs one case; a `Failed` in it is the case's outcome and does not end the run. `theirs`: only a peer is
        observed, for comparison, and the outcome fails nothing."""
        if self.only and self.only not in "/".join(key):
            return
        began = time.monotonic()
        try:
            body(*arguments)
            outcome, note = SO if theirs else PASSED, ""
        except Failed as failure:
            outcome, note = NOT_SO if theirs else FAILED, str(failure)
            if key in PEERS_LIMITS:
                outcome, note = LIMIT, PEERS_LIMITS[key]
        self.outcomes[key] = outcome
        self.notes[key] = note
        took = time.monotonic() - began
        print(f"interop: {'/'.join(key)}: {outcome} ({took:.1f} s){': ' + note if note else ''}")
        sys.stdout.flush()

    def count(self, outcome):
        return sum(1 for each in self.outcomes.values() if each == outcome)

    def table(self, forwarder, section):
        """The section as a Markdown table, rows and columns in the order in which they were run."""
        cells = {key[2:]: outcome for key, outcome in self.outcomes.items() if key[:2] == (forwarder, section)}
        rows = list(dict.fromkeys(row for row, _ in cells))
        columns = list(dict.fromkeys(column for _, column in cells))
        lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
        for row in rows:
            marks = (cells.get((row, column), "") for column in columns)
            lines.append(f"| {row} | " + " | ".join(marks) + " |")
        return "\n".join(lines) + "\n"

    def document(self, versions):
        """docs/interop.md: versions, the tables, and the failed cases with their reasons."""
        parts = [HEAD.format(versions="".join(f"- {line}\n" for line in versions))]
        for forwarder, title in FORWARDERS.items():
            for section, text in SECTIONS.items():
                if any(key[:2] == (forwarder, section) for key in self.outcomes):
                    parts.append(f"## {title}: {text}\n{self.table(forwarder, section)}")
        parts.append(
            f"## Outcome\n\n{self.count(PASSED)} passed, {self.count(FAILED)} failed, "
            f"{self.count(LIMIT)} decided by a peer's limit; of NDNd's semantics {self.count(NOT_SO)} "
            f"differ.\n"
        )
        notes = []
        for key, note in self.notes.items():
            if note:
                notes.append(f"- {' / '.join(key)}: {self.outcomes[key]}: {note}\n")
        parts.append("".join(notes))
        parts.append(TAIL)
        return "\n".join(parts)


FORWARDERS = {"direct": "Without a forwarder", "node": "Through `xylem ndn node`", "ndnd": "Through NDNd"}

SECTIONS = {
    "link vectors": "the link's test vectors\n\nThe second implementation makes docs/spec/vectors/link-v5.json "
    "again; crates/xylem-link/tests/spec_vectors.rs checks it.\n",
    "link dials": "the encrypted link's second implementation dials a share\n\n"
    "interop/link was written from docs/spec/link.md alone. It has the share's key, or the knock of a short "
    "ticket; with a hybrid of ML-KEM-768 or without; each cipher. It fetches 80,000 bytes, proven.\n",
    "link dialled": "the second implementation as a dialer, and as an attacker before it\n\n"
    "Messages with flipped bytes are in good envelopes, as a holder of the ticket can make them; the "
    "genuine ones come after them.\n",
    "link broken": "what the second implementation seals, and the share ends the link with code 1\n",
    "link answers": "the second implementation answers `xylem get`\n\n"
    "It publishes 80,000 bytes of its own; what is forged comes before the genuine message.\n",
    "schemas": "trust schemas\n\nLightVerSec: one text compiled by each, and the verdicts on 80 pairs of names each; "
    "NDNd's examples are those of its tests (interop/schemas.py). NDNd has no functions. "
    "`share --sign key:/org/alice`, whose certificate python-ndn has issued, or `key cert --by`: python-ndn's LightVerSec "
    "validator accepts the metadata and the manifest below /org/alice and refuses both below /org/bob.\n",
    "certificates": "certificates\n\nNDNCERT 0.3 (the library without a forwarder, interop/authorities.py; the programs through one, "
    "interop/certificates.py: client, CA): a key is certified by what the column gives, or refused "
    "where that is what has to come of it.\n",
    "share": "a plain share, fetched from it directly\n\n"
    "`xylem share --plain-listen`; columns: transport and bytes.\n",
    "objects": "10 MB objects\n\nRow: producer; column: consumer; both on the Unix socket.\n",
    "producers": "10 MB objects, the producer on another transport\n\nFetched by `ndnd cat` on the "
    "Unix socket.\n",
    "consumers": "10 MB objects, the consumer on another transport\n\nPublished by `xylem ndn put` on the "
    "Unix socket (for TICKET by `xylem share`).\n",
    "elsewhere": "a consumer on another machine, over UDP\n\nNothing is set at either end; `xylem ndn put` published the "
    "object. The consumers answer no probe of their address (interop/elsewhere.py).\n",
    "svs": "sync groups with members of other programs\n\n`xylem ndn svs` and these members publish five packets "
    "each; each has to be notified of all of them, and to fetch them.\n",
    "routing": "a routing daemon\n\nThree nodes in a line, each with `ndnd dv`: what a program registers at the first is "
    "reached from the third (interop/routing.py), or is not where `readvertise` is off.\n",
    "repository": "a repository\n\nThe clients of ndn-python-repo insert a file of 1 MB, fetch it after they and the node have "
    "been started again, and delete it; or insert a name that their key may not sign (interop/repo.py).\n",
    "semantics": "semantics\n\nPacket by packet on Unix sockets (interop/semantics.py). NDNd is asked "
    "the same for comparison.\n",
    "management": "management\n\nRow: the tool; column: what it is asked to do. A command has passed "
    "when a dataset shows what it did.\n",
}

HEAD = """\
# Interoperation

Made by `interop/run`; do not edit. Programs that we did not write, as producers, consumers and
managers, through our forwarder, and ours through NDNd. A fetch has passed when the bytes are equal.

{versions}"""

TAIL = """\
## Limits of the peers, as seen in these runs

- NDNd reads PIT tokens of exactly 6 octets (its own); NDNts sends such, ours sends none to NDNd but
  those that it echoes.
- NDNd answers dataset Interests only without parameters digest; python-ndn's `pynfdc` signs them.
- `ndnd cat` and NDNts find an object only by its RDR metadata; `ndnd cat` needs FinalBlockId on
  segment 0; python-ndn stops at a segment without FinalBlockId.
- python-ndn's `catchunks NAME` takes whatever answers the bare name for the metadata, so a cached
  segment breaks it; these runs give it `NAME/32=metadata`.
- `ndnd put` over TCP registers below /localhop, which forwarders refuse by default: it is run on the
  Unix socket only. `ndnd` and python-ndn as clients have no WebSocket, `ndnd` no UDP. UDP faces are
  never local (NFD's scope rule): registering over them needs a key that the forwarder trusts.
- None of the three checks tree signatures (types 8 and 9): what they fetch of ours is compared byte
  by byte here, and verified only by `xylem get`.
"""
