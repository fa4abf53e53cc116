"""Cases: the real program at the other end of this implementation's links, in both directions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from programs import Failed, Program, Programs, free_port
from report import Report

from . import envelope, frames, ndn, publication, vectors
from .envelope import Envelope
from .frames import Frame
from .handshake import Dialer, Parameters, Responder
from .noise import Static
from .primitives import AES_256_GCM, CHACHA20_POLY1305, XCHACHA20_POLY1305, Broken, x25519_public
from .publication import Manifest, Publication
from .session import BROKEN, Session
from .ticket import Ticket
from .udp import Address, Link, Listener, Socket, TimedOut, handshake

# Ten segments: more than one segment's proof covers, so that there is a tile.
SIZE = 80_000

CIPHERS: dict[int, tuple[str, dict[str, Any]]] = {
    AES_256_GCM: ("AES-256-GCM", {"aes_is_fast": True}),
    CHACHA20_POLY1305: ("ChaCha20-Poly1305", {}),
    XCHACHA20_POLY1305: ("XChaCha20-Poly1305", {"asks_xchacha": True}),
}


def must(condition: object, text: str) -> None:
    if not condition:
        raise Failed(text)


@dataclass
class Share:
    """A running `xylem share` of some bytes."""

    ticket: Ticket
    content: bytes
    # The key that it proves: a short ticket does not contain it.
    key: bytes = b""

    @property
    def address(self) -> Address:
        return self.ticket.addresses[0]

    def dialer(self, by_key: bool = True, **how: Any) -> Dialer:
        sealed_in = Envelope.key(self.key) if by_key else Envelope.knock(self.ticket.publisher)
        return Dialer(Static(os.urandom(32)), sealed_in, self.key if by_key else None, **how)

    def dial(self, by_key: bool = True, **how: Any) -> Link:
        return Link.dial(self.address, self.dialer(by_key, **how))

    def find(self, link: Link) -> Manifest:
        key = link.session.outcome.peer
        return publication.find(asker(link), self.ticket.publisher, self.ticket.root, key, True)

    def fetches(self, link: Link) -> None:
        """Fetches all of it over the link, and checks that it is proven and equal."""
        content = publication.fetch(asker(link), self.find(link))
        must(content == self.content, "other bytes than those shared")


def asker(link: Link) -> Callable[[bytes], bytes]:
    def ask(name: bytes) -> bytes:
        def answers(packet: bytes) -> bool:
            data = ndn.Data.decode(packet)
            return data is not None and data.name == name

        return link.ask(ndn.interest(name), answers)

    return ask


def start_share(programs: Programs, file: Path, store: Path, *flags: str) -> tuple[Program, Ticket]:
    tickets = programs.file("ticket")
    with open(tickets, "wb") as out:
        program = programs.start(
            [programs.tools.xylem, "--store", store, "share", file, "--foreground", *flags], stdout=out
        )
    program.wait_until(lambda: tickets.read_text().endswith("\n"))
    return program, Ticket.read(tickets.read_text())


@contextmanager
def shared(programs: Programs, content: bytes) -> Iterator[Share]:
    file = programs.file("shared")
    file.write_bytes(content)
    program, ticket = start_share(programs, file, programs.file("store"), "--listen", "127.0.0.1:0")
    try:
        share = Share(ticket, content)
        with share.dial(by_key=False) as link:
            share.key = link.session.outcome.peer
        yield share
    finally:
        programs.stop(program)


# Cases in which this side dials.


def dials(share: Share, by_key: bool, cipher: int, hybrid: bool) -> None:
    with share.dial(by_key, hybrid=hybrid, **CIPHERS[cipher][1]) as link:
        outcome = link.session.outcome
        # Where the processor has no AES, a responder chooses ChaCha20 instead.
        taken = [cipher, CHACHA20_POLY1305] if cipher == AES_256_GCM else [cipher]
        must(outcome.cipher in taken, f"another cipher: {outcome.cipher}")
        must((outcome.hybrid_secret is not None) == hybrid, "the hybrid was not taken, or without an offer")
        share.fetches(link)


def two_rounds(share: Share) -> None:
    """Two rounds, each included by both directions; packets go on."""
    with share.dial() as link:
        session = link.session
        for number in (1, 2):
            link.wait(lambda: session.confirmed)
            session.offer_round()
            link.wait(lambda: session.receiving.round and not session.round.under_way)
            must(session.sending.round == session.receiving.round == number, "not of this round")
            share.fetches(link)


def next_epoch(share: Share) -> None:
    with share.dial() as link:
        session = link.session
        for number in (1, 2, 3):
            link.wait(lambda: session.confirmed)
            session.begin_next_epoch(True)
            must(session.sending.number == number, "no further epoch")
        share.fetches(link)
        link.wait(lambda: session.confirmed)


def lost_and_doubled(share: Share) -> None:
    """Every third datagram of ours is lost, every other one is sent twice."""
    with share.dial() as link:
        count = 0
        genuine = link.udp.send

        def send(datagram: bytes, to: Address) -> None:
            nonlocal count
            count += 1
            for _ in range((1, 2, 0)[count % 3]):
                genuine(datagram, to)

        link.udp.send = send  # type: ignore[method-assign]
        share.fetches(link)


def moves(share: Share) -> None:
    """Moves to a new port; the old one is silent."""
    with share.dial() as link:
        share.find(link)
        link.move()
        share.fetches(link)
        seen = [frame for frame in link.session.seen if isinstance(frame, frames.PathChallenge)]
        must(seen, "the new address was not asked")


def pongs(share: Share) -> None:
    with share.dial() as link:
        token = os.urandom(8)
        link.session.waiting.append(frames.Ping(token))
        link.wait(lambda: frames.Pong(token) in link.session.seen)


def probes(share: Share) -> None:
    """A datagram of 1,400 bytes is acknowledged as such."""
    with share.dial() as link:
        probe = frames.Probe(1400)
        plain = frames.encode([probe]).ljust(1400 - 28, b"\0")
        link.udp.send(link.session.seal(plain), link.to)
        link.wait(lambda: frames.ProbeAck(1400) in link.session.seen)


def shaped(share: Share) -> None:
    """At medium, which this side requests: each datagram of the share has one of two sizes."""
    # The sizes of the path, whichever of them was found to pass by then; a probe has its own size, too.
    sizes = {512, 1232, 1392, 1452}
    seen: set[int] = set()
    asks_for = Parameters(shaping_wanted=2, shaping_limit=2)
    with share.dial(parameters=asks_for) as link:
        genuine = link.session.receive

        def receive(datagram: bytes) -> bool:
            seen.add(len(datagram))
            return genuine(datagram)

        link.session.receive = receive  # type: ignore[method-assign]
        share.fetches(link)
    must(512 in seen and seen <= sizes, f"datagrams of {sorted(seen)} bytes")


def silent_to_strangers(share: Share) -> None:
    """A stranger without key and knock gets no datagram, for messages of the right form or not."""
    udp = Socket()
    stranger = Dialer(Static(os.urandom(32)), Envelope.open())
    other = Dialer(Static(os.urandom(32)), Envelope.knock(os.urandom(32)))
    for datagram in [*stranger.first(), *other.first(), os.urandom(64), os.urandom(1200)]:
        udp.send(datagram, share.address)
    # Datagrams are answered in order: all answers to earlier ones have come before this.
    dialer = share.dialer()
    heard: list[bytes] = []
    handshake(udp, share.address, dialer, came=heard.append)
    must(len(heard) == 1, f"{len(heard) - 1} answers")
    udp.close()


def unknown_stream(share: Share) -> None:
    """The stream is stopped and reset, and its first frame is acknowledged."""
    with share.dial() as link:
        number = link.session.sent
        link.session.waiting.append(frames.StreamOpen(2, 60_000))

        def saw(kind: type[Frame]) -> bool:
            return any(isinstance(frame, kind) for frame in link.session.seen)

        for kind in (frames.StreamStop, frames.StreamReset, frames.Ack):
            link.wait(partial(saw, kind))
        ack = next(frame for frame in link.session.seen if isinstance(frame, frames.Ack))
        must(ack.largest == number, f"acknowledges {ack.largest} instead of {number}")


def restarted(programs: Programs, content: bytes) -> None:
    """A share that answers strangers is killed and restarted, and answers datagrams of this link with a stateless
    reset."""
    file, store = programs.file("shared"), programs.file("store")
    file.write_bytes(content)
    flags = ["--accept-open", "--listen", f"127.0.0.1:{free_port()}"]
    program, ticket = start_share(programs, file, store, *flags)
    try:
        with Link.dial(ticket.addresses[0], Dialer(Static(os.urandom(32)), Envelope.open())) as link:
            link.wait(lambda: link.session.reset_token)
            program.process.kill()
            program.process.wait()
            program, _ = start_share(programs, file, store, *flags)
            link.session.waiting.append(frames.Ping(os.urandom(8)))
            link.wait(lambda: link.session.ended == "reset")
    finally:
        programs.stop(program)


def broken_by(frame: Callable[[Session], bytes]) -> Callable[[Share], None]:
    """The program closes a link on which this is sealed, with the matching code."""

    def case(share: Share) -> None:
        with share.dial() as link:
            link.udp.send(link.session.seal(frame(link.session)), link.to)
            link.wait(lambda: link.session.ended is not None)
            must(link.session.ended == BROKEN, f"the link's end was {link.session.ended!r}")
        with share.dial() as link:
            share.find(link)

    return case


def wrong_commitment(session: Session) -> bytes:
    return frames.EpochBegins(session.sending.number, bytes(32)).encode()


def future_epoch(session: Session) -> bytes:
    return frames.EpochBegins(session.sending.number + 1, session.sending.next().commitment).encode()


def second_key(_: Session) -> bytes:
    offers = [frames.Rekey(1, frames.OFFER, x25519_public(bytes([i]) * 32)) for i in (1, 2)]
    return frames.encode(list(offers))


BREAKS: dict[str, Callable[[Session], bytes]] = {
    "a wrong commitment ends the link": wrong_commitment,
    "an epoch that has not begun": future_epoch,
    "an unknown frame": lambda _: b"\x16",
    "a frame that is cut off": lambda _: frames.Ping(bytes(8)).encode()[:-1],
    "an empty packet": lambda _: b"\x03\0\0",
    "a probe of another size": lambda _: frames.Probe(1300).encode(),
    "a second key for a round": second_key,
    "an answer of the dialer": lambda _: frames.Rekey(1, frames.ANSWER, bytes(range(32))).encode(),
    "a key with which X25519 gives zeros": lambda _: frames.Rekey(1, frames.OFFER, bytes(32)).encode(),
    "fragments of two totals": lambda _: frames.encode(
        [frames.Fragment(1, 0, 100, bytes(50)), frames.Fragment(1, 50, 101, bytes(50))]
    ),
    "a round after the next": lambda _: frames.Rekey(2, frames.OFFER, bytes(range(32))).encode(),
    "a token of a future epoch": lambda _: frames.ResetToken(1, bytes(16)).encode(),
    "an ack of no ranges": lambda _: frames.Ack(0, 0, 0, ()).encode(),
    "a stream of the other side's": lambda _: frames.StreamOpen(1, 3).encode(),
    "a window below the first": lambda _: frames.WindowUpdate(2**32 - 1, 1000).encode(),
    "stream 0": lambda _: frames.StreamOpen(0, 3).encode(),
    "an ack of what was not sent": lambda _: frames.encode(
        [frames.StreamOpen(2, 3), frames.Ack(2**40, 0, 0, ((0, 1),))]
    ),
    "data beyond the window": lambda _: frames.StreamData(2, 65_536, b"x").encode(),
}


# Forged handshake messages before the genuine ones of a dial from this side.


def flipped(octets: bytes, at: int) -> bytes:
    return octets[:at] + bytes([octets[at] ^ 1]) + octets[at + 1 :]


def completes(share: Share, udp: Socket, dialer: Dialer) -> None:
    """Completes the handshake from here on, with the dialer's messages."""
    outcome = handshake(udp, share.address, dialer)
    link = Link(udp, share.address, Session(outcome), dialer.last())
    with link:
        share.fetches(link)


