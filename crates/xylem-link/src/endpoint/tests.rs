//! Tests of internals: a recorder's derivations, an impostor, a peer that seals malformed frames.

use crate::envelope::EnvelopeKey;
use bytes::BytesMut;

use super::limits::RateSource;
use super::*;
use crate::aead::Cipher;
use crate::epoch::EpochSecret;
use crate::frame::Frame;
use crate::kdf::label;
use crate::message::{
    COOKIE_LEN, HandshakeMessage, KemKeyPart, NOISE_1_LEN, NoiseOneHead, PART_LEN, REST_LEN, check,
};
use crate::noise::PROLOGUE;
use crate::seal::Opener;

mod dials;
mod paths;
mod secrecy;

const ZERO: Duration = Duration::ZERO;

pub(super) fn at(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 1))
}

fn endpoint(n: u8) -> Endpoint {
    Endpoint::new(LinkConfig::default(), StaticKey::generate([n; 32]), [n; 32])
}

/// The next event, except observed addresses.
pub(super) fn next_event(endpoint: &mut Endpoint) -> Option<LinkEvent> {
    let mut events = core::iter::from_fn(|| endpoint.poll_event());
    events.find(|event| !matches!(event, LinkEvent::Observed { .. }))
}

pub(super) fn drain(endpoint: &mut Endpoint) -> Vec<Vec<u8>> {
    let (mut buf, mut out) = (Vec::new(), Vec::new());
    while let Some(t) = endpoint.poll_transmit(ZERO, &mut buf) {
        out.extend(buf.chunks(t.segment_size.unwrap_or(t.len)).map(<[u8]>::to_vec));
    }
    out
}

pub(super) fn feed(endpoint: &mut Endpoint, from: u8, datagrams: &[Vec<u8>]) {
    for datagram in datagrams {
        endpoint.handle_datagram(ZERO, at(from), BytesMut::from(&datagram[..]));
    }
}

/// Endpoint 1 dials 2; returns both, their link ids, and every datagram from 1 to 2 and back.
pub(super) fn connected() -> (Endpoint, Endpoint, [LinkId; 2], Vec<Vec<u8>>) {
    connect(endpoint(1), endpoint(2))
}

fn connect(mut a: Endpoint, mut b: Endpoint) -> (Endpoint, Endpoint, [LinkId; 2], Vec<Vec<u8>>) {
    let link = a.connect(ZERO, at(2), Some(b.public_key()));
    let mut tap = Vec::new();
    for _ in 0..10 {
        let out = drain(&mut a);
        feed(&mut b, 1, &out);
        tap.extend(out);
        let out = drain(&mut b);
        feed(&mut a, 2, &out);
        tap.extend(out);
    }
    let Some(LinkEvent::Connected { link: theirs, peer, .. }) = next_event(&mut b) else {
        panic!()
    };
    assert_eq!(peer, a.public_key());
    assert!(matches!(next_event(&mut a), Some(LinkEvent::Connected { .. })));
    (a, b, [link, theirs], tap)
}

fn initial_of(noise: &[u8; NOISE_1_LEN], part: Option<KemKeyPart<'_>>) -> Vec<u8> {
    HandshakeMessage::Initial { cookie: &[0; COOKIE_LEN], head: NoiseOneHead { noise, part } }
        .to_vec()
}

pub(super) fn up(endpoint: &mut Endpoint, id: LinkId) -> &mut Link {
    match &mut endpoint.links.get_mut(&id).unwrap().state {
        LinkState::Up(link) => link,
        _ => panic!("not up"),
    }
}

