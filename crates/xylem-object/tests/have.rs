//! Availability (`Have`): one encoding, within a packet, the largest runs first.
#![allow(clippy::single_range_in_vec_init)] // lists of runs, some of one run

use core::ops::Range;

use proptest::prelude::*;
use xylem_object::have::{Have, HaveError, MAX_HAVE};
use xylem_object::naming::{self, PublicationRequest};
use xylem_object::{Manifest, ObjectId, Publication, PublisherKey, sign_manifest};
use xylem_packet::{Data, InterestBuilder, Packet};

fn encoded(have: &Have) -> Vec<u8> {
    let mut out = Vec::new();
    have.encode(&mut out);
    out
}

#[test]
fn the_vectors_of_the_specification() {
    let part = Have {
        everything: false,
        whole_files: vec![0..3, 10..1_000],
        partial: vec![(ObjectId::Root, vec![0..4]), (ObjectId::File(5), vec![64..128, 300..301])],
    };
    let wire: &[u8] = &[
        1, 0, // version, flags
        2, 0, 3, 7, 253, 3, 222, // whole files
        2,   // objects
        0, 1, 0, 4, // the object itself
        5, 2, 64, 64, 172, 1, // file 5
    ];
    assert_eq!((encoded(&part), Have::decode(wire)), (wire.to_vec(), Ok(part)));
    assert_eq!(encoded(&Have::everything()), [1, 1]);
    assert_eq!(encoded(&Have::default()), [1, 0, 0, 0]);
}

#[test]
fn bad_input() {
    use HaveError::{Disorder, Malformed, Version};
    let cases: &[(&[u8], HaveError)] = &[
        (&[], Malformed),
        (&[1], Malformed),
        (&[2, 0, 0, 0], Version(2)),
        (&[1, 1, 0], Malformed),
        (&[1, 2, 0, 0], Malformed),
        (&[1, 0, 0], Malformed),
        (&[1, 0, 0, 0, 0], Malformed),
        (&[1, 0, 1, 0, 0, 0], Disorder),       // an empty run
        (&[1, 0, 2, 0, 1, 0, 1, 0], Disorder), // runs that touch
        (&[1, 0, 0, 1, 0, 0], Disorder),       // an object without runs
        (&[1, 0, 253, 0, 0, 0], Malformed),    // not the shortest form
        (&[1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255], Malformed), // a count without runs
        (&[1, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0], Disorder), // past the end
    ];
    for (wire, error) in cases {
        assert_eq!(Have::decode(wire), Err(*error), "{wire:?}");
    }
    assert_eq!(Have::decode(&[1; MAX_HAVE + 1]), Err(HaveError::TooLong(MAX_HAVE + 1)));
}

/// A million runs: the encoding stays within the limit, and no run left out is larger than one that is included.
#[test]
fn the_smallest_runs_are_left_out_first() {
    let run = |i: u64| i * 1_000..i * 1_000 + 1 + (i * 7_919) % 997;
    let have = Have {
        partial: vec![(ObjectId::Root, (0..1_000_000).map(run).collect())],
        ..Have::default()
    };
    let wire = encoded(&have);
    assert!((MAX_HAVE - 20..=MAX_HAVE).contains(&wire.len()), "{}", wire.len());
    let told = &Have::decode(&wire).unwrap().partial[0].1;
    let len = |run: &Range<u64>| run.end - run.start;
    let least = told.iter().map(len).min().unwrap();
    let kept: std::collections::BTreeSet<u64> = told.iter().map(|run| run.start).collect();
    let left_out = have.partial[0].1.iter().filter(|run| !kept.contains(&run.start));
    assert!(left_out.map(len).max().unwrap() <= least);
}

fn runs() -> impl Strategy<Value = Vec<Range<u64>>> {
    prop::collection::vec((0..5_000_u64, 0..60_u64), 0..40)
        .prop_map(|runs| runs.into_iter().map(|(start, len)| start..start + len).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn decoded_runs_equal_the_encoded(whole in runs(), root in runs(), files in prop::collection::vec((0..9_u64, runs()), 0..6)) {
        let mut partial = vec![(ObjectId::Root, root)];
        partial.extend(files.into_iter().map(|(file, runs)| (ObjectId::File(file), runs)));
        let have = Have { everything: false, whole_files: whole, partial };
        let wire = encoded(&have);
        let read = Have::decode(&wire).unwrap();
        let members = |have: &Have| {
            let mut all: Vec<_> = have.whole_files.iter().cloned().flatten().map(|i| (None, i)).collect();
            all.extend(have.partial.iter().flat_map(|(object, runs)| {
                runs.iter().cloned().flatten().map(|i| (Some(*object), i))
            }));
            all.sort_unstable();
            all.dedup();
            all
        };
        prop_assert_eq!(members(&read), members(&have));
        prop_assert_eq!(encoded(&read), wire);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let bytes = [&[1, 0][..], &bytes].concat();
        if let Ok(have) = Have::decode(&bytes) {
            prop_assert_eq!(encoded(&have), bytes);
        }
    }
}

/// A publication that is served whole answers "everything" to each question under its own name.
#[test]
fn a_publication_answers() {
    let key = PublisherKey::from_bytes(&[7; 32]);
    let object = naming::default_name(&key.public(), b"f");
    let prefix = naming::versioned(object.as_ref(), 1).unwrap();
    let manifest = Manifest::file(xylem_hash::hash(b"hello"), 5, b"f");
    let packet = sign_manifest(&manifest, prefix.as_ref(), &key).unwrap();
    let mut publication = Publication::new(prefix.clone(), packet, &key.public()).unwrap();
    let name = naming::encode(prefix.as_ref(), &PublicationRequest::Have { nonce: *b"8 octets" });
    assert!(name.to_string().ends_with("/v=1/32=have/8%20octets"), "{name}");
    let mut wire = Vec::new();
    InterestBuilder::new(name.as_ref()).encode(&mut wire).unwrap();
    let Ok(Packet::Interest(interest)) = Packet::decode(&wire) else { panic!() };
    let mut out = Vec::new();
    publication.answer(&interest, &mut Nothing, &mut out).unwrap();
    let data = Data::decode(&out).unwrap();
    assert_eq!(data.name(), name.as_ref());
    assert_eq!(Have::from_packet(&data), Ok(Have::everything()));
    *out.last_mut().unwrap() ^= 1;
    assert_eq!(Have::from_packet(&Data::decode(&out).unwrap()), Err(HaveError::Digest));
}

struct Nothing;

impl xylem_object::ObjectSource for Nothing {
    type Error = core::convert::Infallible;
    fn geometry(&mut self, _: ObjectId) -> Option<xylem_tree::Geometry> {
        None
    }
    fn read_content(&mut self, _: ObjectId, _: u64, _: &mut [u8]) -> Result<(), Self::Error> {
        unreachable!("what a peer has is told without reading")
    }
    fn read_nodes(&mut self, _: ObjectId, _: u64, _: &mut [u8]) -> Result<(), Self::Error> {
        unreachable!("what a peer has is told without reading")
    }
}
