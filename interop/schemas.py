"""Cases: trust schemas (LightVerSec) compiled by python-ndn and by ours, read by each other and by NDNd.

Texts, and names with answers, are those of crates/xylem-trust/tests/fixtures/schema, and texts drawn under one
seed; NDNd's examples come from its own tests. Also packets of `xylem share --sign key:NAME`, under python-ndn's validator.
"""

import base64
import json
import random
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from Cryptodome.PublicKey import ECC
from ndn.app_support.light_versec import Checker, SemanticError, compile_lvs
from ndn.app_support.security_v2 import derive_cert, parse_certificate, self_sign
from ndn.encoding import Component
from ndn.security.signer import Sha256WithEcdsaSigner

from direct import plain_port
from programs import Failed

FIXTURES = Path(__file__).parent.parent / "crates/xylem-trust/tests/fixtures/schema"
# Schemas without functions, which NDNd does not support.
FOR_NDND = ["blog"]
DRAWN = 200
PYTHON_LVS = Path(__file__).parent / "peers" / "python_ndn_lvs.py"
# A member's key signs names below the member's own name.
SHARED = """
#key: "KEY"/_/_/_
#root: "org"/#key
#member: "org"/who/#key <= #root
#metadata: "org"/who/_/"32=metadata"/_/_ <= #member
#manifest: "org"/who/_/_/"_root" <= #member
"""

# As python-ndn's, except that an argument without a value is no match instead of an exception.
FUNCTIONS = {
    "$eq": lambda value, arguments: all(argument == value for argument in arguments),
    "$eq_type": lambda value, arguments: all(
        argument is not None and Component.get_type(argument) == Component.get_type(value) for argument in arguments
    ),
}


def fixtures():
    for text in sorted(FIXTURES.glob("*.lvs")):
        lines = text.with_suffix(".checks").read_text().splitlines()
        yield text, [line.split(" ") for line in lines]


def compiled(programs, text):
    """The binary form that `xylem ndn schema compile` writes."""
    file = programs.file("schema.tlv")
    programs.run([programs.tools.xylem, "ndn", "schema", "compile", text, "-o", file])
    return file


def python_name(uri):
    """Drops the three extra periods of a component of periods, which python-ndn does not write."""
    parts = [part[3:] if part and set(part) == {"."} else part for part in uri[1:].split("/")]
    return [bytes(Component.from_str(part)) for part in parts]


def same_bytes(programs, text):
    if compiled(programs, text).read_bytes() != bytes(compile_lvs(text.read_text()).encode()):
        raise Failed("the compiled schema differs from python-ndn's")


def python_reads(programs, text, checks):
    checker = Checker.load(compiled(programs, text).read_bytes(), FUNCTIONS)
    for verdict, packet, key in checks:
        if checker.check(python_name(packet), python_name(key)) != (verdict == "yes"):
            raise Failed(f"{packet} by {key}: expected {verdict}")


def ours_reads(programs, file, checks):
    for verdict, packet, key in checks:
        arguments = [programs.tools.xylem, "--json", "ndn", "schema", "check", file, packet, key]
        out = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
        if out.returncode not in (0, 1) or json.loads(out.stdout)["allowed"] != (verdict == "yes"):
            raise Failed(f"{packet} by {key}: expected {verdict}: {out.stdout}{out.stderr}")


def theirs_by_ours(programs, text, checks):
    file = programs.file("theirs.tlv")
    file.write_bytes(bytes(compile_lvs(text.read_text()).encode()))
    ours_reads(programs, file, checks)


def ndnd_answers(programs, file, pairs):
    lines = "".join(f"{packet} {key}\n" for packet, key in pairs)
    out = subprocess.run([programs.tools.ndnd.parent / "schema", file], input=lines, capture_output=True, text=True)
    if out.returncode != 0:
        raise Failed(f"NDNd: {out.stdout}{out.stderr}")
    return out.stdout.split()