#[test]
fn datagrams_of_a_resting_link_are_not_opened() {
    let (mut a, mut b, [link, theirs], _) = connected();
    let send = |a: &mut Endpoint, packet: &[u8]| {
        a.send(link, packet).unwrap();
        drain(a)
    };
    let packets = |b: &mut Endpoint| {
        let all = std::iter::from_fn(|| next_event(b));
        let packet = |event| match event {
            LinkEvent::Packet { packet, .. } => Some(packet),
            _ => None,
        };
        all.filter_map(packet).collect::<Vec<_>>()
    };
    let until = Duration::from_secs(2);
    b.rest(theirs, until);
    feed(&mut b, 1, &send(&mut a, b"while it rests"));
    assert!(packets(&mut b).is_empty());
    assert_eq!(b.endpoint_stats().unopened, 1);
    let later = send(&mut a, b"after");
    for datagram in &later {
        b.handle_datagram(until, at(1), BytesMut::from(&datagram[..]));
    }
    assert_eq!(packets(&mut b), [&b"after"[..]]);
}

#[test]
fn both_sides_use_the_negotiated_cipher() {
    use crate::Suites::{ChaCha, Fastest, XChaCha};
    let best = if Cipher::aes_is_fast() { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
    let rows = [
        (Fastest, Fastest, best),
        (Fastest, ChaCha, Cipher::ChaCha20Poly1305),
        (Fastest, XChaCha, Cipher::ChaCha20Poly1305),
        (ChaCha, Fastest, Cipher::ChaCha20Poly1305),
        (ChaCha, ChaCha, Cipher::ChaCha20Poly1305),
        (XChaCha, Fastest, Cipher::XChaCha20Poly1305),
        (XChaCha, ChaCha, Cipher::XChaCha20Poly1305),
        (XChaCha, XChaCha, Cipher::XChaCha20Poly1305),
    ];
    for (one, other, cipher) in rows {
        let [a, b] = [(1, one), (2, other)].map(|(n, suites)| {
            let config = LinkConfig { suites, ..LinkConfig::default() };
            Endpoint::new(config, StaticKey::generate([n; 32]), [n; 32])
        });
        let (mut a, mut b, [link, theirs], _) = connect(a, b);
        a.send(link, b"over any").unwrap();
        let out = drain(&mut a);
        feed(&mut b, 1, &out);
        assert!(matches!(next_event(&mut b), Some(LinkEvent::Packet { .. })));
        assert_eq!([up(&mut a, link).cipher(), up(&mut b, theirs).cipher()], [cipher; 2]);
    }
}

pub(super) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, &parts.concat());
    digest.as_ref().try_into().unwrap()
}

/// The transcript as Noise defines it: every part is on the wire, except for the form byte before an ephemeral key,
/// which is always 1.
pub(super) fn transcript(noise: &[Vec<u8>]) -> [u8; 32] {
    let mut h = sha256(&[b"Noise_XX_25519_ChaChaPoly_SHA256", PROLOGUE]);
    let cuts: [(&[u8], &[usize]); 3] = [(&[1], &[33]), (&[1], &[33, 82]), (&[], &[49])];
    for (message, (form, cuts)) in noise.iter().zip(cuts) {
        let message = [form, message].concat();
        let mut from = 0;
        for to in cuts.iter().copied().chain([message.len()]) {
            h = sha256(&[&h, &message[from..to]]);
            from = to;
        }
    }
    h
}

/// The Noise messages of a handshake with `responder`, in order, as an observer with its public key reads them.
pub(super) fn noise_messages(responder: PeerKey, tap: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let envelope = EnvelopeKey::new(Some(responder));
    let bodies: Vec<_> = tap.iter().filter_map(|d| envelope.open(d)).collect();
    let noise: Vec<Vec<u8>> = bodies
        .iter()
        .filter_map(|body| match HandshakeMessage::parse(body)? {
            HandshakeMessage::Initial { head: NoiseOneHead { noise, part }, .. } => {
                Some([&noise[..], part.map_or(&[], |p| &p.part[..])].concat())
            }
            HandshakeMessage::Rest { rest } => Some(rest.to_vec()),
            HandshakeMessage::Response { noise } => Some(noise.to_vec()),
            HandshakeMessage::HybridResponse { noise } => Some(noise.to_vec()),
            HandshakeMessage::Finish { noise } => Some(noise.to_vec()),
            HandshakeMessage::Retry { .. } => None,
        })
        .collect();
    // A KEM key comes in two datagrams.
    let noise = match &noise[..] {
        [initial, rest, response, finish] => {
            vec![[&initial[..], rest].concat(), response.clone(), finish.clone()]
        }
        three => three.to_vec(),
    };
    assert_eq!(noise.len(), 3, "the recorder reads the handshake's outside");
    noise
}

