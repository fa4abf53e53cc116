//! Writers of verified bytes, in order or in a range: correct bytes come out, others are refused.

use std::io;
use std::path::Path;

use xylem_faults::FaultMedium;
use xylem_sim::noise;
use xylem_store::{
    FileRef, GrowingFile, Medium, OpenHow, OverwritePolicy, RangeFile, StoreError, VerifiedStream,
};
use xylem_tree::consistency::{self, Continuation};
use xylem_tree::{Checkpoint, GrowingTree, NodeValue, SegmentSize, TreeKind, TreeVerifier};

use crate::support::{Source, memory};

fn verifier(source: &Source) -> TreeVerifier {
    TreeVerifier::new(source.geometry(), source.root())
}

fn checkpoint(bytes: &[u8]) -> Checkpoint {
    let mut tree = GrowingTree::new(SegmentSize::DEFAULT, TreeKind::Blake3);
    tree.push(bytes, |_, _| Ok::<(), ()>(())).unwrap();
    tree.checkpoint()
}

/// Evidence that `old` begins `new`.
fn continuation(old: &Checkpoint, new: &Source) -> Continuation {
    let (from, to) = (old.geometry(), new.geometry());
    let mut proof = Vec::new();
    if let Some(needs) = consistency::needs(from, &to) {
        let nodes = new.outboard.as_bytes();
        let value = |node: xylem_tree::Node| {
            NodeValue::from_slice(nodes.get(node.slot() as usize * 32..)?.get(..32)?)
        };
        assert!(consistency::prove(from, &to, new.slice(needs.segment.0), value, &mut proof));
    }
    consistency::verify((from, old.root()), (&to, new.root()), &proof).unwrap()
}

#[test]
fn a_range_is_the_bytes_that_were_asked_for_in_any_order() {
    let source = Source::new(100_000, 60);
    for range in [0..100_000, 1..2, 8_192..16_384, 5_000..90_001, 99_999..100_000, 7..7] {
        let (medium, store) = memory();
        let store = store.durable();
        let (part, path) = (Path::new("/.part"), Path::new("/range"));
        let (root, geometry) = (source.root(), source.geometry());
        let mut out = RangeFile::open(&store, root, geometry, range.clone(), part).unwrap();
        let wanted = geometry.segments_of(range.clone());
        let mut verifier = verifier(&source);
        for i in wanted.clone().rev() {
            let early = out.finish_as(path, OverwritePolicy::Never);
            assert!(matches!(early, Err(StoreError::Incomplete { .. })));
            out.put(&source.segment(&mut verifier, i)).unwrap();
        }
        for outside in (0..geometry.segments()).filter(|i| !wanted.contains(i)) {
            let refused = out.put(&source.segment(&mut verifier, outside));
            assert!(matches!(refused, Err(StoreError::OutOfRange { .. })));
        }
        out.finish_as(path, OverwritePolicy::Never).unwrap();
        let bytes = &source.bytes[range.start as usize..range.end as usize];
        for image in [medium.image(), medium.power_cut(1)] {
            assert!(image.read(path).unwrap() == bytes, "{range:?}");
        }
    }
}

#[test]
fn a_range_refuses_other_objects_and_bytes_beyond_the_end() {
    let (_medium, store) = memory();
    let (source, other) = (Source::new(50_000, 61), Source::new(50_000, 62));
    let (root, geometry, part) = (source.root(), source.geometry(), Path::new("/.part"));
    let beyond = RangeFile::open(&store, root, geometry, 0..50_001, part);
    assert!(matches!(beyond, Err(StoreError::OutOfRange { .. })));
    let mut out = RangeFile::open(&store, root, geometry, 0..50_000, part).unwrap();
    let refused = out.put(&other.segment(&mut verifier(&other), 0));
    assert!(matches!(refused, Err(StoreError::OutOfRange { .. })));
    let second = RangeFile::open(&store, root, geometry, 0..1, part);
    assert!(matches!(second, Err(StoreError::Busy { .. })));
}