def forged_first(share: Share, hybrid: bool) -> None:
    """Each byte of the first message flipped, under the dialer's own id, in a good envelope."""
    udp, dialer = Socket(), share.dialer(hybrid=hybrid)
    genuine = dialer.message
    # In the hybrid's key only each 32nd byte.
    for at in [*range(envelope.FIRST), *range(envelope.FIRST, len(genuine), 32)]:
        dialer.message = flipped(genuine, at)
        for datagram in dialer.first()[:1] if at % 2 else dialer.first():
            udp.send(datagram, share.address)
    dialer.message = genuine
    completes(share, udp, dialer)


def forged_rest(share: Share) -> None:
    udp, dialer = Socket(), share.dialer()
    initial, rest = dialer.first()
    udp.send(initial, share.address)
    for at in range(envelope.REST_LENGTH):
        body = envelope.head(envelope.REST) + flipped(dialer.message[-envelope.REST_LENGTH :], at)
        udp.send(dialer.sealed_in.seal(rest[:8], body, 200), share.address)
    completes(share, udp, dialer)


def forged_finish(share: Share) -> None:
    """Each byte of the third message flipped, in a good envelope, before the genuine one."""
    udp, dialer = Socket(), share.dialer()
    outcome = handshake(udp, share.address, dialer)
    genuine = dialer.finish
    for at in range(len(genuine)):
        dialer.finish = flipped(genuine, at)
        udp.send(dialer.last(), share.address)
    dialer.finish = genuine
    with Link(udp, share.address, Session(outcome), dialer.last()) as link:
        share.fetches(link)