/// WRAITH: session keys derived from the handshake hash, which is computable from the recorded datagrams alone. Here a
/// recorder with every datagram and both public keys uses everything that can be computed from them, the handshake hash
/// included, through our own derivations, in every role, and opens nothing. The handshake runs without ML-KEM, because
/// its secret would mask a flaw in the rest.
#[test]
fn datagrams_and_public_keys_alone_open_nothing() {
    for post_quantum in [crate::PostQuantum::Offer, crate::PostQuantum::Never] {
        let config = LinkConfig { post_quantum, ..LinkConfig::default() };
        let node = |n| Endpoint::new(config.clone(), StaticKey::generate([n; 32]), [n; 32]);
        let (a, b, [link, _], tap) = connect(node(1), node(2));
        a_recorder_opens_nothing(a, &b, link, tap);
    }
}

fn a_recorder_opens_nothing(mut a: Endpoint, b: &Endpoint, link: LinkId, mut tap: Vec<Vec<u8>>) {
    a.send(link, b"a secret that the recorder wants").unwrap();
    tap.extend(drain(&mut a));

    let noise = noise_messages(b.public_key(), &tap);
    let h = transcript(&noise);
    let e = [&noise[0][..32], &noise[1][..32]];
    let mut material: Vec<[u8; 32]> = vec![h, a.public_key().0, b.public_key().0, [0; 32]];
    material.extend(e.map(|e| <[u8; 32]>::try_from(e).unwrap()));
    // X25519 of every public value used as if it were a secret.
    for secret in material.clone() {
        material.push(StaticKey::from_bytes(secret).public().0);
    }
    for i in 0..material.len() {
        for j in 0..4 {
            material.push(sha256(&[&material[i], &material[j]]));
        }
    }
    let mut opened = 0;
    let mut tried = 0;
    for split in &material {
        for (transcript, shared) in [(&h, None), (&h, Some(&[0; 32])), (&[0; 32], Some(&h))] {
            for cipher in Cipher::ALL {
                for label in [label::INITIATOR_EPOCH, label::RESPONDER_EPOCH] {
                    let secret = EpochSecret::first(label, split, shared, transcript, cipher);
                    let mut opener = Opener::new(cipher, secret);
                    for datagram in &tap {
                        tried += 1;
                        // The id is on the wire: try its keys on datagrams with another id too.
                        let mut copy = datagram.clone();
                        let id = opener.connection_ids().next().unwrap();
                        copy[..8].copy_from_slice(&id.0);
                        opened += usize::from(opener.open(ZERO, &mut copy).is_ok());
                        opened += usize::from(opener.open(ZERO, &mut datagram.clone()).is_ok());
                    }
                }
            }
        }
    }
    assert!(tried > 1_000);
    assert_eq!(opened, 0);

    // Control: the recorder's transcript is the true one, and its derivation is the one in use. With the split keys,
    // which it lacks, the same steps do open a datagram.
    let (i, r) = (StaticKey::generate([1; 32]), StaticKey::generate([2; 32]));
    let mut rng = LinkRng::new(&[7; 32]);
    let [one, other] = [0; 2].map(|_| crate::elligator::KeyPair::generate(&mut rng));
    let mut hi = crate::noise::Handshake::initiator(&i, one);
    let mut hr = crate::noise::Handshake::responder(&r, other);
    let mut messages = [vec![], vec![], vec![]];
    hi.write(b"", &mut messages[0]).unwrap();
    hr.read(&messages[0]).unwrap();
    hr.write(b"", &mut messages[1]).unwrap();
    hi.read(&messages[1]).unwrap();
    hi.write(b"", &mut messages[2]).unwrap();
    assert_eq!(hi.finish().unwrap().transcript, transcript(&messages));
}

