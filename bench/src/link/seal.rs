//! `seal`: datagrams sealed and opened, against ring's AEAD on the same bytes.

use std::hint::black_box;
use std::time::Duration;

use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use xylem_link_internals::internals::{
    Frame, Frames, HEADER_LEN, OVERHEAD, Opener, Sealer, TAG_LEN, seal_pair,
};
use xylem_link_internals::{Cipher, RekeyLimits};

use super::rows::{OURS, PLAIN, compared, heading, quoted, ratio_name};
use crate::Error;
use crate::input;
use crate::race::Contender;
use crate::report::{Bound, Figure, Heading, Unit};
use crate::series::Series;

const NOW: Duration = Duration::ZERO;
const CIPHERS: [(Cipher, &str, &aead::Algorithm); 2] = [
    (Cipher::Aes256Gcm, "AES-256-GCM", &aead::AES_256_GCM),
    (Cipher::ChaCha20Poly1305, "ChaCha20-Poly1305", &aead::CHACHA20_POLY1305),
];

/// Plaintext bytes, and the document's times for encrypt and decrypt (XChaCha20-Poly1305).
const SIZES: [(usize, Option<(f64, f64)>); 8] = [
    (64, Some((1_181.0, 1_212.0))),
    (256, Some((1_252.0, 1_288.0))),
    (1_024, Some((1_776.0, 1_804.0))),
    (1_400, None),
    (4_096, Some((3_683.0, 3_725.0))),
    (8_192, None),
    (16_384, Some((11_580.0, 11_480.0))),
    (65_536, Some((43_050.0, 42_882.0))),
];
/// The document's times for seal and open together.
const ROUNDTRIPS: [(usize, f64); 3] = [(1_200, 4_086.0), (1_400, 4_264.0), (4_096, 7_423.0)];
/// Sizes with a target for the ratio to the plain library.
const JUDGED: [usize; 3] = [1_400, 8_192, 65_536];
const WITHIN: f64 = 1.05;
/// The document's goal for 64 KiB: 2.5 GiB/s.
const GOAL_64K: f64 = 65_536.0 / (2.5 * 1.073_741_824);

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    for (cipher, name, algorithm) in CIPHERS {
        series.heading(heading(
            "seal",
            name,
            "plaintext",
            &[
                "Ours seals a whole datagram: AEAD, packet number and its protection, connection id, \
                 replay window. The plain library is ring's AEAD alone, same algorithm.",
                "The document's cipher is XChaCha20-Poly1305.",
            ],
        ))?;
        let plain = || LessSafeKey::new(UnboundKey::new(algorithm, &[7; 32]).expect("32 bytes"));
        for (size, document) in SIZES {
            let wanted = JUDGED.contains(&size).then_some(WITHIN);
            let goal = (size == 65_536).then_some(GOAL_64K);
            let label = |what: &str| format!("{what} {}", input::size(size));
            let (mut sealer, _) = seal_pair(cipher, RekeyLimits::default());
            let (mut ours, mut theirs) = (vec![0; size + OVERHEAD], vec![0; size + TAG_LEN]);
            let (key, mut n) = (plain(), 0);
            let mut contenders = [
                Contender::new(OURS, "ours", || {
                    sealer.seal(black_box(&mut ours));
                    [1; 32]
                }),
                Contender::new(PLAIN, "plain", || {
                    n += 1;
                    seal_plain(&key, n, black_box(&mut theirs))
                }),
            ];
            let figures = quoted(document.map(|d| d.0), goal);
            series.row(label("seal"), size, &mut contenders, &compared(wanted), figures)?;
            opens(series, label("open"), cipher, algorithm, size, wanted, document.map(|d| d.1))?;
        }
        for (size, document) in ROUNDTRIPS {
            both(series, cipher, &plain(), size, document)?;
        }
    }
    pipeline(series)
}

