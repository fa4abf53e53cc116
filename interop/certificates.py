"""Cases: `xylem ndn ca` and `xylem ndn request` as their users start them, with NDNts and NDNd at one forwarder.

Codes by email go through a mail server (aiosmtpd) with STARTTLS and a password.
"""

import datetime
import ipaddress
import json
import os
import re
import ssl
import subprocess
import time
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from programs import Failed, free_port, tail

PREFIX = "/authority"
PASSWORD = "a password of the relay"


class Mail:
    """A mail server on loopback with a certificate of its own, which programs trust by SSL_CERT_FILE."""

    def __init__(self, programs):
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        now = datetime.datetime.now(datetime.timezone.utc)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
            .sign(key, hashes.SHA256())
        )
        self.certificate = programs.file("relay.pem")
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private = programs.file("relay.key")
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, private)
        self.emails = []
        self.port = free_port()
        self.controller = Controller(
            self,
            hostname="127.0.0.1",
            port=self.port,
            tls_context=context,
            require_starttls=True,
            auth_required=True,
            authenticator=lambda server, session, envelope, mechanism, data: AuthResult(
                success=data.password == PASSWORD.encode()
            ),
        )

    async def handle_DATA(self, server, session, envelope):
        self.emails.append((envelope.rcpt_tos, envelope.content.decode()))
        return "250 taken"

    def code(self, address):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for to, text in self.emails:
                if to == [address]:
                    return re.search("Your code is (.*)", text)[1].strip()
            time.sleep(0.02)
        raise Failed(f"no email to {address}")


class Certificates:
    def __init__(self, programs, forwarder, mail):
        self.programs = programs
        self.transport = forwarder.transport("unix")
        self.mail = mail
        self.xylem = programs.tools.xylem

    def ours(self, *arguments, store):
        return [self.xylem, "--store", store, *arguments]

    def authority(self, challenge, kind="ecdsa"):
        """Starts `xylem ndn ca`; returns the program, its first event and its certificate's file."""
        store = self.programs.file("ca")
        self.programs.run(self.ours("key", "new", PREFIX, "--type", kind, store=store))
        own = self.programs.file("ca.cert")
        own.write_text(self.programs.run(self.ours("key", "cert", PREFIX, store=store)))
        command = self.ours("--json", "ndn", "ca", PREFIX, "--at", self.transport, "--challenge", challenge, store=store)
        environment = {}
        if challenge == "email":
            password = self.programs.file("password")
            password.write_text(PASSWORD + "\n")
            command += ["--smtp", f"127.0.0.1:{self.mail.port}", "--smtp-from", "ca@example.org"]
            command += ["--smtp-security", "starttls", "--smtp-user", "ca", "--smtp-password-file", password]
            environment = {"SSL_CERT_FILE": str(self.mail.certificate)}
        command = ["env", *(f"{key}={value}" for key, value in environment.items()), *command]
        ca = self.programs.start(command)
        ca.wait_for('"event":"ca"')
        return ca, json.loads(ca.output().splitlines()[0]), own

    def code_of(self, ca, challenge, address):
        if challenge == "email":
            return self.mail.code(address)
        ca.wait_for('"event":"pin"', 20)
        return re.search('"event":"pin".*"code":"([^"]*)"', ca.output())[1]

    def typing(self, command, ready, code, said, seconds=30):
        """Runs a client, types a code on request, and waits for the expected line."""
        client = self.programs.start(command, self.transport, stdin=subprocess.PIPE)
        client.wait_for(ready, seconds) if ready else None
        client.process.stdin.write(code().encode() + b"\n")
        client.process.stdin.close()
        if not client.ends_within(seconds) or not re.search(said, client.output()):
            raise Failed(f"{tail(client.output())}")
        self.programs.stop(client)

    def by_ndnts(self, challenge, kind="ecdsa"):
        ca, ready, _ = self.authority(challenge, kind)
        address = "al@example.org"
        script = Path(__file__).parent / "peers" / "ndnts_ndncert.mjs"
        name = f"{PREFIX}/{address}"
        how = address if challenge == "email" else "pin"
        command = [self.programs.tools.node, script, "request", name, ready["certificate"], ready["digest"], how]
        self.typing(command, None, lambda: self.code_of(ca, challenge, address), "^issued ")
        self.issued(ca)

    def by_ndnd(self, challenge):
        ca, _, own = self.authority(challenge)
        address = "ndnd@example.org"
        key = self.programs.file("al.key")
        made = self.programs.run([self.programs.tools.ndnd, "sec", "keygen", f"{PREFIX}/{address}", "ecc", "secp256r1"])
        key.write_text(made)
        command = [self.programs.tools.ndnd, "certcli", own, "-c", challenge, "-k", key, "--no-probe"]
        if challenge == "email":
            command += ["--email", address]
        self.typing(command, "Enter the", lambda: self.code_of(ca, challenge, address), "BEGIN NDN CERT")
        self.issued(ca)

    def issued(self, ca):
        ca.wait_for('"event":"issued"')
        certificate = re.search('"event":"issued","certificate":"([^"]*)"', ca.output())[1]
        # Fetched by name, by another client.
        store = self.programs.file("others")
        self.programs.run(self.ours("ndn", "peek", certificate, "--at", self.transport, store=store))
        if self.programs.stop(ca) != 0:
            raise Failed(f"the CA did not end with 0 on SIGTERM: {tail(ca.output())}")

    def of_ndnts(self):
        """`xylem ndn request`, with NDNts as the CA."""
        script = Path(__file__).parent / "peers" / "ndnts_ndncert.mjs"
        ca = self.programs.start([self.programs.tools.node, script, "ca", PREFIX], self.transport)
        ca.wait_for("^ca ", 20)
        digest = re.search("^ca (.*)$", ca.output(), re.MULTILINE)[1]
        store = self.programs.file("al")
        # It registers after it has printed its line.
        def routes():
            return self.programs.run([self.xylem, "ndn", "ctl", "route", "list", "--at", self.transport])

        end = time.monotonic() + 10
        while f"{PREFIX}/CA " not in routes() and time.monotonic() < end:
            time.sleep(0.1)
        request = ["--json", "ndn", "request", PREFIX, "--name", f"{PREFIX}/al", "--ca-digest", digest]
        # NDNts' CA accepts P-256 and RSA keys only.
        request += ["--type", "ecdsa"]
        command = self.ours(*request, "--at", self.transport, store=store)

        def code():
            ca.wait_for("^code |\ncode ", 20)
            return re.search("^code (.*)$", ca.output(), re.MULTILINE)[1]

        self.typing(command, "code_wanted", code, '"event":"certified".*hkdf-sha256')
        self.programs.stop(ca)


def cases(report, programs, forwarder):
    mail = Mail(programs)
    mail.controller.start()
    try:
        certificates = Certificates(programs, forwarder, mail)

        def case(who, what, body, *arguments):
            kept = list(programs.running)
            try:
                report.case((forwarder.name, "certificates", who, what), body, *arguments)
            finally:
                for program in [program for program in programs.running if program not in kept]:
                    programs.stop(program)

        for challenge in ("pin", "email"):
            case("NDNts, `xylem ndn ca`", challenge, certificates.by_ndnts, challenge)
            case("`ndnd certcli`, `xylem ndn ca`", challenge, certificates.by_ndnd, challenge)
        case("`xylem ndn request`, NDNts", "pin", certificates.of_ndnts)
    finally:
        mail.controller.stop()
