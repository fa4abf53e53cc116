//! docs/spec/vectors/link-v5.json, made by another implementation (interop/link), against this one: each message of the
//! handshake, its results, epochs, datagrams, frames and reset tokens.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use serde_json::Value;
use xylem_link_internals::internals::{
    Frame, Frames, HEADER_LEN, NoiseSide, Opener, SpecEnvelope, TAG_LEN, aead_seal, body_again,
    direction, elligator_public_key, kem_open, payloads_again, reset_token, rest_check, take_round,
    x25519, x25519_public_key,
};
use xylem_link_internals::{Cipher, StaticKey};

const VECTORS: &str = include_str!("../../../docs/spec/vectors/link-v5.json");

fn vectors() -> Value {
    serde_json::from_str(VECTORS).unwrap()
}

/// The entries of a list, which must not be empty.
fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    let entries = of[name].as_array().unwrap();
    assert!(!entries.is_empty(), "{name}");
    entries
}

fn octets(of: &Value) -> Vec<u8> {
    let text = of.as_str().unwrap_or_else(|| panic!("{of} is no octets"));
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { panic!("odd length") };
    let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
    pairs.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

fn array<const N: usize>(of: &Value) -> [u8; N] {
    octets(of).try_into().unwrap()
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap()
}

#[test]
fn representatives_match_their_keys() {
    for vector in list(&vectors(), "representatives") {
        let public = elligator_public_key(&array(&vector["representative"]));
        assert_eq!(public, array(&vector["public"]), "{vector}");
    }
}

#[test]
fn ephemeral_keys_agree_with_the_same_secrets() {
    for vector in list(&vectors(), "ephemerals") {
        let public = elligator_public_key(&array(&vector["representative"]));
        assert_eq!(public, array(&vector["public"]), "{vector}");
        let shared = x25519(&array(&vector["secret"]), &array(&vector["peer_public"])).unwrap();
        assert_eq!(*shared, array(&vector["shared"]), "{vector}");
    }
}

fn envelope(vector: &Value) -> SpecEnvelope {
    match vector["pattern"].as_str().unwrap() {
        "key" => SpecEnvelope::key(array(&vector["given"])),
        "knock" => SpecEnvelope::knock(&array(&vector["given"])),
        "open" => SpecEnvelope::open(),
        other => panic!("{other}"),
    }
}

#[test]
fn envelopes_have_these_bytes() {
    for vector in list(&vectors(), "envelopes") {
        let (body, datagram) = (octets(&vector["body"]), octets(&vector["datagram"]));
        let sealed_in = envelope(vector);
        assert_eq!(sealed_in.seal(array(&vector["id"]), &body, 0), datagram);
        assert_eq!(sealed_in.body(&datagram), Some(body));
    }
}

/// Opens a handshake datagram: its id matches, its body parses and is written again to the same bytes, and sealed again
/// it is the same. Returns the body without version, kind and padding.
fn message(vector: &Value, datagram: &str, id: &str, kind: u8) -> Vec<u8> {
    let sealed_in = envelope(vector);
    let datagram = octets(&vector[datagram]);
    let body = sealed_in.body(&datagram).unwrap();
    assert_eq!(datagram[..8], octets(&vector[id]));
    let read = body_again(&body).unwrap();
    assert_eq!(body[..read.len()], read);
    assert!(body[read.len()..].iter().all(|padding| *padding == 0));
    assert_eq!(sealed_in.seal(array(&vector[id]), &read, datagram.len()), datagram);
    assert_eq!(read[..2], [5, kind]);
    read[2..].to_vec()
}

/// Checks the handshake datagrams against a body put together from its parts.
fn datagrams_carry_the_noise_messages(vector: &Value, hybrid: bool) {
    let [first, second, third] =
        [1, 2, 3].map(|n| octets(&vector[format!("noise_message_{n}").as_str()]));
    let mut initial = octets(&vector["cookie"]);
    initial.extend_from_slice(&first[..41]);
    if hybrid {
        let rest = &first[first.len() - 91..];
        initial.extend_from_slice(&rest_check(rest).unwrap());
        initial.extend_from_slice(&first[41..first.len() - 91]);
        assert_eq!(message(vector, "rest", "initial_id", 5), rest);
    }
    assert_eq!(message(vector, "initial", "initial_id", 1), initial);
    assert_eq!(message(vector, "retry", "dialer_id", 2), octets(&vector["cookie"]));
    assert_eq!(message(vector, "response", "dialer_id", if hybrid { 6 } else { 3 }), second);
    assert_eq!(message(vector, "finish", "responder_id", 4), third);
}

/// Runs both sides of the handshake with the vector's keys; returns hash, k1 and k2.
fn runs_noise(vector: &Value, kem: Option<(Vec<u8>, Vec<u8>)>) -> [[u8; 32]; 3] {
    let side = |initiator: bool, who: &str| {
        let key = StaticKey::from_bytes(array(&vector[format!("{who}_static").as_str()]));
        let ephemeral = &vector[format!("{who}_ephemeral").as_str()];
        let pair = (array(&ephemeral["secret"]), array(&ephemeral["representative"]));
        NoiseSide::new(initiator, &key, pair)
    };
    let (key, ciphertext) = kem.unwrap_or_default();
    let flags = [number(&vector["flags"]) as u8];
    let choices = [number(&vector["cipher"]) as u8, number(&vector["hybrid"]) as u8];
    let dialers = octets(&vector["dialer_parameters"]);
    let first = [&octets(&vector["dialer_id"])[..], &flags].concat();
    let second =
        [&octets(&vector["responder_id"])[..], &choices, &octets(&vector["responder_parameters"])]
            .concat();
    // The KEM's part follows the second payload where that is parsed.
    let with_ciphertext = [&second[..], &ciphertext].concat();
    assert_eq!(
        payloads_again([&first, &with_ciphertext, &dialers]),
        Some([first.clone(), second, dialers.clone()])
    );
    let payloads = [[&first[..], &key].concat(), with_ciphertext, dialers];
    let mut sides = [side(true, "dialer"), side(false, "responder")];
    for (n, payload) in payloads.iter().enumerate() {
        let written = sides[n % 2].write(payload).unwrap();
        assert_eq!(written, octets(&vector[format!("noise_message_{}", n + 1).as_str()]));
        assert_eq!(sides[1 - n % 2].read(&written).as_ref(), Some(payload));
    }
    let [dialer, responder] = sides.map(|side| side.finish().unwrap());
    assert_eq!(dialer, responder);
    [dialer.transcript, dialer.split[0], dialer.split[1]]
}

fn cipher(vector: &Value) -> Cipher {
    match number(&vector["cipher"]) {
        1 => Cipher::Aes256Gcm,
        2 => Cipher::ChaCha20Poly1305,
        3 => Cipher::XChaCha20Poly1305,
        other => panic!("{other}"),
    }
}

#[test]
fn handshakes_and_their_results_have_these_bytes() {
    for vector in list(&vectors(), "handshakes") {
        let hybrid = number(&vector["hybrid"]) == 1;
        let mut kem = None;
        let mut shared = None;
        if hybrid {
            let ciphertext = octets(&vector["kem_ciphertext"]);
            shared = Some(array(&vector["kem_shared"]));
            // None where this processor has no code for the KEM: the key is then taken from message 1.
            let opened = kem_open(&array(&vector["kem_seed"]), ciphertext[..].try_into().unwrap());
            let message_1 = octets(&vector["noise_message_1"]);
            let (key, secret) =
                opened.unwrap_or_else(|| (message_1[41..].to_vec(), shared.unwrap()));
            assert_eq!(Some(secret), shared);
            kem = Some((key, ciphertext));
        }
        let [hash, k1, k2] = runs_noise(vector, kem);
        assert_eq!([hash, k1, k2], ["hash", "k1", "k2"].map(|name| array(&vector[name])));
        datagrams_carry_the_noise_messages(vector, hybrid);
        for (initiator, k, name) in [(true, k1, "initiator"), (false, k2, "responder")] {
            let mut both = direction(initiator, &k, shared.as_ref(), &hash, cipher(vector));
            follows(list(vector, name), cipher(vector), &mut both);
        }
    }
}

/// Follows one direction: the receiver opens every datagram of it, one epoch after the other, and the sender makes the
/// first ones.
fn follows(
    epochs: &[Value],
    cipher: Cipher,
    both: &mut (xylem_link_internals::internals::Sealer, Opener),
) {
    for (n, epoch) in epochs.iter().enumerate() {
        if epoch.get("dh").is_some() {
            let [a, b] = ["offer_secret", "answer_secret"].map(|name| array(&epoch[name]));
            assert_eq!(x25519_public_key(&a), array(&epoch["offer"]));
            assert_eq!(x25519_public_key(&b), array(&epoch["answer"]));
            let dh = x25519(&a, &array(&epoch["answer"])).unwrap();
            assert_eq!(dh, x25519(&b, &array(&epoch["offer"])).unwrap());
            assert_eq!(*dh, array(&epoch["dh"]));
            take_round(both, &dh, number(&epoch["round"]) as u32);
        }
        let (sealer, opener) = both;
        for (i, vector) in list(epoch, "datagrams").iter().enumerate() {
            let (frames, datagram) = (octets(&vector["frames"]), octets(&vector["datagram"]));
            let mut opened = datagram.clone();
            let found = opener.open(Duration::ZERO, &mut opened).unwrap();
            assert_eq!(found.number, number(&vector["number"]));
            assert_eq!((found.advanced, found.ratcheted), (n > 0 && i == 0, n == 2 && i == 0));
            assert_eq!(opened[HEADER_LEN..opened.len() - TAG_LEN], frames);
            if sealer.next_number() == found.number {
                let mut sealed = [&[0; HEADER_LEN][..], &frames, &[0; TAG_LEN]].concat();
                sealer.seal(&mut sealed);
                assert_eq!(sealed, datagram);
            }
            by_its_keys(epoch, cipher, found.number, &frames, &datagram);
        }
        assert_eq!(opener.epoch(), number(&epoch["number"]));
        assert_eq!(opener.connection_id().0, array(&epoch["id"]));
        assert_eq!(opener.commitment(), array(&epoch["commitment"]));
    }
    assert_eq!(epochs.len(), 4);
}

/// Makes a datagram from the keys in the vector.
fn by_its_keys(epoch: &Value, cipher: Cipher, number: u64, frames: &[u8], datagram: &[u8]) {
    let mut nonce = octets(&epoch["iv"]);
    let end = nonce.len() - 8;
    nonce[end..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, of)| *byte ^= of);
    let low = &number.to_be_bytes()[4..];
    let associated = [&octets(&epoch["id"])[..], low].concat();
    let sealed = aead_seal(cipher, &array(&epoch["key"]), &nonce, &associated, frames);
    assert_eq!(datagram[HEADER_LEN..], sealed);
    let key: [u8; 32] = array(&epoch["header_key"]);
    let hash = siphasher::sip::SipHasher13::new_with_key(key.first_chunk().unwrap());
    let mask = hash.hash(&sealed[..16]).to_le_bytes();
    let protected: Vec<u8> = low.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect();
    assert_eq!(datagram[8..HEADER_LEN], protected);
}

