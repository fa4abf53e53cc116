"""The link of docs/spec/link.md, version 5, a second time.

Written from the specification and from nothing else, to find out whether it is enough, and to be read
by whoever writes a third one. In this order:

    primitives   BLAKE3 with the link's labels, SipHash-1-3, XChaCha20-Poly1305
    elligator    public keys that look random
    noise        Noise XX with such keys
    envelope     what handshake messages look like on the wire
    handshake    dialer and responder, message by message
    epoch        secrets, sealed datagrams, the chain of epochs
    frames       what is in them
    session      a link after its handshake
    udp          links on a socket

    ndn, tree, publication, ticket: what is fetched over a link (docs/spec/object.md, tree.md)
    vectors      docs/spec/vectors/link-v5.json: writes it, and checks it
    cases        all of it against the real program

It is slow, keeps no secret from who shares its machine, and is for tests alone.
"""