def flipped_datagrams(share: Share) -> None:
    """Each 16th byte of each datagram flipped on the way."""
    udp, dialer = Socket(), share.dialer()

    def send(datagram: bytes) -> None:
        for at in range(0, len(datagram), 16):
            udp.send(flipped(datagram, at), share.address)

    for datagram in dialer.first():
        send(datagram)
    outcome = handshake(udp, share.address, dialer)
    send(dialer.last())
    with Link(udp, share.address, Session(outcome), dialer.last()) as link:
        share.fetches(link)


def by_cookie(share: Share) -> None:
    """With many half-open handshakes the program requires a cookie and accepts it."""
    udps = [Socket() for _ in range(64)]
    for udp in udps:
        udp.send(share.dialer(hybrid=False).first()[0], share.address)
    dialer = share.dialer()
    link = Link.dial(share.address, dialer)
    with link:
        share.fetches(link)
    must(dialer.cookies, "no cookie was asked for")
    for udp in udps:
        udp.close()


DIALS: dict[str, Callable[[Share], None]] = {
    "two rounds of Diffie-Hellman": two_rounds,
    "epochs without a round": next_epoch,
    "datagrams that are lost and doubled": lost_and_doubled,
    "another port in mid-link": moves,
    "a ping is answered": pongs,
    "a probe is acknowledged": probes,
    "a stream of an unknown purpose is refused": unknown_stream,
    "shaped at medium": shaped,
    "silent to strangers": silent_to_strangers,
    "first message, plain: each byte flipped": lambda share: forged_first(share, False),
    "first message, hybrid: each byte flipped": lambda share: forged_first(share, True),
    "its rest: each byte flipped": forged_rest,
    "third message: each byte flipped": forged_finish,
    "all datagrams flipped on the way": flipped_datagrams,
    "a cookie is asked for and taken": by_cookie,
}