/// WRAITH: the responder's key is not compared with the dialled one. An impostor knows the expected public key, and so
/// the envelope, but not the secret. It is detected, receives nothing, and does not keep the dialer from the genuine
/// peer.
#[test]
fn an_impostor_neither_gets_nor_ends_a_handshake() {
    for the_peer_answers in [true, false] {
        let (mut a, mut impostor, mut genuine) = (endpoint(1), endpoint(3), endpoint(2));
        let expected = genuine.public_key();
        impostor.envelopes = Envelopes::new(expected);
        let link = a.connect(ZERO, at(3), Some(expected));
        let first = drain(&mut a);
        for again in [false, true] {
            feed(&mut impostor, 1, &first);
            let out = drain(&mut impostor);
            assert_eq!(out.len(), 1);
            feed(&mut a, 3, &out);
            let peer = impostor.public_key();
            let told = (!again).then_some(LinkEvent::OtherKey { link, peer });
            assert_eq!(next_event(&mut a), told, "once for each dial");
            let shown = drain(&mut a);
            assert_eq!(shown, Vec::<Vec<u8>>::new(), "our own key is not shown to an impostor");
        }
        if the_peer_answers {
            feed(&mut genuine, 1, &first);
            let out = drain(&mut genuine);
            feed(&mut a, 2, &out);
            let event = next_event(&mut a);
            let Some(LinkEvent::Connected { peer, dial, .. }) = event else { panic!("{event:?}") };
            assert_eq!((peer, dial), (expected, Some(link)));
        } else {
            a.handle_timeout(Duration::from_secs(10));
            let reason = CloseReason::WrongPeer;
            assert_eq!(next_event(&mut a), Some(LinkEvent::Closed { link, reason }));
            assert_eq!((a.links.len(), a.routes.len()), (0, 0));
        }
        assert_eq!(next_event(&mut impostor), None);
    }
}

/// A peer that seals malformed or false frames ends its own link and receives the close code for it; nothing panics.
#[test]
fn malformed_sealed_frames_end_the_link() {
    let mut cases: Vec<Vec<u8>> = vec![
        vec![0x0c],
        vec![0xff; 100],
        vec![3, 0, 0],
        vec![3, 0xff, 0xff, 1],
        vec![1, 2, 3],
        vec![4; 12],
    ];
    let frames = [
        // Wrong commitment to the current epoch: not the same keys (WRAITH: never compared).
        Frame::Epoch { number: 0, commitment: [0; 32] },
        Frame::Epoch { number: 1, commitment: [0; 32] },
        Frame::Probe(1_000),
    ];
    for frame in frames {
        let mut out = Vec::new();
        frame.write(&mut out);
        cases.push(out);
    }
    for frames in cases {
        let (mut a, mut b, [link, theirs], _) = connected();
        let datagram = up(&mut a, link).seal_frames(&frames);
        feed(&mut b, 1, &[datagram]);
        let reason = CloseReason::PeerMisbehaved;
        assert_eq!(
            next_event(&mut b),
            Some(LinkEvent::Closed { link: theirs, reason }),
            "{frames:?}"
        );
        let out = drain(&mut b);
        feed(&mut a, 2, &out);
        let reason = CloseReason::Peer;
        assert_eq!(next_event(&mut a), Some(LinkEvent::Closed { link, reason }));
        assert_eq!((a.links.len(), a.routes.len()), (0, 0));
        b.handle_timeout(Duration::from_secs(60));
        while b.poll_transmit(Duration::from_secs(60), &mut Vec::new()).is_some() {}
        b.handle_timeout(Duration::from_secs(60));
        assert_eq!((b.links.len(), next_event(&mut b)), (0, None), "reported once");
    }
}