def ndnd_reads(programs, text, checks):
    answers = ndnd_answers(programs, compiled(programs, text), [(packet, key) for _, packet, key in checks])
    if answers != [verdict for verdict, _, _ in checks]:
        raise Failed("the verdicts differ from python-ndn's")


def ndnd_examples(programs):
    """The models and the checks of NDNd's own tests, in Go's copy of the module's source."""
    folder = (programs.tools.ndnd.parent / "module").read_text().strip()
    source = (Path(folder) / "std/security/trust_schema/lvs_test.go").read_text()
    found = 0
    for model, test in (("TEST_MODEL", "TestModelSimpleCheck"), ("TEST_MODEL_COMPLEX", "TestModelComplexCheck")):
        octets = re.search(model + r" = \[\]byte\{(.*?)\}", source, re.S)[1]
        file = programs.file("ndnd.tlv")
        file.write_bytes(bytes(int(octet, 16) for octet in re.findall(r"0x(\w\w)", octets)))
        body = re.search(rf"func {test}\(.*?\n}}", source, re.S)[0]
        checks = re.findall(r"require\.(True|False)\(t, s\.Check\(sname\(\"(.*?)\"\), sname\(\"(.*?)\"\)\)\)", body)
        ours_reads(programs, file, [("yes" if so == "True" else "no", packet, key) for so, packet, key in checks])
        found += len(checks)
    if found < 14:
        raise Failed(f"only {found} checks in NDNd's tests")


def drawn(chance):
    """A text that python-ndn accepts, within its limits: constraints of temporary patterns are left out."""
    patterns, values = ["a", "b", "c", "who"], ["x", "y", "KEY", "32=meta", "v=7", "%00a"]
    rules = []
    for at in range(chance.randint(1, 7)):
        name, own = [], []
        for _ in range(chance.randint(1, 4)):
            kind = chance.random()
            if kind < 0.35:
                name.append(f'"{chance.choice(values)}"')
            elif kind < 0.75 or at == 0:
                name.append(chance.choice(patterns + ["_", "_t"]))
                own += [name[-1]] if name[-1][0] != "_" else []
            else:
                name.append(f"#r{chance.randrange(at)}")
        text = f"#r{at}: " + "/".join(name)
        if own and chance.random() < 0.6:
            options = [f'"{chance.choice(values)}"', f'$eq_type("{chance.choice(values)}")', f"$eq({chance.choice(own)})"]
            terms = (f"{chance.choice(own)}: " + " | ".join(chance.sample(options, 2)) for _ in range(2))
            text += " & { " + ", ".join(terms) + " }"
        signers = [f"#r{other}" for other in range(at) if chance.random() < 0.3]
        if signers:
            text += " <= " + " | ".join(signers)
        rules.append(text)
    chance.shuffle(rules)
    return "\n".join(rules) + "\n"


def drawn_alike(programs):
    chance, compared = random.Random(17), 0
    while compared < DRAWN:
        text = drawn(chance)
        try:
            model = compile_lvs(text)
            Checker(model, FUNCTIONS)
        except SemanticError:
            continue
        file = programs.file("drawn.lvs")
        file.write_text(text)
        if len(bytes(model.encode())) > 50_000:
            continue
        same_bytes(programs, file)
        compared += 1