# Cases in which this side answers.


@contextmanager
def listening(
    content: bytes, *, by_key: bool = False, **how: Any
) -> Iterator[tuple[Listener, Ticket]]:
    """A publication of this side, and a ticket for it: a short one, or one with the link's key."""
    made = Publication(os.urandom(32), "made-here", content)
    static = Static(os.urandom(32))

    def answer(packet: bytes) -> bytes | None:
        name = ndn.asked_name(packet)
        return made.answer(name, static.public) if name else None

    listener = Listener(static, [] if by_key else [made.publisher], answer, **how)
    ticket = Ticket(made.publisher, made.tree.root, addresses=[("127.0.0.1", listener.udp.port)])
    if by_key:
        ticket = replace(ticket, name=made.name, link_key=static.public, size=len(content))
    try:
        yield listener, ticket
    finally:
        listener.close()


def gets(programs: Programs, listener: Listener, ticket: Ticket, content: bytes) -> None:
    """`xylem get` fetches it from here, byte-equal."""
    fetched = programs.file("fetched")
    program = programs.start(
        [programs.tools.xylem, "--store", programs.file("store"), "get", ticket.text()]
        + ["-o", fetched, "--timeout", "60", "--no-serve"]
    )
    try:
        listener.serve(lambda: program.process.poll() is not None)
    finally:
        programs.stop(program)
    must(program.process.returncode == 0, f"exit code {program.process.returncode}: {end(program)}")
    must(fetched.read_bytes() == content, "other bytes than those served")
    for _, session in listener.links:
        must(not isinstance(session.ended, str), f"the program broke the protocol: {session.ended}")