#[test]
fn frames_have_these_bytes_and_fields() {
    let vectors = vectors();
    let vectors = list(&vectors, "frames");
    assert_eq!(vectors.len(), 25, "every type");
    for vector in vectors {
        let bytes = octets(&vector["octets"]);
        let frames: Vec<Frame<'_>> = Frames::new(&bytes).map(Result::unwrap).collect();
        if vector["frame"] == "Padding" {
            assert!(frames.is_empty());
            continue;
        }
        let [frame] = frames[..] else { panic!("{vector}") };
        let mut written = Vec::new();
        frame.write(&mut written);
        assert_eq!(written, bytes);
        assert_eq!(fields(&frame), vector["fields"], "{vector}");
    }
}

/// A frame's fields under the names of the vectors.
fn fields(frame: &Frame<'_>) -> Value {
    use serde_json::json;
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let token = |token: u64| json!({ "token": hex(&token.to_be_bytes()) });
    match *frame {
        Frame::Ping(t) | Frame::Pong(t) | Frame::PathChallenge(t) | Frame::PathResponse(t) => {
            token(t)
        }
        Frame::Packet(packet) => json!({ "packet": hex(packet) }),
        Frame::Fragment(f) => json!({
            "message": f.message, "offset": f.offset, "total": f.total, "piece": hex(f.piece),
        }),
        Frame::Close(code) => json!({ "code": code }),
        Frame::Probe(size) | Frame::ProbeAck(size) => json!({ "size": size }),
        Frame::Epoch { number, commitment } => {
            json!({ "number": number, "commitment": hex(&commitment) })
        }
        Frame::EpochAck(number) => json!({ "number": number }),
        Frame::Ack(ack) => {
            // In the order of this implementation: from the highest down, first and last of each.
            let mut above = ack.largest + 1;
            let ranges: Vec<[u64; 2]> = ack
                .ranges()
                .map(|range| {
                    let pair = [above - 1 - range.end(), range.end() - range.start() + 1];
                    above = *range.start();
                    pair
                })
                .collect();
            json!({
                "largest": ack.largest, "delay_us": ack.delay, "marked": ack.marked, "ranges": ranges,
            })
        }
        Frame::StreamOpen { stream, purpose } => json!({ "stream": stream, "purpose": purpose }),
        Frame::StreamData { stream, offset, piece } => {
            json!({ "stream": stream, "offset": offset, "data": hex(piece) })
        }
        Frame::StreamClose { stream, size } => json!({ "stream": stream, "size": size }),
        Frame::StreamReset { stream, code, size } => {
            json!({ "stream": stream, "code": code, "size": size })
        }
        Frame::StreamStop { stream, code } => json!({ "stream": stream, "code": code }),
        Frame::WindowUpdate { stream, limit } => json!({ "stream": stream, "limit": limit }),
        Frame::GoAway(last) => json!({ "last": last }),
        Frame::Rekey { round, answer, key } => {
            json!({ "round": round, "stage": u8::from(answer), "key": hex(key) })
        }
        Frame::ResetToken { epoch, token } => json!({ "epoch": epoch, "token": hex(&token) }),
        Frame::Observed(address) => json!({ "address": hex(address) }),
        Frame::Candidates(of) => {
            let octets = |at: SocketAddr| match at.ip() {
                IpAddr::V4(ip) => (ip.to_ipv6_mapped().octets(), at.port()),
                IpAddr::V6(ip) => (ip.octets(), at.port()),
            };
            let addresses = of
                .addresses()
                .map(octets)
                .map(|(ip, port)| hex(&[&ip[..], &port.to_be_bytes()].concat()));
            let addresses: Vec<String> = addresses.collect();
            json!({ "number": of.number, "flags": of.flags, "addresses": addresses })
        }
        Frame::CandidatesAck(number) => json!({ "number": number }),
    }
}

#[test]
fn invalid_frames_are_refused() {
    for vector in list(&vectors(), "refused_frames") {
        let bytes = octets(vector);
        assert!(Frames::new(&bytes).any(|frame| frame.is_err()), "{vector}");
    }
}

#[test]
fn reset_tokens_have_these_bytes() {
    for vector in list(&vectors(), "reset_tokens") {
        let key = StaticKey::from_bytes(array(&vector["static"]));
        let from = vector["address"].as_str().unwrap().parse().unwrap();
        assert_eq!(reset_token(&key, array(&vector["id"]), from), array::<16>(&vector["token"]));
    }
}