/// Frames that are odd but harmless: unexpected acks and answers, floods of questions. The answers are bounded, and the
/// link does not end.
#[test]
fn unexpected_answers_and_question_floods_are_harmless() {
    let (mut a, mut b, [link, theirs], _) = connected();
    let odd = [
        Frame::Pong(1),
        Frame::ProbeAck(60_000),
        Frame::PathResponse(1),
        Frame::EpochAck(77),
        Frame::Close(9),
    ];
    let mut frames = Vec::new();
    odd[..4].iter().for_each(|f| f.write(&mut frames));
    (0..100).for_each(|n| Frame::Ping(n).write(&mut frames));
    (0..10).for_each(|n| Frame::PathChallenge(n).write(&mut frames));
    let size = up(&mut b, theirs).stats().datagram_size;
    let datagram = up(&mut a, link).seal_frames(&frames);
    feed(&mut b, 1, &[datagram]);
    assert_eq!(next_event(&mut b), None);
    assert!(drain(&mut b).len() < 12);
    assert_eq!(up(&mut b, theirs).stats().datagram_size, size);
}

/// Every table is empty again once links are gone.
#[test]
fn a_closed_link_leaves_no_state() {
    let (mut a, mut b, [link, _], _) = connected();
    a.close(link);
    let out = drain(&mut a);
    feed(&mut b, 1, &out);
    for endpoint in [&mut a, &mut b] {
        for s in 0..100 {
            let now = Duration::from_secs(s);
            endpoint.handle_timeout(now);
            while endpoint.poll_transmit(now, &mut Vec::new()).is_some() {}
        }
        assert_eq!(endpoint.links.len() + endpoint.routes.len() + endpoint.firsts.len(), 0);
        assert_eq!(endpoint.timers.len() + endpoint.half_open.live(), 0);
    }
}

/// Handshake messages with a valid envelope and invalid content, sent to a listener, a dialer and a half-open
/// handshake.
#[test]
fn malformed_handshake_messages_change_nothing() {
    // Stateless resets have tests of their own.
    let config = LinkConfig { stateless_reset: false, ..LinkConfig::default() };
    let end = |n| Endpoint::new(config.clone(), StaticKey::generate([n; 32]), [n; 32]);
    let (mut a, mut b) = (end(1), end(2));
    let envelope = EnvelopeKey::new(Some(b.public_key()));
    let link = a.connect(ZERO, at(2), Some(b.public_key()));
    let initial = drain(&mut a);
    let targets = [ConnectionId([9; 8]), ConnectionId(*initial[0].first_chunk().unwrap())];
    feed(&mut b, 1, &initial);
    let response = drain(&mut b).remove(0);
    let dialer = ConnectionId(*response.first_chunk().unwrap());
    let nonsense = [
        HandshakeMessage::Finish { noise: &[1; 73] }.to_vec(),
        HandshakeMessage::Response { noise: &[1; 115] }.to_vec(),
        HandshakeMessage::HybridResponse { noise: &[1; 1_203] }.to_vec(),
        HandshakeMessage::Rest { rest: &[1; 91] }.to_vec(),
        vec![],
        vec![1],
        vec![2, 1],
        vec![2, 9],
    ];
    for body in &nonsense {
        for cid in targets.into_iter().chain([dialer]) {
            let mut out = Vec::new();
            envelope.seal(cid, body, 1_200, &mut out);
            feed(&mut a, 2, &[out.clone()]);
            feed(&mut b, 1, &[out]);
        }
    }
    // An initial with an invalid Noise message, to the listener.
    let noise = [0xff; NOISE_1_LEN];
    let body = initial_of(&noise, None);
    let mut out = Vec::new();
    envelope.seal(ConnectionId([8; 8]), &body, 1_200, &mut out);
    feed(&mut b, 1, &[out]);
    // An initial that is valid except for the KEM key, which comes in two datagrams; an invalid rest first.
    let mut noise = noise;
    noise[NOISE_1_LEN - 1] = 2;
    let (rest, half_open) = ([0xff; REST_LEN], b.half_open.live());
    let part = Some(KemKeyPart { check: &check(&rest), part: &[0xff; PART_LEN] });
    let initial = initial_of(&noise, part);
    for (body, waits) in [
        (initial, 1),
        (HandshakeMessage::Rest { rest: &[1; REST_LEN] }.to_vec(), 1),
        (HandshakeMessage::Rest { rest: &rest }.to_vec(), 0),
    ] {
        let mut out = Vec::new();
        envelope.seal(ConnectionId([7; 8]), &body, 200, &mut out);
        feed(&mut b, 1, &[out]);
        assert_eq!(b.half_open.live(), half_open + waits);
    }
    assert_eq!((drain(&mut a).len(), drain(&mut b).len()), (0, 0), "nothing is answered");
    assert_eq!((next_event(&mut a), next_event(&mut b)), (None, None));
    // The genuine ones still work.
    feed(&mut a, 2, &[response]);
    let out = drain(&mut a);
    feed(&mut b, 1, &out);
    assert!(
        matches!(next_event(&mut a), Some(LinkEvent::Connected { link: up, .. }) if up == link)
    );
    assert!(matches!(next_event(&mut b), Some(LinkEvent::Connected { .. })));
}