def end(program: Program) -> str:
    return " | ".join(program.output().splitlines()[-3:])


def answers(programs: Programs, content: bytes, **how: Any) -> None:
    with listening(content, **how) as (listener, ticket):
        gets(programs, listener, ticket, content)
        session = listener.links[0][1]
        hybrid = session.outcome.hybrid_secret is not None
        must(hybrid == how.get("hybrid", True), "the program did not offer a hybrid")
        must(session.confirmed, "the program has not confirmed the first epoch")


def asks_for_cookie(programs: Programs, content: bytes) -> None:
    with listening(content, wants_cookie=True) as (listener, ticket):
        gets(programs, listener, ticket, content)
        must(listener.retries, "the program was never asked")


def forged_answers(programs: Programs, content: bytes, forge: Callable[[Responder], list[bytes]]) -> None:
    """These answers come before each genuine response."""
    with listening(content) as (listener, ticket):
        listener.forgeries = forge
        gets(programs, listener, ticket, content)


def flipped_responses(responder: Responder) -> list[bytes]:
    kind = envelope.head(envelope.HYBRID_RESPONSE if responder.hybrid_secret else envelope.RESPONSE)
    # In the ciphertext only each 16th byte.
    places = [*range(32 + 49), *range(81, len(responder.message), 16), len(responder.message) - 1]
    return [
        responder.sealed_in.seal(responder.dialer_id, kind + flipped(responder.message, at), 1230)
        for at in places
    ]


def forged_retries(responder: Responder) -> list[bytes]:
    return [
        responder.sealed_in.seal(responder.dialer_id, envelope.head(envelope.RETRY) + os.urandom(24), 100)
        for _ in range(8)
    ]


def other_keys(programs: Programs, content: bytes) -> None:
    """An attacker with the ticket answers first, with keys of its own."""
    with listening(content) as (listener, ticket):
        others = [Static(os.urandom(32)) for _ in range(2)]
        messages: dict[bytes, bytes] = {}
        genuine = listener.first_message

        def first_message(sealed_in: Envelope, id: bytes, body: bytes, source: Address) -> None:
            kind, content = envelope.read(body)
            if isinstance(content, envelope.Initial):
                messages[id] = content.message
            elif kind == envelope.REST and id in messages:
                for other in others:
                    forged = Responder(other, sealed_in, messages[id] + content)
                    listener.udp.send(forged.response(), source)
            genuine(sealed_in, id, body, source)

        listener.first_message = first_message  # type: ignore[method-assign]
        gets(programs, listener, ticket, content)


