"""Cases: common mistakes of forwarders, on real Unix sockets, packet by packet.

Each case is a function of (consumers' and producer's) faces at one forwarder, under a prefix of its
own at which the producer is registered. Ours has to pass; NDNd runs the same, for the table.
"""

import time
from contextlib import ExitStack

import packets
from packets import DATA, INTEREST, Face, data, implicit_digest, interest, with_token
from programs import Failed

# Seconds after which no answer counts as none.
SILENCE = 0.3


def must(condition, text):
    if not condition:
        raise Failed(text)


def gets(face, typ, uri, text):
    packet = face.receive()
    must(packet and packet.nack is None and packet.typ == typ and packet.named(uri), text)
    return packet


def hears_nothing(face, text):
    packet = face.receive(SILENCE)
    must(packet is None or packet.nack is not None, text)


def implicit_digest_right(uri, producer, consumer, _other):
    right = data(f"{uri}/x", b"right", freshness=10_000)
    consumer.send(interest(f"{uri}/x", digest=implicit_digest(right)))
    gets(producer, INTEREST, uri, "the Interest did not reach the producer")
    producer.send(right)
    packet = gets(consumer, DATA, uri, "the Data of that digest did not come")
    must(packet.bare == right, "the Data are not those that were sent")


def implicit_digest_wrong(uri, producer, consumer, _other):
    right = data(f"{uri}/x", b"right", freshness=10_000)
    consumer.send(interest(f"{uri}/x", digest=implicit_digest(right)))
    gets(producer, INTEREST, uri, "the Interest did not reach the producer")
    producer.send(data(f"{uri}/x", b"wrong", freshness=10_000))
    hears_nothing(consumer, "Data of another digest came")
    producer.send(right)
    packet = gets(consumer, DATA, uri, "after Data of another digest the right Data did not come")
    must(packet.bare == right, "the Data are not those that were sent")


def forwarding_hint(uri, producer, consumer, _other):
    # No route leads to /interop/nowhere: only the delegation does.
    consumer.send(interest("/interop/nowhere/x", hint=uri))
    gets(producer, INTEREST, "/interop/nowhere", "the Interest did not follow its hint")
    producer.send(data("/interop/nowhere/x"))
    gets(consumer, DATA, "/interop/nowhere", "the Data did not come back")


def one_data_for_all(uri, producer, consumer, other):
    consumer.send(interest(uri, prefix=True))
    gets(producer, INTEREST, uri, "the first Interest did not come")
    other.send(interest(f"{uri}/x", fresh=True))
    gets(producer, INTEREST, uri, "the second Interest did not come")
    producer.send(data(f"{uri}/x", freshness=10_000))
    gets(consumer, DATA, uri, "the prefix Interest got nothing")
    gets(other, DATA, uri, "the exact, fresh Interest got nothing")


def aggregation(uri, producer, consumer, other):
    consumer.send(interest(f"{uri}/x"))
    gets(producer, INTEREST, uri, "the Interest did not come")
    other.send(interest(f"{uri}/x"))
    hears_nothing(producer, "the same name was asked twice")
    producer.send(data(f"{uri}/x"))
    gets(consumer, DATA, uri, "the first consumer got nothing")
    gets(other, DATA, uri, "the second consumer got nothing")


def retransmission(uri, producer, consumer, _other):
    consumer.send(interest(f"{uri}/x"))
    gets(producer, INTEREST, uri, "the Interest did not come")
    # Longer than forwarders suppress a retransmission: NDNd 0.5 s.
    time.sleep(0.7)
    consumer.send(interest(f"{uri}/x"))
    gets(producer, INTEREST, uri, "the retransmission was not forwarded")
    producer.send(data(f"{uri}/x"))
    gets(consumer, DATA, uri, "no answer")
    hears_nothing(consumer, "a second answer")


def loop(uri, producer, consumer, other):
    nonce = b"loop"
    consumer.send(interest(f"{uri}/x", nonce=nonce))
    gets(producer, INTEREST, uri, "the Interest did not come")
    other.send(interest(f"{uri}/x", nonce=nonce))
    hears_nothing(producer, "an Interest with a known nonce was forwarded")


def hop_limit(uri, producer, consumer, _other):
    consumer.send(interest(f"{uri}/x", hops=5))
    packet = gets(producer, INTEREST, uri, "the Interest did not come")
    must(packet.hop_limit() == 4, f"HopLimit 5 became {packet.hop_limit()}")
    consumer.send(interest(f"{uri}/y", hops=0))
    hears_nothing(producer, "an Interest with HopLimit 0 was forwarded")


def pit_tokens(uri, producer, consumer, _other):
    for length in (1, 4, 6, 8, 16, 32):
        name, token = f"{uri}/{length}", bytes(range(length))
        consumer.send(with_token(interest(name), token))
        asked = gets(producer, INTEREST, name, "the Interest did not come")
        answer = data(name)
        producer.send(with_token(answer, asked.token) if asked.token else answer)
        packet = gets(consumer, DATA, name, f"no Data for a token of {length} octets")
        must(packet.token == token, f"a token of {length} octets came back as {packet.token}")


def freshness(uri, producer, consumer, other):
    consumer.send(interest(f"{uri}/x"))
    gets(producer, INTEREST, uri, "the Interest did not come")
    producer.send(data(f"{uri}/x"))
    gets(consumer, DATA, uri, "no answer")
    other.send(interest(f"{uri}/x"))
    gets(other, DATA, uri, "Data without FreshnessPeriod were not cached")
    other.send(interest(f"{uri}/x", fresh=True))
    gets(producer, INTEREST, uri, "MustBeFresh was answered with Data that are never fresh")


def unsolicited(uri, producer, consumer, _other):
    producer.send(data(f"{uri}/x", freshness=10_000))
    time.sleep(0.1)
    consumer.send(interest(f"{uri}/x"))
    gets(producer, INTEREST, uri, "unsolicited Data were cached")


CASES = {
    "an implicit digest is answered by the right Data": implicit_digest_right,
    "and not by other Data, which change nothing": implicit_digest_wrong,
    "ForwardingHint followed": forwarding_hint,
    "one Data satisfies every matching Interest": one_data_for_all,
    "the same Interest of two faces is forwarded once": aggregation,
    "a retransmission is forwarded, and answered once": retransmission,
    "a known nonce is not forwarded": loop,
    "HopLimit counted down, 0 dropped": hop_limit,
    "PIT tokens of 1 to 32 octets echoed": pit_tokens,
    "no FreshnessPeriod: cached, but never fresh": freshness,
    "unsolicited Data not cached": unsolicited,
}


def one(body, forwarder, uri):
    try:
        with ExitStack() as faces:
            producer, consumer, other = (
                faces.enter_context(Face(forwarder.socket)) for _ in range(3)
            )
            body(uri, producer.register(uri), consumer, other)
    except OSError as error:
        raise Failed(f"the forwarder closed the connection: {error}") from error
    finally:
        if forwarder.program.ends_within(0.1):
            forwarder.start()
            raise Failed("the forwarder crashed")


def cases(report, forwarder):
    for index, (title, body) in enumerate(CASES.items()):
        key = (forwarder.name, "semantics", title, "outcome")
        report.case(key, one, body, forwarder, f"/interop/semantics/{index}",
                    theirs=forwarder.name != "node")
