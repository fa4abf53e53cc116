//! `ratchet`: the double ratchet, against its AEAD alone and its indispensable multiplications.

use std::hint::black_box;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use xylem_link::StaticKey;
use xylem_link_internals::internals::x25519;
use xylem_mail_internals::internals::{HEADER_LEN, Ratchet, symmetric_step};

use super::rows::{OURS, PLAIN, compared, heading, quoted};
use crate::Error;
use crate::input;
use crate::race::Contender;
use crate::series::Series;

/// Plaintext bytes, and the document's times for encrypt and decrypt.
const SIZES: [(usize, f64, f64); 4] = [
    (64, 14_520.0, 83_650.0),
    (256, 14_551.0, 83_664.0),
    (1_024, 15_011.0, 84_293.0),
    (4_096, 17_218.0, 86_523.0),
];

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(heading(
        "ratchet",
        "messages of the double ratchet",
        "operation",
        &[
            "The plain library: of a step, one keyed BLAKE3 of a block; of messages, ring's \
             ChaCha20-Poly1305 under a fresh key; of a turn, that and two multiplications.",
            "The document's decrypt takes a Diffie-Hellman step each time; ours is shown with and without.",
        ],
    ))?;
    let chain = [7; 32];
    let mut contenders = [
        Contender::new(OURS, "step", || symmetric_step(black_box(&chain))),
        Contender::new(PLAIN, "compression", || {
            *xylem_hash::keyed_hash(black_box(&chain), black_box(&[1; 64])).as_bytes()
        }),
    ];
    let document = quoted(Some(158.85), None);
    series.row("symmetric step".into(), 32, &mut contenders, &compared(Some(2.2)), document)?;
    for (size, encrypt, decrypt) in SIZES {
        let bytes = input::bytes(size);
        let judged = size == 1_024;
        encrypts(series, &bytes, encrypt, judged.then_some(2.0))?;
        decrypts(series, &bytes, decrypt, judged)?;
    }
    first(series)
}

fn pair() -> (Ratchet, Ratchet) {
    let key = StaticKey::generate([2; 32]);
    let initiator = Ratchet::initiator([1; 32], key.public(), [3; 32]);
    (initiator, Ratchet::responder([1; 32], key, [4; 32]))
}

fn sent(from: &mut Ratchet, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    from.encrypt(text, b"", &mut out).expect("the peer's key is known");
    out
}

fn key() -> LessSafeKey {
    let key = black_box([7; 32]);
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).expect("32 bytes"))
}

fn seal(bytes: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(bytes);
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    let sealed = key().seal_in_place_append_tag(nonce, Aad::from([0; HEADER_LEN]), out);
    sealed.expect("not longer than the AEAD takes");
}

fn open(sealed: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(sealed);
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    key().open_in_place(nonce, Aad::from([0; HEADER_LEN]), out).expect("sealed above");
}

fn encrypts<E>(
    series: &mut Series<'_, E>,
    bytes: &[u8],
    document: f64,
    wanted: Option<f64>,
) -> Result<(), Error<E>> {
    let (mut a, _) = pair();
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    let mut contenders = [
        Contender::new(OURS, "encrypt", || {
            ours.clear();
            a.encrypt(black_box(bytes), b"", &mut ours).expect("the peer's key is known");
            [1; 32]
        }),
        Contender::new(PLAIN, "seal", || {
            seal(black_box(bytes), &mut plain);
            [1; 32]
        }),
    ];
    let label = format!("encrypt {} B in a chain", bytes.len());
    let document = quoted(Some(document), None);
    series.row(label, bytes.len(), &mut contenders, &compared(wanted), document)
}

fn decrypts<E>(
    series: &mut Series<'_, E>,
    bytes: &[u8],
    document: f64,
    judged: bool,
) -> Result<(), Error<E>> {
    let (mut a, mut b) = pair();
    let mut sealed = Vec::new();
    seal(bytes, &mut sealed);
    let turn = sent(&mut a, bytes);
    let before = b.copy();
    b.decrypt(&turn, b"", &mut Vec::new()).expect("sent to it");
    let next = sent(&mut a, bytes);
    let (secret, public) = ([7; 32], StaticKey::generate([9; 32]).public().0);
    // In a chain; with a turn, which may take 2.2 multiplications and the AEAD.
    let rows = [("in a chain", &b, &next, 0, 2.0), ("with a turn", &before, &turn, 2, 1.1)];
    for (what, ratchet, message, multiplications, wanted) in rows {
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        let mut contenders = [
            Contender::new(OURS, "decrypt", || {
                ours.clear();
                let mut copy = ratchet.copy();
                copy.decrypt(black_box(message), b"", &mut ours).expect("sent to it");
                [1; 32]
            }),
            Contender::new(PLAIN, "open", || {
                for _ in 0..multiplications {
                    black_box(x25519(black_box(&secret), black_box(&public)));
                }
                open(black_box(&sealed), &mut plain);
                [1; 32]
            }),
        ];
        let label = format!("decrypt {} B {what}", bytes.len());
        let document = quoted((multiplications > 0).then_some(document), None);
        let wanted = judged.then_some(wanted);
        series.row(label, bytes.len(), &mut contenders, &compared(wanted), document)?;
    }
    Ok(())
}

/// The document's init, and one message in each direction with a turn each.
fn first<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let key = StaticKey::generate([2; 32]);
    let public = key.public();
    let mut message = Vec::new();
    let initiator = Contender::new(OURS, "initiator", || {
        let mut ratchet = Ratchet::initiator([1; 32], black_box(public), [3; 32]);
        message.clear();
        ratchet.encrypt(&[], b"", &mut message).expect("the peer's key is known");
        [1; 32]
    });
    let document = quoted(Some(41_380.0), None);
    series.row("initiator, empty message".into(), 0, &mut [initiator], &[], document)?;
    let responder = Contender::new(OURS, "responder", || {
        black_box(Ratchet::responder([1; 32], black_box(&key).clone(), [4; 32]));
        [1; 32]
    });
    let document = quoted(Some(271.17), None);
    series.row("responder".into(), 0, &mut [responder], &[], document)?;
    let (mut a, mut b) = pair();
    let bytes = input::bytes(1_024);
    let there = sent(&mut a, &bytes);
    b.decrypt(&there, b"", &mut Vec::new()).expect("sent to it");
    let mut out = Vec::new();
    let there_and_back = Contender::new(OURS, "turns", || {
        let there = sent(&mut b, &bytes);
        out.clear();
        a.decrypt(&there, b"", &mut out).expect("sent to it");
        let back = sent(&mut a, &bytes);
        b.decrypt(&back, b"", &mut out).expect("sent to it");
        [1; 32]
    });
    let document = quoted(Some(2.0 * 99_425.0), None);
    let label = "1 KiB there and back, a turn each".into();
    series.row(label, 2_048, &mut [there_and_back], &[], document)
}
