//! Consistency proofs, and pointers to checkpoints: no panic, and only a true proof of a prefix passes.
#![no_main]
use xylem_object::growing::{parse_pointer_name, pointer_target};
use xylem_packet::{Name, NameRef};
use xylem_tree::{Geometry, Outboard, SegmentSize, TreeKind, consistency};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&[old_high, old_low, new_high, new_low, shape], bytes)) = input.split_first_chunk()
    else {
        return;
    };
    let (old, new) =
        (u16::from_be_bytes([old_high, old_low]), u16::from_be_bytes([new_high, new_low]));
    let segment = SegmentSize::from_log2_chunks(shape % 4).expect("below 4");
    let kind = if shape & 4 == 0 { TreeKind::Blake3 } else { TreeKind::Sha256 };
    let content = vec![7; usize::from(new)];
    let whole = Outboard::of_kind(&content, segment, kind);
    let older = Geometry::new(u64::from(old), segment).with_kind(kind);
    // A root that no file of ones has: no proof leads to it, whatever the bytes.
    let other = Outboard::of_kind(&vec![1; usize::from(old)], segment, kind);
    let shown =
        consistency::verify((&older, other.root()), (whole.geometry(), whole.root()), bytes);
    assert!(old == 0 || shown.is_err());

    let object = Name::from_uri("/a/b").expect("a name");
    if let Some((prefix, version)) = pointer_target(object.as_ref(), bytes) {
        assert_eq!(xylem_object::naming::versioned(object.as_ref(), version), Ok(prefix));
    }
    if let Ok(name) = NameRef::from_value(bytes) {
        let _ = parse_pointer_name(object.as_ref(), name);
    }
});
