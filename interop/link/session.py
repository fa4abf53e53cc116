"""A link after its handshake: epochs, rounds, packets ("Epochs", "Rekeying", "Frames").

No sockets: `receive` takes a datagram, `datagrams` returns those to send, `tick` has to be called now and then.
Without shaping and congestion control; of streams only the frames.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from . import frames
from .epoch import ID, OVERHEAD, Epoch, Received
from .frames import Frame
from .handshake import Outcome
from .primitives import Broken, x25519, x25519_public

SIZE = 1232
PACKET_HEAD, FRAGMENT_HEAD = 3, 15
KEEP_BEFORE_S = 3.0
REPEAT_S = 0.25
LARGEST_PACKET = 65536

NORMAL, BROKEN = 0, 1


@dataclass
class Round:
    """One round of Diffie-Hellman."""

    number: int
    # The dialer's secret is kept until the answer has come; the responder's is dropped once it has answered.
    secret: bytes | None = None
    offer: bytes = b""
    answer: bytes = b""
    shared: bytes | None = None
    # The directions in which the next epoch has yet to include it.
    sending: bool = False
    receiving: bool = False

    @property
    def under_way(self) -> bool:
        return self.secret is not None or self.sending or self.receiving


@dataclass
class Assembly:
    """A packet that arrives in fragments."""

    total: int
    bytes: bytearray = field(init=False)
    there: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.bytes, self.there = bytearray(self.total), bytearray(self.total)

    def add(self, fragment: frames.Fragment) -> bytes | None:
        """The whole packet, if this was its last missing piece."""
        begin, end = fragment.offset, fragment.offset + len(fragment.piece)
        if fragment.total != self.total or end > self.total or not self.total <= LARGEST_PACKET:
            raise Broken("a fragment that contradicts its packet")
        self.bytes[begin:end] = fragment.piece
        self.there[begin:end] = b"\1" * (end - begin)
        return None if 0 in self.there else bytes(self.bytes)


class Session:
    def __init__(self, outcome: Outcome, clock: Callable[[], float] = time.monotonic) -> None:
        self.dialer = outcome.dialer
        self.outcome = outcome
        self.clock = clock
        self.sending = Epoch(outcome.first_secret(outcome.dialer), outcome.cipher)
        self.receiving = Epoch(outcome.first_secret(not outcome.dialer), outcome.cipher)
        self.before: tuple[Epoch, float] | None = None
        self.round = Round(0)
        self.sent = 0
        self.received = Received()
        # Whether the peer has acknowledged the sending epoch.
        self.confirmed = False
        self.waiting: list[Frame] = []
        self.next_message = 0
        self.assemblies: dict[int, Assembly] = {}
        # Packets completed from fragments, so that a late repetition of one is ignored.
        self.whole: set[int] = set()
        # Largest numbers of datagrams that asked for an acknowledgement, and of those with fragments.
        self.largest_asked = self.largest_in_pieces = -1
        self.asked_at = 0.0
        # Whole packets received, and all frames, for the caller.
        self.packets: deque[bytes] = deque()
        self.seen: list[Frame] = []
        # Why the link has ended: the peer's close code, "reset", or the peer's violation.
        self.ended: int | str | None = None
        self.reset_token: tuple[int, bytes] | None = None
        # Addresses at which the peer announces to be reachable.
        self.candidates: frames.Candidates | None = None
        # Makes the tokens that this side sends, if any, from an epoch's id.
        self.token_of: Callable[[bytes], bytes] | None = None
        self.repeated_at = self.heard_at = clock()
        self.announce()

    # Sending.

    def announce(self) -> None:
        self.waiting.append(frames.EpochBegins(self.sending.number, self.sending.commitment))

    def send_packet(self, packet: bytes) -> None:
        room = SIZE - OVERHEAD
        if len(packet) + PACKET_HEAD <= room:
            self.waiting.append(frames.Packet(packet))
            return
        piece = room - FRAGMENT_HEAD
        for at in range(0, len(packet), piece):
            self.waiting.append(
                frames.Fragment(self.next_message, at, len(packet), packet[at : at + piece])
            )
        self.next_message = (self.next_message + 1) % 2**32

    def seal(self, plain: bytes) -> bytes:
        self.sent += 1
        return self.sending.seal(self.sent - 1, plain)

    def datagrams(self) -> list[bytes]:
        """All waiting frames, in as few datagrams as their order permits."""
        out: list[bytes] = []
        # An epoch that begins here announces itself.
        self.begin_next_epoch()
        while self.waiting:
            together = [self.waiting.pop(0)]
            while self.waiting and length(together + self.waiting[:1]) <= SIZE - OVERHEAD:
                together.append(self.waiting.pop(0))
            out.append(self.seal(frames.encode(together) + bytes(self.padding(together))))
        return out

    def padding(self, together: list[Frame]) -> int:
        carries = (frames.Packet, frames.Fragment, frames.Probe)
        if any(isinstance(frame, carries) or frame.asks for frame in together):
            return 0
        smallest = 64 if any(isinstance(frame, frames.Ping) for frame in together) else 0
        own = OVERHEAD + length(together)
        return min(max(smallest - own, 0) + os.urandom(1)[0] % 64, SIZE - own)

    def tick(self) -> None:
        """Repeats frames that may have been lost."""
        now = self.clock()
        if now < self.repeated_at + REPEAT_S or self.ended is not None:
            return
        self.repeated_at = now
        if not self.confirmed:
            self.announce()
        if self.round.secret is not None:
            self.waiting.append(frames.Rekey(self.round.number, frames.OFFER, self.round.offer))
        if now > self.heard_at + 10:
            self.waiting.append(frames.Ping(os.urandom(8)))

    # Epochs.

    def begin_next_epoch(self, whether_due: bool = False) -> None:
        """Begins an epoch with a round at once, another one on request; never before the peer has confirmed the
        last."""
        if not self.confirmed or not (self.round.sending or whether_due):
            return
        if self.round.sending:
            assert self.round.shared is not None
            self.sending = self.sending.ratcheted(self.round.shared, self.round.number)
            self.round.sending = False
        else:
            self.sending = self.sending.next()
        self.confirmed = False
        self.announce()

    def followers(self) -> Iterable[Epoch]:
        """The epochs that the peer may begin."""
        yield self.receiving.next()
        if self.round.receiving:
            assert self.round.shared is not None
            yield self.receiving.ratcheted(self.round.shared, self.round.number)

    def offer_round(self) -> None:
        assert self.dialer and not self.round.under_way
        secret = os.urandom(32)
        self.round = Round(self.round.number + 1, secret, offer=x25519_public(secret))
        self.waiting.append(frames.Rekey(self.round.number, frames.OFFER, self.round.offer))

    def rekey(self, frame: frames.Rekey) -> None:
        if frame.stage != (frames.ANSWER if self.dialer else frames.OFFER):
            raise Broken("a rekey frame of the wrong side")
        if self.dialer:
            self.answered(frame)
        else:
            self.offered(frame)

    def answered(self, frame: frames.Rekey) -> None:
        if frame.round > self.round.number:
            raise Broken("an answer to what was not offered")
        if frame.round < self.round.number or self.round.secret is None:
            return
        shared = x25519(self.round.secret, frame.key)
        self.round = Round(frame.round, None, self.round.offer, frame.key, shared, True, True)

    def offered(self, frame: frames.Rekey) -> None:
        if frame.round < self.round.number:
            return
        if frame.round == self.round.number + 1 and not self.round.under_way:
            secret = os.urandom(32)
            shared = x25519(secret, frame.key)
            # It sends in it only after it has seen that the dialer has it too.
            self.round = Round(
                frame.round, None, frame.key, x25519_public(secret), shared, False, True
            )
        elif frame.round != self.round.number or frame.key != self.round.offer:
            raise Broken("an offer that can't be")
        self.waiting.append(frames.Rekey(frame.round, frames.ANSWER, self.round.answer))

    # Receiving.

    def knows(self, datagram: bytes) -> bool:
        """Whether a datagram belongs to an epoch of this link."""
        known = [self.receiving.id, *(epoch.id for epoch in self.followers())]
        return datagram[:ID] in known + ([self.before[0].id] if self.before else [])

    def receive(self, datagram: bytes) -> bool:
        """Takes a datagram; returns whether it was authentic. An unauthentic one changes nothing."""
        opened = self.open(datagram)
        if opened is None:
            token = self.reset_token
            if token and len(datagram) >= 37 and datagram.endswith(token[1]) and not self.knows(datagram):
                self.ended = "reset"
            return False
        number, plain = opened
        if not self.received.take(number):
            return False
        self.heard_at = self.clock()
        if self.ended is not None:
            return True
        try:
            asks = in_pieces = False
            for frame in frames.decode(plain):
                self.seen.append(frame)
                asks = asks or frame.asks
                in_pieces = in_pieces or isinstance(frame, frames.Fragment)
                self.take(frame, len(datagram))
            if asks:
                self.largest_asked = max(number, self.largest_asked)
                self.waiting.append(self.acknowledgement(self.largest_asked))
            if in_pieces:
                self.largest_in_pieces = max(number, self.largest_in_pieces)
                self.waiting.append(self.acknowledgement(self.largest_in_pieces))
        except Broken as broken:
            self.close(BROKEN, str(broken))
        return True

    def open(self, datagram: bytes) -> tuple[int, bytes] | None:
        expected = self.received.highest + 1
        opened = self.receiving.open(datagram, expected)
        if opened:
            return opened
        if self.before and self.clock() < self.before[1] + KEEP_BEFORE_S:
            opened = self.before[0].open(datagram, expected)
            if opened:
                return opened
        for epoch in self.followers():
            opened = epoch.open(datagram, expected)
            if opened:
                self.before = (self.receiving, self.clock())
                self.receiving = epoch
                if epoch.round is not None:
                    # The dialer sends in the round's epoch already; now the responder may.
                    self.round.receiving, self.round.sending = False, not self.dialer
                return opened
        return None

    def take(self, frame: Frame, size: int) -> None:
        match frame:
            case frames.Ping():
                self.waiting.append(frames.Pong(frame.token))
            case frames.PathChallenge():
                self.waiting.append(frames.PathResponse(frame.token))
            case frames.Packet():
                self.packets.append(frame.packet)
            case frames.Fragment() if frame.message not in self.whole:
                assembly = self.assemblies.setdefault(frame.message, Assembly(frame.total))
                packet = assembly.add(frame)
                if packet is not None:
                    del self.assemblies[frame.message]
                    self.whole.add(frame.message)
                    self.packets.append(packet)
            case frames.Probe():
                if frame.size != size:
                    raise Broken("a probe of another size than its datagram's")
                self.waiting.append(frames.ProbeAck(size))
            case frames.EpochBegins():
                self.epoch_begins(frame)
            case frames.EpochAck():
                self.confirmed = self.confirmed or frame.number == self.sending.number
            case frames.Rekey():
                self.rekey(frame)
            case frames.ResetToken():
                if frame.epoch > self.sending.number:
                    raise Broken("a token of a future epoch")
                if self.reset_token is None or frame.epoch >= self.reset_token[0]:
                    self.reset_token = (frame.epoch, frame.token)
            case frames.Candidates():
                known = self.candidates.number if self.candidates else 0
                if frame.number > known:
                    self.candidates = frame
                if frame.number >= known:
                    self.waiting.append(frames.CandidatesAck(frame.number))
            case frames.Close():
                self.ended = frame.code

    def epoch_begins(self, frame: frames.EpochBegins) -> None:
        if frame.number > self.receiving.number:
            raise Broken("begins a future epoch")
        if frame.number < self.receiving.number:
            return
        if frame.commitment != self.receiving.commitment:
            raise Broken("a wrong commitment")
        self.waiting.append(frames.EpochAck(frame.number))
        if self.token_of:
            token = self.token_of(self.receiving.id)
            self.waiting.append(frames.ResetToken(frame.number, token))

    def acknowledgement(self, largest: int) -> frames.Ack:
        """Counts down from the largest number: a run of missing numbers, a run of received ones, and so on."""
        ranges: list[tuple[int, int]] = []
        at = largest
        lowest = min(self.received.numbers)
        while at >= lowest and len(ranges) < 32:
            gap, there = 0, 0
            while at - gap not in self.received.numbers:
                gap += 1
            while at - gap - there in self.received.numbers:
                there += 1
            ranges.append((gap, there))
            at -= gap + there
        return frames.Ack(largest, 0, 0, tuple(ranges))

    def close(self, code: int = NORMAL, why: str = "closed here") -> None:
        self.waiting = [frames.Close(code)]
        self.ended = why


def length(together: list[Frame]) -> int:
    return len(frames.encode(together))
