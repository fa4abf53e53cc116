//! `signatures`: one packet by itself, under each signature type without a tree.

use xylem_hash::{Hash, hash_many};
use xylem_packet::{Data, DataBuilder, Name, SignatureType};
use xylem_trust::{Signer, Verifier};

use super::objects::Publisher;
use crate::race::{Answer, Contender};
use crate::report::{Figure, Heading, Unit};
use crate::series::{Compare, Series};
use crate::{Error, input};

const TYPES: [&str; 5] = ["0 SHA-256", "4 HMAC-SHA-256", "5 Ed25519", "6 BLAKE3", "7 BLAKE3 keyed"];
/// The row with the digests of a burst, in parallel lanes where the hash supports that.
const BURST: &str = "6, 64 together";
const BURST_SHA256: &str = "0, 64 together";
const DOCUMENT: [&str; 2] = ["doc: SHA-256", "doc: BLAKE3"];
const TOGETHER: usize = 64;

/// Bytes of content, and the document's nanoseconds for a hash of as many.
const SIZES: [(usize, [f64; 2]); 4] =
    [(100, [0.096, 0.188]), (1_024, [0.657, 1.2]), (4_096, [2.55, 3.52]), (8_192, [5.07, 4.79])];

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let compare = [
        Compare::speed(TYPES[3], TYPES[0], None),
        Compare::speed(TYPES[4], TYPES[1], None),
        Compare::speed(BURST, BURST_SHA256, None),
    ];
    series.heading(Heading {
        table: "signatures".into(),
        title: "one packet: made and signed, or decoded and verified".into(),
        unit: Unit::Microseconds,
        label: "content".into(),
        figures: TYPES
            .into_iter()
            .chain([BURST_SHA256, BURST])
            .chain(DOCUMENT)
            .map(str::to_owned)
            .collect(),
        ratios: compare.iter().map(|compare| compare.name.clone()).collect(),
        notes: vec![
            "the document's figures are of the hash alone; the last two columns of ours verify 64 \
             packets that arrived together, and are for one of them"
                .into(),
        ],
    })?;
    let publisher = Publisher::new();
    let name = publisher.segment_name(7);
    let signers = signers(&name);
    let bytes = input::bytes(8_192);
    for (size, document) in SIZES {
        let content = &bytes[..size];
        let document = || DOCUMENT.iter().zip(document).map(|(n, v)| Figure::quoted(*n, v));
        let mut makers: Vec<Contender<'_>> = signers
            .iter()
            .zip(TYPES)
            .map(|((signer, _), column)| {
                let (name, mut wire) = (&name, Vec::new());
                Contender::new(column, column, move || {
                    wire.clear();
                    signer
                        .data(DataBuilder::new(name.as_ref()), content, &mut wire)
                        .expect("within the limit");
                    wire.last_chunk().copied().unwrap_or_default()
                })
            })
            .collect();
        let label = format!("{}, signed", input::size(size));
        series.row(label, size, &mut makers, &compare[..2], document().collect())?;
        verify_row(series, size, content, &name, &signers, &compare, document().collect())?;
    }
    Ok(())
}

fn verify_row<E>(
    series: &mut Series<'_, E>,
    size: usize,
    content: &[u8],
    name: &Name,
    signers: &[(Signer, Verifier)],
    compare: &[Compare],
    document: Vec<Figure>,
) -> Result<(), Error<E>> {
    let packet = |signer: &Signer| {
        let mut wire = Vec::new();
        signer.data(DataBuilder::new(name.as_ref()), content, &mut wire).expect("within the limit");
        wire
    };
    let mut checkers: Vec<Contender<'_>> = Vec::new();
    for ((signer, verifier), column) in signers.iter().zip(TYPES) {
        let wire = packet(signer);
        checkers.push(Contender::new(column, "one", move || {
            let data = Data::decode(&wire).expect("a Data packet");
            verifier.data(&data).expect("just signed");
            count(1)
        }));
    }
    let label = format!("{}, verified", input::size(size));
    let mut timings = series.race(&label, &mut checkers)?;

    // Different packets, as in a burst.
    let wires = |signer: &Signer| -> Vec<Vec<u8>> {
        let one = |n: usize| {
            let mut other = content.to_vec();
            other[0] ^= n as u8;
            let mut wire = Vec::new();
            signer
                .data(DataBuilder::new(name.as_ref()), &other, &mut wire)
                .expect("within the limit");
            wire
        };
        (0..TOGETHER).map(one).collect()
    };
    let (sha256, blake3) = (wires(&signers[0].0), wires(&signers[3].0));
    let mut bursts = [
        Contender::new(BURST_SHA256, "burst", || {
            let verifier = &signers[0].1;
            let check = |wire: &Vec<u8>| {
                verifier.data(&Data::decode(wire).expect("a Data packet")).expect("just signed");
            };
            sha256.iter().for_each(check);
            count(sha256.len())
        }),
        Contender::new(BURST, "burst", || {
            let decode = |wire| Data::decode(wire).expect("a Data packet");
            let all: Vec<Data<'_>> = blake3.iter().map(|wire| decode(wire)).collect();
            let portions: Vec<&[u8]> = all.iter().map(Data::signed_portion).collect();
            let mut hashes = [Hash::from_bytes([0; 32]); TOGETHER];
            hash_many(&portions, &mut hashes[..portions.len()]);
            let right = all.iter().zip(&hashes).filter(|(data, hash)| {
                let typ = data.signature_info().typ;
                typ == SignatureType::DIGEST_BLAKE3 && **hash == *data.signature_value()
            });
            count(right.count())
        }),
    ];
    for timing in series.race(&label, &mut bursts)? {
        let median = timing.median / TOGETHER as f64;
        timings.push(crate::race::Timing { median, ..timing });
    }
    let mut figures = series.figures(&timings, size);
    figures.extend(document);
    let ratios = compare.iter().filter_map(|compare| compare.of(&timings)).collect();
    series.emit_row(label, size, figures, ratios)
}

fn count(accepted: usize) -> Answer {
    let mut answer = [0; 32];
    answer[..8].copy_from_slice(&(accepted as u64).to_be_bytes());
    answer
}

/// Signers and verifiers in the order of [`TYPES`].
fn signers(key_name: &Name) -> [(Signer, Verifier); 5] {
    let locator = || key_name.clone();
    let key = [9; 32];
    let ed25519 = Signer::ed25519(&[7; 32], locator());
    let public = ed25519.public().map(|key| Verifier::of(&key));
    let Some(Ok(public)) = public else { unreachable!("an Ed25519 key has a public half") };
    [
        (Signer::digest_sha256(), Verifier::digest_sha256()),
        (Signer::hmac(&key, locator()), Verifier::hmac(&key)),
        (ed25519, public),
        (Signer::digest_blake3(), Verifier::digest_blake3()),
        (Signer::blake3_keyed(key, locator()), Verifier::blake3_keyed(key)),
    ]
}
