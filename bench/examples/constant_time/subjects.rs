//! The functions under test.

use std::hint::black_box;

use constant_time_eq::constant_time_eq_n;
use xylem_hash::{Hash, Hasher, keyed_hash};
use xylem_link::StaticKey;
use xylem_link_internals::Cipher;
use xylem_link_internals::internals as link;
use xylem_mail_internals::internals::Ratchet;
use xylem_packet::SignatureInfo;
use xylem_sim::Rng;
use xylem_trust::Verifier;

/// A function, and two classes of inputs of one length.
pub(crate) struct Subject {
    pub name: &'static str,
    /// Whether it is a control: it leaks, which has to be detected.
    pub leaks: bool,
    /// Number of calls that are timed together, so that a measurement is well above the clock's resolution.
    pub calls: u32,
    pub classes: [Vec<Vec<u8>>; 2],
    pub run: fn(&[u8]),
}

/// Number of random inputs in a class.
const DRAWN: usize = 4;
const KEY: [u8; 32] = [0x42; 32];
const TABLE: [u8; 4_096] = [7; 4_096];

fn array<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    bytes.first_chunk().expect("long enough")
}

/// Inputs with `right` changed in the first byte of `at` (one class) or the last (the other), and in both classes all
/// over it.
fn forged(right: &[u8], at: std::ops::Range<usize>, rng: &mut Rng) -> [Vec<Vec<u8>>; 2] {
    [at.start, at.end - 1].map(|place| {
        let mut one = right.to_vec();
        one[place] ^= 0x81;
        let mut all = right.to_vec();
        all[at.clone()].copy_from_slice(&rng.bytes(at.len()));
        vec![one, all]
    })
}

/// Two classes: one fixed input, and random ones.
fn fixed_and_drawn(fixed: Vec<u8>, rng: &mut Rng) -> [Vec<Vec<u8>>; 2] {
    let drawn = (0..DRAWN).map(|_| rng.bytes(fixed.len())).collect();
    [vec![fixed], drawn]
}

/// All subjects; the same in each call.
pub(crate) fn all() -> Vec<Subject> {
    let mut rng = Rng::new(1);
    let mut out = controls(&mut rng);
    out.extend(comparisons(&mut rng));
    out.extend(hashes(&mut rng));
    out.extend(curve(&mut rng));
    out
}

fn controls(rng: &mut Rng) -> Vec<Subject> {
    let one = rng.bytes(32);
    vec![
        Subject {
            name: "control: a comparison that ends early, first | last byte differs",
            leaks: true,
            calls: 64,
            classes: forged(&[&one[..], &one].concat(), 32..64, rng),
            run: |bytes| {
                let (left, right) = bytes.split_at(32);
                black_box(left.iter().zip(right).all(|(l, r)| black_box(*l) == *r));
            },
        },
        Subject {
            name: "control: a table, in a secret place",
            leaks: true,
            calls: 64,
            classes: fixed_and_drawn(vec![0; 2], rng),
            run: |place| {
                let place = usize::from(u16::from_le_bytes(*array(place)) % 4_096);
                black_box(black_box(&TABLE)[place]);
            },
        },
    ]
}

