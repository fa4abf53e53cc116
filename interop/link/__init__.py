"""A second implementation of the link of docs/spec/link.md, version 5.

It is written from the specification alone, to find out whether that is enough, and as an example for
a third implementation. In this order:

    primitives   BLAKE3 with the link's labels, SipHash-1-3, XChaCha20-Poly1305
    elligator    public keys that look random
    noise        Noise XX with such keys
    envelope     the form of handshake messages on the wire
    handshake    dialer and responder, message by message
    epoch        secrets, sealed datagrams, the chain of epochs
    frames       the content of datagrams
    session      a link after its handshake
    udp          links on a socket

    ndn, tree, publication, ticket: fetching over a link (docs/spec/object.md, tree.md)
    vectors      docs/spec/vectors/link-v5.json: writes it, and checks it
    cases        all of it against the real program

It is slow, hides no secret from other users of its machine, and is for tests only.
"""