#[test]
fn a_stream_is_in_order_and_of_one_object() {
    let (source, other) = (Source::new(60_000, 63), Source::new(60_000, 64));
    let mut verifier = verifier(&source);
    let mut out = Vec::new();
    let mut stream = VerifiedStream::new(&mut out, source.root(), 10_000..50_000);
    let refused = |outcome: io::Result<()>| {
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    };
    refused(stream.put(&source.segment(&mut verifier, 2)));
    for i in 1..7 {
        refused(stream.put(&other.segment(&mut self::verifier(&other), i)));
        stream.put(&source.segment(&mut verifier, i)).unwrap();
        // Bytes from before are not written again.
        stream.put(&source.segment(&mut verifier, i)).unwrap();
    }
    stream.flush().unwrap();
    assert!(out == source.bytes[10_000..50_000]);
}

fn open(medium: &FaultMedium) -> FileRef {
    FileRef::open(medium, Path::new("/log"), OpenHow::Create { mode: 0o600 }).unwrap()
}

#[test]
fn a_growing_file_follows_what_is_proven_to_continue_it() {
    let medium = FaultMedium::new();
    let bytes = noise(100_000, 65);
    let mut begun = checkpoint(&[]);
    let mut out = GrowingFile::new(open(&medium), &begun);
    let mut piped = Vec::new();
    let mut stream = VerifiedStream::growing(&mut piped, &begun);
    for size in [0, 10, 8_192, 8_193, 60_000, 60_000, 100_000] {
        let source = Source::of(bytes[..size].to_vec(), SegmentSize::DEFAULT);
        let mut verifier = verifier(&source);
        let newer = continuation(&begun, &source);
        let first = begun.geometry().size() / 8_192;
        if size > begun.geometry().size() as usize {
            // Refused until it is shown to continue the bytes in the file.
            let segment = source.segment(&mut verifier, first);
            assert!(matches!(out.put(&segment), Err(StoreError::OutOfRange { .. })));
        }
        out.advance(&newer).unwrap();
        stream.advance(&newer).unwrap();
        for i in first..source.geometry().segments() {
            if i > first {
                let early = source.segment(&mut verifier, source.geometry().segments() - 1);
                let last = i + 1 == source.geometry().segments();
                assert_eq!(out.put(&early).is_ok(), last, "a gap");
            }
            let segment = source.segment(&mut verifier, i);
            out.put(&segment).unwrap();
            stream.put(&segment).unwrap();
        }
        assert!(medium.read(Path::new("/log")).unwrap() == bytes[..size], "{size}");
        begun = checkpoint(&bytes[..size]);
    }
    assert!(piped == bytes);
}

#[test]
fn a_growing_file_refuses_another_history() {
    let medium = FaultMedium::new();
    let (bytes, other) = (noise(20_000, 66), noise(30_000, 67));
    medium.write(Path::new("/log"), &bytes).unwrap();
    let begun = checkpoint(&bytes);
    let mut out = GrowingFile::new(open(&medium), &begun);
    let newer = Source::of(other.clone(), SegmentSize::DEFAULT);
    let of_other = continuation(&checkpoint(&other[..20_000]), &newer);
    assert!(matches!(out.advance(&of_other), Err(StoreError::OutOfRange { .. })));
    // The history is right, but it starts beyond the end of the file.
    let longer = Source::of([bytes.clone(), other].concat(), SegmentSize::DEFAULT);
    out.advance(&continuation(&begun, &longer)).unwrap();
    let later = Source::of([longer.bytes.clone(), vec![1; 9]].concat(), SegmentSize::DEFAULT);
    let skipped = continuation(&checkpoint(&longer.bytes), &later);
    assert!(matches!(out.advance(&skipped), Err(StoreError::OutOfRange { .. })));
    assert_eq!(medium.metadata(Path::new("/log")).unwrap().size, 20_000);
}