/// A wrong value is refused in the same way wherever it is wrong.
fn comparisons(rng: &mut Rng) -> Vec<Subject> {
    let one = rng.bytes(32);
    let twice = [&one[..], &one].concat();
    let mut equal_or_not = forged(&twice, 32..64, rng);
    equal_or_not[0].push(twice.clone());
    let envelope = link::handshake_envelope(Some(KEY), [1; 8], b"body");
    let cookie = link::cookie();
    let mut reset = rng.bytes(64);
    reset[48..].copy_from_slice(&KEY[..16]);
    let sealed = |cipher| link::aead_seal(cipher, &KEY, &[9; 12], b"header", &[7; 256]);
    const LONG: usize = 20_000;
    let long = link::aead_seal(Cipher::Aes256Gcm, &KEY, &[9; 12], b"header", &[7; LONG]);
    let tag = *keyed_hash(&KEY, b"portion").as_bytes();
    let hmac = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &KEY), b"portion");
    vec![
        Subject {
            name: "compare 32 bytes, equal or first | last byte differs",
            leaks: false,
            calls: 64,
            classes: equal_or_not.clone(),
            run: |bytes| {
                black_box(constant_time_eq_n::<32>(array(bytes), array(&bytes[32..])));
            },
        },
        Subject {
            name: "Hash ==, equal or first | last byte differs",
            leaks: false,
            calls: 64,
            classes: equal_or_not,
            run: |bytes| {
                let (left, right) = bytes.split_at(32);
                let [left, right] = [left, right].map(|b| Hash::from_bytes(*array(b)));
                black_box(left == right);
            },
        },
        Subject {
            name: "an envelope, first | last byte of its tag forged",
            leaks: false,
            calls: 1,
            // The stream depends on the tag, so the body's bytes differ too.
            classes: forged(&envelope, 8..24, rng),
            run: |datagram| {
                assert!(!link::envelope_opens(Some(KEY), black_box(datagram)));
            },
        },
        Subject {
            name: "an envelope, first | last byte of its body forged",
            leaks: false,
            calls: 1,
            classes: forged(&envelope, 24..envelope.len(), rng),
            run: |datagram| {
                assert!(!link::envelope_opens(Some(KEY), black_box(datagram)));
            },
        },
        Subject {
            name: "a cookie, first | last byte of its MAC forged",
            leaks: false,
            calls: 16,
            classes: forged(&cookie, 8..cookie.len(), rng),
            run: |cookie| {
                assert!(!link::cookie_is_good(array(black_box(cookie))));
            },
        },
        Subject {
            name: "a stateless reset, first | last byte of its token forged",
            leaks: false,
            calls: 64,
            classes: forged(&reset, 48..64, rng),
            run: |datagram| {
                assert!(!link::is_reset(black_box(datagram), array(&KEY)));
            },
        },
        Subject {
            name: "AES-256-GCM, first | last byte of the tag forged",
            leaks: false,
            calls: 4,
            classes: forged(&sealed(Cipher::Aes256Gcm), 256..272, rng),
            run: |sealed| {
                assert!(
                    link::aead_open(Cipher::Aes256Gcm, &KEY, &[9; 12], b"header", sealed).is_none()
                );
            },
        },
        Subject {
            // Another library opens it, where the processor has the instructions for that.
            name: "AES-256-GCM of 20 KB, first | last byte of the tag forged",
            leaks: false,
            calls: 1,
            classes: forged(&long, LONG..LONG + 16, rng),
            run: |sealed| {
                assert!(
                    link::aead_open(Cipher::Aes256Gcm, &KEY, &[9; 12], b"header", sealed).is_none()
                );
            },
        },
        Subject {
            name: "ChaCha20-Poly1305, first | last byte of the tag forged",
            leaks: false,
            calls: 4,
            classes: forged(&sealed(Cipher::ChaCha20Poly1305), 256..272, rng),
            run: |sealed| {
                assert!(
                    link::aead_open(Cipher::ChaCha20Poly1305, &KEY, &[9; 12], b"header", sealed)
                        .is_none()
                );
            },
        },
        Subject {
            name: "mail, first | last byte of the commitment forged",
            leaks: false,
            calls: 1,
            classes: forged(&mail(), 56..88, rng),
            run: |message| {
                let mut out = Vec::new();
                assert!(receiver().decrypt(black_box(message), b"", &mut out).is_err());
            },
        },
        Subject {
            name: "a packet's keyed BLAKE3, first | last byte forged",
            leaks: false,
            calls: 16,
            classes: forged(&tag, 0..32, rng),
            run: |value| refuses(&Verifier::blake3_keyed(KEY), value),
        },
        Subject {
            name: "a packet's HMAC, first | last byte forged",
            leaks: false,
            calls: 4,
            classes: forged(hmac.as_ref(), 0..32, rng),
            run: |value| refuses(&Verifier::hmac(&KEY), value),
        },
    ]
}

fn refuses(verifier: &Verifier, value: &[u8]) {
    let name = xylem_packet::Name::from_uri("/key").expect("a name");
    let info = SignatureInfo {
        typ: verifier.typ(),
        key_locator: Some(xylem_packet::KeyLocator::Name(name.as_ref())),
        nonce: None,
        time_ms: None,
        sequence: None,
        validity_period: None,
    };
    assert!(verifier.parts(&info, &[b"portion"], black_box(value)).is_err());
}

fn receiver() -> Ratchet {
    Ratchet::responder([1; 32], StaticKey::generate([2; 32]), [4; 32])
}

fn mail() -> Vec<u8> {
    let mut out = Vec::new();
    let mut sender = Ratchet::initiator([1; 32], StaticKey::generate([2; 32]).public(), [3; 32]);
    sender.encrypt(b"message", b"", &mut out).expect("the first");
    out
}