fn nonce(n: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&n.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Seals with as much associated data as a datagram has.
fn seal_plain(key: &LessSafeKey, n: u64, datagram: &mut [u8]) -> [u8; 32] {
    let end = datagram.len() - TAG_LEN;
    let aad = Aad::from([0; HEADER_LEN]);
    let tag = key.seal_in_place_separate_tag(nonce(n), aad, &mut datagram[..end]);
    datagram[end..].copy_from_slice(tag.expect("not longer than the AEAD takes").as_ref());
    [1; 32]
}

fn open_plain(key: &LessSafeKey, n: u64, datagram: &mut [u8]) -> [u8; 32] {
    let opened = key.open_in_place(nonce(n), Aad::from([0; HEADER_LEN]), datagram);
    opened.expect("sealed with this key and number");
    [1; 32]
}

/// Number of datagrams that are sealed ahead: opening needs datagrams that were never seen before. When they are used
/// up, a new receiver begins with the first again. Both sides copy from the store first, so that the plaintext left by
/// opening does not have to be sealed again within the measured time.
const STORE: usize = 64;

fn opens<E>(
    series: &mut Series<'_, E>,
    label: String,
    cipher: Cipher,
    algorithm: &'static aead::Algorithm,
    size: usize,
    wanted: Option<f64>,
    document: Option<f64>,
) -> Result<(), Error<E>> {
    let limits = RekeyLimits::default();
    let (mut sealer, fresh) = seal_pair(cipher, limits);
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &[7; 32]).expect("32 bytes"));
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for n in 0..STORE {
        let mut datagram = vec![0; size + OVERHEAD];
        sealer.seal(&mut datagram);
        ours.push(datagram);
        let mut datagram = vec![0; size + TAG_LEN];
        seal_plain(&key, n as u64, &mut datagram);
        theirs.push(datagram);
    }
    let (mut opener, mut at, mut plain_at): (Opener, usize, usize) = (fresh, 0, 0);
    let (mut one, mut other) = (vec![0; size + OVERHEAD], vec![0; size + TAG_LEN]);
    let mut contenders = [
        Contender::new(OURS, "ours", || {
            if at == STORE {
                at = 0;
                opener.forget_seen();
            }
            one.copy_from_slice(&ours[at]);
            at += 1;
            opener.open(NOW, black_box(&mut one)).expect("sealed for it and not seen before");
            [1; 32]
        }),
        Contender::new(PLAIN, "plain", || {
            plain_at = (plain_at + 1) % STORE;
            other.copy_from_slice(&theirs[plain_at]);
            open_plain(&key, plain_at as u64, black_box(&mut other))
        }),
    ];
    series.row(label, size, &mut contenders, &compared(wanted), quoted(document, None))
}

fn both<E>(
    series: &mut Series<'_, E>,
    cipher: Cipher,
    key: &LessSafeKey,
    size: usize,
    document: f64,
) -> Result<(), Error<E>> {
    let (mut sealer, mut opener) = seal_pair(cipher, RekeyLimits::default());
    let (mut ours, mut theirs) = (vec![0; size + OVERHEAD], vec![0; size + TAG_LEN]);
    let mut n = 0;
    let mut contenders = [
        Contender::new(OURS, "ours", || {
            sealer.seal(&mut ours);
            opener.open(NOW, black_box(&mut ours)).expect("just sealed");
            [1; 32]
        }),
        Contender::new(PLAIN, "plain", || {
            n += 1;
            seal_plain(key, n, &mut theirs);
            open_plain(key, n, black_box(&mut theirs))
        }),
    ];
    let wanted = JUDGED.contains(&size).then_some(WITHIN);
    let label = format!("seal and open {}", input::size(size));
    series.row(label, size, &mut contenders, &compared(wanted), quoted(Some(document), None))
}

/// Build, seal, open, parse with a packet of 1,200 B: the throughput of one core.
fn pipeline<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    const PACKET: usize = 1_200;
    /// Gigabytes a second of the document's "full pipeline" (2.61 Gbit/s) and of its goal (5).
    const DOCUMENT: [f64; 2] = [2.61 / 8.0, 5.0 / 8.0];
    series.heading(Heading {
        table: "seal".into(),
        title: "build, seal, open and parse 1,200 B, one core".into(),
        unit: Unit::GigabytesPerSecond,
        label: "cipher".into(),
        figures: [OURS, super::rows::DOCUMENT, super::rows::TARGET].map(String::from).into(),
        ratios: vec![format!("{} x 8 = Gbit/s", OURS)],
        notes: vec!["Wanted: 10 Gbit/s with AES-256-GCM, 5 with ChaCha20-Poly1305.".into()],
    })?;
    let packet = input::bytes(PACKET);
    for ((cipher, name, _), wanted) in CIPHERS.into_iter().zip([10.0, 5.0]) {
        let (mut sealer, mut opener): (Sealer, Opener) = seal_pair(cipher, RekeyLimits::default());
        let mut datagram = vec![0; PACKET + 3 + OVERHEAD];
        let mut contenders = [Contender::new(OURS, "pipeline", || {
            let end = datagram.len() - TAG_LEN;
            let frame = Frame::Packet(black_box(&packet));
            frame.write_to(&mut datagram[HEADER_LEN..end]).expect("there is room for it");
            sealer.seal(&mut datagram);
            opener.open(NOW, black_box(&mut datagram)).expect("just sealed");
            let frames = Frames::new(&datagram[HEADER_LEN..end]);
            assert_eq!(frames.filter(Result::is_ok).count(), 1);
            [1; 32]
        })];
        let timings = series.race(name, &mut contenders)?;
        let mut figures = series.figures(&timings, PACKET);
        let gigabits = figures[0].value * 8.0;
        figures.push(Figure::quoted(super::rows::DOCUMENT, DOCUMENT[0]));
        figures.push(Figure::quoted(super::rows::TARGET, DOCUMENT[1]));
        let bound = Some(Bound::AtLeast(wanted));
        let name_of = format!("{} x 8 = Gbit/s", OURS);
        let ratio = crate::report::Ratio::new(name_of, gigabits, 1.0, bound);
        series.emit_row(name.to_owned(), PACKET, figures, vec![ratio])?;
    }
    debug_assert!(ratio_name().contains(OURS));
    Ok(())
}