class SignedShare:
    """`xylem share` as /org/alice, whose key python-ndn's /org has certified, or `xylem key cert --by /org`."""

    def __init__(self, programs, by_ours):
        self.programs, self.store = programs, programs.file("alice-by-ours" if by_ours else "alice")
        self.ours("key", "new", "/org/alice")
        self.anchor, issued = programs.file("org.cert"), programs.file("alice.cert")
        (self.certify if by_ours else self.certify_by_python)(issued)
        self.ours("key", "import", issued)
        text, self.schema = programs.file("shared.lvs"), programs.file("shared.tlv")
        text.write_text(SHARED)
        self.ours("ndn", "schema", "compile", text, "-o", self.schema)
        self.content = programs.file("content")
        self.content.write_bytes(random.Random(8).randbytes(100_000))

    def certify(self, issued):
        """The KeyLocator has to be the name of the anchor: python-ndn knows no key by its own name."""
        self.ours("key", "new", "/org")
        self.anchor.write_bytes(self.packet("key", "cert", "/org", "--base64"))
        issued.write_text(self.ours("key", "cert", "/org/alice"))
        issued.write_text(self.ours("key", "cert", "--by", "/org", issued))

    def certify_by_python(self, issued):
        certificate = parse_certificate(self.packet("key", "cert", "/org/alice", "--base64"))
        key = ECC.generate(curve="P-256")
        secret = key.export_key(format="DER", use_pkcs8=False)
        public, name = key.public_key().export_key(format="DER"), "/org/KEY/1"
        anchor, wire = self_sign(name, public, Sha256WithEcdsaSigner(name, secret))
        self.anchor.write_bytes(bytes(wire))
        signer = Sha256WithEcdsaSigner(anchor, secret)
        now = datetime.now(UTC)
        _, wire = derive_cert(certificate.name[:-2], "org", bytes(certificate.content), signer, now, 3600)
        issued.write_bytes(bytes(wire))

    def ours(self, *arguments):
        return self.programs.run([self.programs.tools.xylem, "--store", self.store, *arguments])

    def packet(self, *arguments):
        return base64.b64decode("".join(self.ours(*arguments).split()))

    def judged(self, name):
        """python-ndn's verdicts on the metadata and on the manifest."""
        events, tools = self.programs.file("events"), self.programs.tools
        with open(events, "wb") as out:
            share = self.programs.start(
                [tools.xylem, "--store", self.store, "--json", "share", "--sign", "key:/org/alice", "--as", name]
                + [self.content, "--foreground", "--listen", "127.0.0.1:0", "--plain-listen", "127.0.0.1:0"],
                stdout=out,
            )
        share.wait_until(lambda: plain_port(events) is not None)
        port = str(plain_port(events))
        said = self.programs.run([tools.python / "python", PYTHON_LVS, port, self.schema, self.anchor, name])
        self.programs.stop(share)
        lines = [line.split(" ") for line in said.splitlines()]
        if [("32=metadata" in found, found.endswith("/_root")) for _, found in lines] != [(True, False), (False, True)]:
            raise Failed(f"expected the metadata and the manifest, got: {said}")
        return [verdict for verdict, _ in lines]


def signed_share(programs, by_ours):
    """Under one schema the same key may sign below its owner's name, and not below another's."""
    share = SignedShare(programs, by_ours)
    for name, verdict in (("/org/alice/film", "accepted"), ("/org/bob/film", "refused")):
        said = share.judged(name)
        if said != [verdict] * 2:
            raise Failed(f"{name}: metadata {said[0]}, manifest {said[1]}")


def cases(report, programs):
    for text, checks in fixtures():
        key = ("direct", "schemas", text.name)
        report.case(key + ("compiled alike",), same_bytes, programs, text)
        report.case(key + ("python-ndn reads ours",), python_reads, programs, text, checks)
        report.case(key + ("ours reads python-ndn's",), theirs_by_ours, programs, text, checks)
        if text.stem in FOR_NDND:
            report.case(key + ("NDNd reads ours",), ndnd_reads, programs, text, checks)
    report.case(("direct", "schemas", f"{DRAWN} drawn texts", "compiled alike"), drawn_alike, programs)
    for what, by_ours in (("share --sign key:", False), ("share --sign key:, key cert --by", True)):
        report.case(("direct", "schemas", what, "python-ndn's validator"), signed_share, programs, by_ours)
    report.case(("direct", "schemas", "NDNd's examples", "ours reads NDNd's"), ndnd_examples, programs)
