//! The list of sums for updates: any bytes as a list of any file, and as a manifest's field.
#![no_main]
use xylem_object::sums::{UpdateSums, list_len, read_list};
use xylem_tree::{Geometry, SegmentSize, UPDATE_SUMS_LEN, UpdateBlocks, weak_sum};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some(sums) = UpdateSums::decode(input) {
        assert_eq!(sums.encode()[..], *input, "what is read has one form");
    }
    let _ = weak_sum(input);
    let Some((size, list)) = input.split_first_chunk::<8>() else { return };
    let log2 = size[0] % 4;
    let size = u64::from_le_bytes(*size) >> 20;
    let segment = SegmentSize::from_log2_chunks(log2).expect("at most 3");
    let Some(blocks) = UpdateBlocks::of(Geometry::new(size, segment)) else {
        return assert_eq!(list_len(size, segment), 0);
    };
    assert_eq!(blocks.list_len(), list_len(size, segment));
    assert_eq!(blocks.range(blocks.count() - 1).end, size);
    match read_list(list, &blocks) {
        Some(sums) => assert_eq!(sums.len() as u64, blocks.count()),
        None => assert_ne!(list.len() as u64, blocks.list_len()),
    }
    // As many entries as there are bytes for, and a file of the matching size.
    let entries = list.len() / UPDATE_SUMS_LEN;
    let geometry = Geometry::new(entries as u64 * 8192, SegmentSize::DEFAULT);
    if let Some(blocks) = UpdateBlocks::of(geometry) {
        assert!(read_list(&list[..entries * UPDATE_SUMS_LEN], &blocks).is_some());
    }
});