/// Keys, and data hashed under them.
fn hashes(rng: &mut Rng) -> Vec<Subject> {
    let hex = |digits: &[u8]| -> Vec<u8> { digits.iter().copied().cycle().take(64).collect() };
    let keyed: fn(&[u8]) = |message| {
        black_box(keyed_hash(&KEY, message));
    };
    vec![
        Subject {
            name: "Hash::to_hex, zeros | random",
            leaks: false,
            calls: 32,
            classes: fixed_and_drawn(vec![0; 32], rng),
            run: |bytes| {
                black_box(Hash::from_bytes(*array(bytes)).to_hex());
            },
        },
        Subject {
            name: "Hash::from_hex, digits | letters of both cases",
            leaks: false,
            calls: 32,
            classes: [vec![hex(b"0123456789")], vec![hex(b"abcdefABCDEF")]],
            run: |text| {
                black_box(Hash::from_hex(text).is_ok());
            },
        },
        Subject {
            name: "keyed_hash of 64 bytes, zeros | random",
            leaks: false,
            calls: 16,
            classes: fixed_and_drawn(vec![0; 64], rng),
            run: keyed,
        },
        Subject {
            name: "keyed_hash of 4 KiB, zeros | random",
            leaks: false,
            calls: 1,
            classes: fixed_and_drawn(vec![0; 4_096], rng),
            run: keyed,
        },
        Subject {
            name: "keyed Hasher, key of zeros | random",
            leaks: false,
            calls: 4,
            classes: fixed_and_drawn(vec![0; 32], rng),
            run: |key| {
                black_box(Hasher::new_keyed(array(key)).update(&[7; 300]).finalize());
            },
        },
        Subject {
            name: "an epoch's derivation, secret of zeros | random",
            leaks: false,
            calls: 16,
            classes: fixed_and_drawn(vec![0; 32], rng),
            run: |secret| {
                black_box(link::derive(array(secret)));
            },
        },
        Subject {
            name: "header protection, key and sample of zeros | random",
            leaks: false,
            calls: 64,
            classes: fixed_and_drawn(vec![0; 48], rng),
            run: |bytes| {
                black_box(link::header_mask(array(bytes), array(&bytes[32..])));
            },
        },
        Subject {
            name: "XChaCha20-Poly1305 seals, key of zeros | random",
            leaks: false,
            calls: 4,
            classes: fixed_and_drawn(vec![0; 32], rng),
            run: |key| {
                black_box(link::aead_seal(
                    Cipher::XChaCha20Poly1305,
                    array(key),
                    &[9; 24],
                    b"",
                    &[7; 64],
                ));
            },
        },
    ]
}

/// Key agreement of handshakes.
fn curve(rng: &mut Rng) -> Vec<Subject> {
    // A key pair is drawn until its key has a representative. The number of tries reveals nothing about the pair that
    // is kept, so only pairs with a representative are compared. The added point of small order can be computed from
    // the key that is sent. It is the same here, since it is looked up in a table.
    let mut elligator = fixed_and_drawn(vec![0; 33], rng);
    for input in elligator.iter_mut().flatten() {
        while link::elligator_representative(array(input), TORSION, true).is_none() {
            input[1] = input[1].wrapping_add(1);
        }
    }
    vec![
        Subject {
            name: "X25519 public key, secret of zeros | random",
            leaks: false,
            calls: 1,
            classes: fixed_and_drawn(vec![0; 32], rng),
            run: |secret| {
                black_box(link::x25519_public_key(array(secret)));
            },
        },
        Subject {
            name: "X25519 shared secret, secret of zeros | random",
            leaks: false,
            calls: 1,
            classes: fixed_and_drawn(vec![0; 32], rng),
            run: |secret| {
                let mut public = [0; 32];
                public[0] = 9;
                black_box(link::x25519(array(secret), black_box(&public)).is_some());
            },
        },
        Subject {
            name: "Elligator2 representative, secret of zeros | random, and which of two",
            leaks: false,
            calls: 1,
            classes: elligator,
            run: |bytes| {
                let first = bytes[32] & 1 == 1;
                assert!(link::elligator_representative(array(bytes), TORSION, first).is_some());
            },
        },
        Subject {
            name: "a field element of two is selected, first | other",
            leaks: false,
            calls: 64,
            classes: [vec![vec![0]], vec![vec![1]]],
            run: |choice| {
                let two = link::Select::new(&[7; 32], &[8; 32]);
                black_box(two.select(black_box(choice[0] == 1)));
            },
        },
    ]
}

/// Subjects that graviola runs otherwise under valgrind's processor, which has no ADX: only timed.
pub(crate) fn timed_only() -> Vec<Subject> {
    let rng = &mut Rng::new(2);
    // Without code for this processor there is no KEM to test.
    let kem = link::kem_open(&SEED, &[0; 1_088]).and_then(|(key, _)| {
        let mut genuine = || link::kem_ciphertext(array(&key), array(&rng.bytes(32)));
        let genuine = [genuine()?.to_vec(), genuine()?.to_vec()];
        let mut damaged = genuine.clone();
        damaged[0][0] ^= 1;
        damaged[1][1_087] ^= 0x80;
        Some([genuine.to_vec(), damaged.to_vec()])
    });
    let subject = |classes| Subject {
        name: "ML-KEM-768 opens, genuine | damaged",
        leaks: false,
        calls: 1,
        classes,
        run: |ciphertext| {
            black_box(link::kem_open(&SEED, array(ciphertext)).is_some());
        },
    };
    kem.map(subject).into_iter().collect()
}

const TORSION: u8 = 3;
const SEED: [u8; 64] = [5; 64];
