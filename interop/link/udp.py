"""Links on UDP sockets: a dialled one, and a listener that answers dialers ("Course")."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from . import envelope
from .envelope import Envelope
from .handshake import Dialer, Outcome, Responder
from .noise import Static
from .primitives import Broken, derive, keyed
from .session import Session

Address = tuple[str, int]

LOOPBACK = "127.0.0.1"
FIRST_REPETITION_S, LAST_REPETITION_S, HANDSHAKE_S = 0.25, 2.0, 10.0


class TimedOut(Exception):
    """No answer came, or not the awaited one."""


def mapped(address: Address) -> bytes:
    """An IPv4 address in IPv6 form, with the port."""
    host, port = address
    return socket.inet_pton(socket.AF_INET6, "::ffff:" + host) + port.to_bytes(2, "big")


class Socket:
    def __init__(self) -> None:
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((LOOPBACK, 0))

    @property
    def port(self) -> int:
        return int(self.udp.getsockname()[1])

    def send(self, datagram: bytes, to: Address) -> None:
        self.udp.sendto(datagram, to)

    def receive(self, seconds: float) -> tuple[bytes, Address] | None:
        self.udp.settimeout(max(seconds, 0.001))
        try:
            datagram, source = self.udp.recvfrom(65536)
            return datagram, (source[0], source[1])
        except (TimeoutError, ConnectionError):
            return None

    def close(self) -> None:
        self.udp.close()


def handshake(
    udp: Socket,
    to: Address,
    dialer: Dialer,
    seconds: float = HANDSHAKE_S,
    came: Callable[[bytes], None] = lambda _: None,
) -> Outcome:
    """Sends the dialer's first message until it is answered. `came` receives each datagram."""
    end = time.monotonic() + seconds
    wait, attempt = FIRST_REPETITION_S, 0
    while True:
        # Without a cookie and with those received, in turn.
        cookies = [*dialer.cookies, envelope.NO_COOKIE]
        for datagram in dialer.first(cookies[attempt % len(cookies)]):
            udp.send(datagram, to)
        attempt += 1
        again = min(time.monotonic() + wait, end)
        while time.monotonic() < again:
            found = udp.receive(again - time.monotonic())
            if found is None:
                continue
            came(found[0])
            read = dialer.read(found[0])
            if isinstance(read, Outcome):
                return read
            if isinstance(read, bytes) and read not in dialer.cookies:
                dialer.cookies = [read, *dialer.cookies][:4]
                for datagram in dialer.first(read):
                    udp.send(datagram, to)
        if time.monotonic() >= end:
            raise TimedOut("the handshake was not answered")
        wait = min(2 * wait, LAST_REPETITION_S)