def round_of_the_dialer(programs: Programs, content: bytes) -> None:
    """The program's first round of Diffie-Hellman, which it offers after 120 s: this case is only run on request."""
    began = time.monotonic()
    with listening(content) as (listener, ticket):
        genuine = listener.answer

        def answer(packet: bytes) -> bytes | None:
            name = ndn.asked_name(packet) or b""
            late = [ndn.segment(i) for i in range(10) if time.monotonic() < began + 14 * i]
            return None if any(name.endswith(each) for each in late) else genuine(packet)

        listener.answer = answer
        gets(programs, listener, ticket, content)
        session = listener.links[0][1]
        must(session.round.number == 1 and not session.round.under_way, "no round, or not all of it")
        must(session.sending.round == session.receiving.round == 1, "not the epochs after the round")


def forgets(programs: Programs, content: bytes) -> None:
    """The listener loses its links in the middle, and answers with a stateless reset."""
    with listening(content) as (listener, ticket):
        listener.forgets_after = 4
        gets(programs, listener, ticket, content)
        must(listener.resets, "no reset was sent")
        must(len(listener.links) == 1, "the program did not dial again")


ANSWERS: dict[str, Callable[[Programs, bytes], None]] = {
    "by the knock, hybrid": answers,
    "by the knock, plain": lambda programs, content: answers(programs, content, hybrid=False),
    "by the key, hybrid": lambda programs, content: answers(programs, content, by_key=True),
    "by the key, plain": lambda programs, content: answers(programs, content, by_key=True, hybrid=False),
    "with AES-256-GCM where both are quick": lambda programs, content: answers(
        programs, content, aes_is_fast=True
    ),
    "a retry's cookie comes back": asks_for_cookie,
    "a stateless reset is believed": forgets,
    "second message: each byte flipped": lambda programs, content: forged_answers(
        programs, content, flipped_responses
    ),
    "another key answers first": other_keys,
    "forged retries": lambda programs, content: forged_answers(programs, content, forged_retries),
}


def guarded(body: Callable[..., None]) -> Callable[..., None]:
    """An exception of this implementation is the case's outcome, too."""

    def case(*arguments: Any) -> None:
        try:
            body(*arguments)
        except (Broken, TimedOut) as error:
            raise Failed(f"{type(error).__name__}: {error}") from error

    return case


def vectors_hold() -> None:
    must(vectors.check(), f"{vectors.FILE.name} is not what this implementation makes")


def long_cases(report: Report, programs: Programs) -> None:
    content = os.urandom(SIZE)
    row = "a round that the program offers"
    report.case(("direct", "link answers", row, "outcome"), guarded(round_of_the_dialer), programs, content)


def cases(report: Report, programs: Programs) -> None:
    report.case(("direct", "link vectors", "link-v5.json", "outcome"), guarded(vectors_hold))
    content = os.urandom(SIZE)
    with shared(programs, content) as share:
        for by_key, hybrid in ((False, False), (False, True), (True, False), (True, True)):
            row = f"by the {'key' if by_key else 'knock'}, {'hybrid' if hybrid else 'plain'}"
            for cipher, (title, _) in CIPHERS.items():
                key = ("direct", "link dials", row, title)
                report.case(key, guarded(dials), share, by_key, cipher, hybrid)
        for row, body in DIALS.items():
            report.case(("direct", "link dialled", row, "outcome"), guarded(body), share)
        for row, frame in BREAKS.items():
            report.case(("direct", "link broken", row, "outcome"), guarded(broken_by(frame)), share)
    row = "a share that was killed and started again"
    report.case(("direct", "link dialled", row, "outcome"), guarded(restarted), programs, content)
    for row, answer in ANSWERS.items():
        report.case(("direct", "link answers", row, "outcome"), guarded(answer), programs, content)