/// WRAITH: Elligator2 present in benchmarks, never in the handshake. The ephemeral keys of both sides are uniform bits
/// even to an observer that opens the envelopes. A plain key's top bit is zero, and its square root exists. `elligator`
/// has the full test of 10,000 keys.
#[test]
fn ephemeral_keys_are_uniform_inside_the_envelope_too() {
    const N: usize = 300;
    let mut b = endpoint(2);
    let envelope = EnvelopeKey::new(Some(b.public_key()));
    let (mut tops, mut responses) = ([0; 2], 0);
    for n in 0..N {
        let mut a = Endpoint::new(
            LinkConfig::default(),
            StaticKey::generate([1; 32]),
            core::array::from_fn(|i| (n >> (8 * (i % 2))) as u8),
        );
        a.connect(ZERO, at(2), Some(b.public_key()));
        let out = drain(&mut a);
        feed(&mut b, 1, &out);
        for datagram in out.into_iter().chain(drain(&mut b)) {
            let body = envelope.open(&datagram).unwrap();
            match HandshakeMessage::parse(&body).unwrap() {
                HandshakeMessage::Initial { head: NoiseOneHead { noise, .. }, .. } => {
                    tops[0] += usize::from(noise[31] >> 7)
                }
                HandshakeMessage::Response { noise } => {
                    tops[1] += usize::from(noise[31] >> 7);
                    responses += 1;
                }
                HandshakeMessage::HybridResponse { noise } => {
                    tops[1] += usize::from(noise[31] >> 7);
                    responses += 1;
                }
                _ => {}
            }
        }
        while let Some(id) = b.half_open.to_displace(RateSource::of(at(1))) {
            b.remove(id);
        }
    }
    assert_eq!(responses, N);
    // Six standard deviations of 300 coin tosses.
    assert!(tops.iter().all(|top| (98..=202).contains(top)), "{tops:?}");
}

/// A link comes up with a hybrid on both sides, and without one where either side does not want it; both sides report
/// which.
#[test]
fn hybrids_are_taken_where_both_want_them() {
    use crate::PostQuantum;
    for (dialer, responder) in [(true, true), (true, false), (false, true), (false, false)] {
        let make = |n: u8, hybrid| {
            let post_quantum = if hybrid { PostQuantum::Offer } else { PostQuantum::Never };
            let config = LinkConfig { post_quantum, ..LinkConfig::default() };
            Endpoint::new(config, StaticKey::generate([n; 32]), [n; 32])
        };
        let (mut a, mut b) = (make(1, dialer), make(2, responder));
        let link = a.connect(ZERO, at(2), Some(b.public_key()));
        for _ in 0..4 {
            let out = drain(&mut a);
            feed(&mut b, 1, &out);
            let out = drain(&mut b);
            feed(&mut a, 2, &out);
        }
        let Some(LinkEvent::Connected { link: theirs, .. }) = next_event(&mut b) else { panic!() };
        let hybrid = dialer && responder && crate::kem::is_available();
        assert_eq!(a.stats(link).unwrap().post_quantum, hybrid);
        assert_eq!(b.stats(theirs).unwrap().post_quantum, hybrid);
        a.send(link, b"a packet").unwrap();
        let out = drain(&mut a);
        feed(&mut b, 1, &out);
        assert!(
            matches!(next_event(&mut b), Some(LinkEvent::Packet { packet, .. }) if packet == b"a packet"[..])
        );
    }
}