class Link:
    """A link that this side has dialled."""

    def __init__(self, udp: Socket, to: Address, session: Session, finish: bytes) -> None:
        self.udp, self.to, self.session, self.finish = udp, to, session, finish
        self.proven = False

    @staticmethod
    def dial(to: Address, dialer: Dialer) -> Link:
        """`proven` is set after the first authentic datagram; the finish is repeated until then."""
        udp = Socket()
        link = Link(udp, to, Session(handshake(udp, to, dialer)), dialer.last())
        link.wait(lambda: link.proven)
        return link

    def flush(self) -> None:
        for datagram in self.session.datagrams():
            self.udp.send(datagram, self.to)

    def wait(self, until: Callable[[], object], seconds: float = 10.0) -> None:
        """Serves the link until the condition holds."""
        end = time.monotonic() + seconds
        repeat = 0.0
        while not until():
            now = time.monotonic()
            if now > end:
                raise TimedOut(f"the link has no answer (its end: {self.session.ended!r})")
            if not self.proven and now >= repeat:
                self.udp.send(self.finish, self.to)
                repeat = now + FIRST_REPETITION_S
            self.session.tick()
            self.flush()
            found = self.udp.receive(0.05)
            if found and found[1] == self.to:
                self.proven = self.session.receive(found[0]) or self.proven
        self.flush()

    def ask(self, interest: bytes, answers: Callable[[bytes], bool], seconds: float = 10.0) -> bytes:
        """Sends an Interest repeatedly until its answer comes."""
        end = time.monotonic() + seconds
        while True:
            self.session.send_packet(interest)
            try:
                self.wait(lambda: self.session.packets, 0.3)
            except TimedOut:
                if time.monotonic() > end or self.session.ended is not None:
                    raise
                continue
            while self.session.packets:
                packet = self.session.packets.popleft()
                if answers(packet):
                    return packet

    def move(self) -> None:
        """Continues from another port, as behind a new address translation."""
        self.udp.close()
        self.udp = Socket()

    def close(self) -> None:
        if self.session.ended is None:
            self.session.close()
            self.flush()
        self.udp.close()

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Listener:
    """A responder: answers dialers with its key or a knock, and their Interests."""

    def __init__(
        self,
        static: Static,
        knocks: list[bytes],
        answer: Callable[[bytes], bytes | None],
        *,
        hybrid: bool = True,
        aes_is_fast: bool = False,
        wants_cookie: bool = False,
    ) -> None:
        self.udp = Socket()
        self.static, self.answer = static, answer
        self.hybrid, self.aes_is_fast, self.wants_cookie = hybrid, aes_is_fast, wants_cookie
        self.envelopes = [Envelope.key(static.public), *map(Envelope.knock, knocks)]
        self.cookie_key, self.reset_key = os.urandom(32), derive("stateless reset key", static.secret)
        # First messages that wait for their rest; handshakes that wait for their finish; links.
        self.initials: dict[tuple[Address, bytes], envelope.Initial] = {}
        self.rests: dict[tuple[Address, bytes], bytes] = {}
        self.half_open: dict[tuple[Address, bytes], Responder] = {}
        self.links: list[tuple[Address, Session]] = []
        # Counters for the caller; and datagrams that are sent before each response.
        self.retries = self.resets = 0
        self.forgeries: Callable[[Responder], list[bytes]] = lambda _: []
        self.forgets_after: int | None = None
        self.forgotten: set[bytes] = set()
        self.answered = 0

    def serve(self, until: Callable[[], object]) -> None:
        while not until():
            found = self.udp.receive(0.02)
            if found:
                self.receive(*found)
            for address, session in self.links:
                session.tick()
                self.flush(address, session)

    def flush(self, address: Address, session: Session) -> None:
        for datagram in session.datagrams():
            self.udp.send(datagram, address)

    def token(self, id: bytes, address: Address) -> bytes:
        return keyed(self.reset_key, id + mapped(address))[:16]

    def receive(self, datagram: bytes, source: Address) -> None:
        for address, session in self.links:
            if session.knows(datagram):
                if session.receive(datagram):
                    self.serve_packets(address, session)
                return
        if datagram[:8] in self.forgotten and len(datagram) >= 64:
            self.resets += 1
            self.udp.send(os.urandom(21) + self.token(datagram[:8], source), source)
            return
        for (address, _), responder in list(self.half_open.items()):
            outcome = responder.read(datagram) if address == source else None
            if outcome:
                self.half_open = {k: r for k, r in self.half_open.items() if r is not responder}
                session = Session(outcome)
                session.token_of = lambda id, to=source: self.token(id, to)
                self.links.append((address, session))
                return
        for sealed_in in self.envelopes:
            opened = sealed_in.unseal(datagram)
            if opened:
                with suppress(Broken):
                    self.first_message(sealed_in, *opened, source)
                return

    def cookie(self, source: Address, id: bytes) -> bytes:
        return keyed(self.cookie_key, mapped(source) + id)[:24]

    def first_message(
        self, sealed_in: Envelope, id: bytes, body: bytes, source: Address
    ) -> None:
        kind, content = envelope.read(body)
        key = (source, id)
        if kind == envelope.INITIAL and isinstance(content, envelope.Initial):
            if self.wants_cookie and content.cookie != self.cookie(source, id):
                self.retries += 1
                retry = envelope.head(envelope.RETRY) + self.cookie(source, id)
                # The id that the dialer expects the answer under is the beginning of Noise's first payload.
                self.udp.send(sealed_in.seal(content.message[32:40], retry, 100), source)
                return
            self.initials[key] = content
        elif kind == envelope.REST and isinstance(content, bytes):
            self.rests[key] = content
        if key not in self.initials:
            return
        initial = self.initials[key]
        message = initial.message
        if initial.check is not None:
            rest = self.rests.get(key, b"")
            if envelope.check_of(rest) != initial.check:
                return
            message += rest
        responder = self.half_open.get(key)
        if responder is None:
            responder = Responder(
                self.static, sealed_in, message, hybrid=self.hybrid, aes_is_fast=self.aes_is_fast
            )
            self.half_open[key] = responder
        for datagram in [*self.forgeries(responder), responder.response()]:
            self.udp.send(datagram, source)

    def serve_packets(self, address: Address, session: Session) -> None:
        while session.packets:
            answer = self.answer(session.packets.popleft())
            if answer:
                self.answered += 1
                session.send_packet(answer)
            if self.answered == self.forgets_after:
                # As after a restart of the program: it keeps its key, and loses all links.
                self.forgets_after = None
                self.forgotten.add(session.receiving.id)
                self.links = [each for each in self.links if each[1] is not session]
                break
        self.flush(address, session)

    def close(self) -> None:
        for address, session in self.links:
            if session.ended is None:
                session.close()
                self.flush(address, session)
        self.udp.close()


