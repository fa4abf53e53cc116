//! Listings: no panic, the same answer in one piece and in many, one form per listing, and no path
//! that would lead out of the folder.
#![no_main]
use std::path::{Component, Path};

use xylem_object::listing::{
    EntryKind, HEADER_LEN, ListingReader, ListingWriter, entries, next_entry,
};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&size, listing)) = input.split_first() else { return };
    let whole: Result<Vec<_>, _> = entries(listing).collect();

    let mut reader = ListingReader::new();
    let mut read = Vec::new();
    let mut in_pieces = Ok(());
    'pieces: for mut piece in listing.chunks(usize::from(size).max(1)) {
        loop {
            match reader.pull(&mut piece) {
                Ok(Some(entry)) => read.push(entry),
                Ok(None) => break,
                Err(error) => {
                    in_pieces = Err(error);
                    break 'pieces;
                }
            }
        }
    }
    let in_pieces = in_pieces.and_then(|()| reader.finish());
    assert_eq!(whole.as_ref().err(), in_pieces.as_ref().err());

    let Ok(whole) = whole else { return };
    assert_eq!(whole, read);
    let mut written = Vec::new();
    let mut writer = ListingWriter::new(|piece: &[u8]| written.extend_from_slice(piece));
    let mut rest = &listing[HEADER_LEN..];
    for entry in &whole {
        let before = rest.len();
        let alone = next_entry(&mut rest);
        assert_eq!(alone.as_ref().map(Option::as_ref), Ok(Some(entry)), "as in the whole");
        assert_eq!(before - rest.len(), entry.encoded_len());
        writer.push(entry).expect("what is read can be written");
        if let EntryKind::Symlink { .. } = entry.kind {
            let _ = entry.escapes();
        }
        if let Ok(text) = std::str::from_utf8(&entry.path) {
            let inside = |part| matches!(part, Component::Normal(_));
            assert!(Path::new(text).components().all(inside), "{text:?}");
        }
    }
    assert_eq!(Ok(writer.finish()), in_pieces);
    assert_eq!(written, listing, "a listing has one form");
});
