//! Listings: round trips, one form per folder, and attacks by hostile listings.

use proptest::prelude::*;
use xylem_hash::{Hash, hash};
use xylem_object::listing::{
    Entry, EntryKind, HEADER_LEN, ListingError, ListingFault, ListingReader, ListingWriter,
    PathError, Totals, entries, leading_path, next_entry,
};

fn write(list: &[Entry]) -> Result<(Vec<u8>, Totals), ListingError> {
    let mut bytes = Vec::new();
    let mut writer = ListingWriter::new(|piece: &[u8]| bytes.extend_from_slice(piece));
    list.iter().try_for_each(|entry| writer.push(entry))?;
    let totals = writer.finish();
    Ok((bytes, totals))
}

fn read(bytes: &[u8]) -> Result<Vec<Entry>, ListingFault> {
    entries(bytes).collect::<Result<_, _>>().map_err(|error| error.fault)
}

fn entry(path: &[u8], kind: EntryKind) -> Entry {
    Entry { path: path.to_vec(), kind, mode: 0o644, mtime_s: 9, mtime_ns: 8 }
}

fn file(path: &[u8]) -> Entry {
    entry(path, EntryKind::File { size: 5, root: hash(b"hello") })
}

fn folder(path: &[u8]) -> Entry {
    entry(path, EntryKind::Directory)
}

fn link(path: &[u8], target: &[u8]) -> Entry {
    let kind = EntryKind::Symlink { target: target.to_vec() };
    Entry { path: path.to_vec(), kind, mode: 0o777, mtime_s: 0, mtime_ns: 0 }
}

fn hard_link(path: &[u8], target: &[u8]) -> Entry {
    Entry { kind: EntryKind::HardLink { target: target.to_vec() }, ..link(path, b"-") }
}

/// A listing written without checks, as a hostile publisher can make it.
fn forge(list: &[Entry]) -> Vec<u8> {
    let mut bytes = b"xylemdir\x01".to_vec();
    for entry in list {
        bytes.push(match entry.kind {
            EntryKind::File { .. } => 0,
            EntryKind::Directory => 1,
            EntryKind::Symlink { .. } => 2,
            EntryKind::HardLink { .. } => 3,
        });
        bytes.extend_from_slice(&(entry.mode as u16).to_be_bytes());
        bytes.extend_from_slice(&entry.mtime_s.to_be_bytes());
        bytes.extend_from_slice(&entry.mtime_ns.to_be_bytes());
        bytes.extend_from_slice(&(entry.path.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&entry.path);
        match &entry.kind {
            EntryKind::File { size, root } => {
                bytes.extend_from_slice(&size.to_be_bytes());
                bytes.extend_from_slice(root.as_bytes());
            }
            EntryKind::Directory => {}
            EntryKind::Symlink { target } | EntryKind::HardLink { target } => {
                bytes.extend_from_slice(&(target.len() as u16).to_be_bytes());
                bytes.extend_from_slice(target);
            }
        }
    }
    bytes
}

/// The vector of docs/spec/object.md.
#[test]
fn the_specification_s_vector() {
    let list = [
        Entry { mode: 0o755, mtime_s: 1_700_000_000, mtime_ns: 0, ..folder(b"docs") },
        Entry { mode: 0o644, mtime_s: -1, mtime_ns: 999_999_999, ..file(b"docs/hello.txt") },
        link(b"latest", b"docs/hello.txt"),
    ];
    let (bytes, totals) = write(&list).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        concat!(
            "78796c656d64697201",
            "0101ed000000006553f100000000000004646f6373",
            "0001a4ffffffffffffffff3b9ac9ff000e646f63732f68656c6c6f2e747874",
            "0000000000000005",
            "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f",
            "0201ff0000000000000000000000000006",
            "6c6174657374000e646f63732f68656c6c6f2e747874",
        )
    );
    assert_eq!(totals, Totals { entries: 3, files: 1, bytes: 5 });
    assert_eq!(forge(&list), bytes);
    assert_eq!(read(&bytes).unwrap(), list);
}

/// The second vector: one file under two names.
#[test]
fn the_specification_s_vector_of_a_hard_link() {
    let list = [
        Entry { mode: 0o644, mtime_s: 1_700_000_000, mtime_ns: 5, ..file(b"a") },
        hard_link(b"b", b"a"),
    ];
    let (bytes, totals) = write(&list).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        concat!(
            "78796c656d64697201",
            "0001a4000000006553f10000000005000161",
            "0000000000000005",
            "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f",
            "0301ff000000000000000000000000000162000161",
        )
    );
    assert_eq!(totals, Totals { entries: 2, files: 1, bytes: 5 });
    assert_eq!(read(&bytes).unwrap(), list);
}

#[test]
fn entries_are_read_one_by_one_with_their_encoded_length() {
    let list = [folder(b"a"), file(b"a/b"), hard_link(b"a/c", b"a/b"), link(b"l", b"a/c")];
    let (bytes, _) = write(&list).unwrap();
    let mut rest = &bytes[HEADER_LEN..];
    for entry in &list {
        let before = rest.len();
        assert_eq!(leading_path(rest), Some(entry.path.as_slice()));
        assert_eq!(next_entry(&mut rest).unwrap().as_ref(), Some(entry));
        assert_eq!(before - rest.len(), entry.encoded_len());
    }
    assert_eq!(next_entry(&mut rest), Ok(None));
    for cut in HEADER_LEN + 1..HEADER_LEN + list[0].encoded_len() {
        assert_eq!(next_entry(&mut &bytes[HEADER_LEN..cut]), Err(ListingFault::CutOff));
    }
}

#[test]
fn an_empty_folder_has_a_listing() {
    let (bytes, totals) = write(&[]).unwrap();
    assert_eq!((bytes.len(), totals), (HEADER_LEN, Totals::default()));
    assert_eq!(read(&bytes), Ok(vec![]));
}

/// For each rule a listing that breaks only this rule.
#[test]
fn hostile_listings_are_refused() {
    use ListingFault::Path;
    use PathError::*;
    let max = xylem_object::MAX_SIZE;
    let sized = |path: &[u8], size| entry(path, EntryKind::File { size, root: hash(b"") });
    let table: &[(&[Entry], ListingFault)] = &[
        (&[file(b"")], Path(Empty)),
        (&[file(b"/etc/passwd")], Path(Absolute)),
        (&[file(b"..")], Path(DotDot)),
        (&[file(b"../x")], Path(DotDot)),
        (&[folder(b"a"), file(b"a/../../x")], Path(DotDot)),
        (&[file(b".")], Path(Dot)),
        (&[folder(b"a"), file(b"a/./b")], Path(Dot)),
        (&[folder(b"a"), file(b"a//b")], Path(EmptyComponent)),
        (&[folder(b"a/")], Path(EmptyComponent)),
        (&[file(b"a\0b")], Path(Nul)),
        (&[file(&[b'x'; 256])], Path(ComponentTooLong)),
        (&[file(b".x.xylem-part")], Path(Reserved)),
        (&[file(b"a"), file(b"a")], Path(Duplicate)),
        (&[folder(b"a"), file(b"a")], Path(Duplicate)),
        (&[file(b"b"), file(b"a")], Path(NotSorted)),
        (&[file(b"a/b")], Path(ParentMissing)),
        (&[folder(b"a"), file(b"a/b/c")], Path(ParentMissing)),
        (&[file(b"a"), file(b"a/b")], Path(ParentNotDirectory)),
        // The classic attack: a link to another place, then a file through it.
        (&[link(b"a", b"/etc"), file(b"a/passwd")], Path(ParentNotDirectory)),
        (&[link(b"a", b"")], Path(TargetEmpty)),
        (&[link(b"a", b"b\0")], Path(Nul)),
        (&[link(b"a", &[b'x'; 4097])], Path(TargetTooLong)),
        (&[hard_link(b"b", b"")], Path(Empty)),
        (&[hard_link(b"b", b"/etc/passwd")], Path(Absolute)),
        (&[hard_link(b"b", b"../b")], Path(DotDot)),
        (&[hard_link(b"b", b"a\0")], Path(Nul)),
        (&[hard_link(b"b", b"b")], Path(LinkToLater)),
        (&[hard_link(b"b", b"c"), file(b"c")], Path(LinkToLater)),
        (&[file(b"a"), hard_link(b"b", b"a"), file(b"b/c")], Path(ParentNotDirectory)),
        (&[file(&[b'x'; 4097])], Path(TooLong)),
        (&[sized(b"a", max + 1)], ListingFault::FileTooLarge(max + 1)),
        (&[Entry { mtime_ns: 1_000_000_000, ..file(b"a") }], ListingFault::Nanos(1_000_000_000)),
    ];
    for (list, fault) in table {
        assert_eq!(read(&forge(list)).as_ref(), Err(fault), "reading {list:?}");
        assert_eq!(write(list).map_err(|error| error.fault).as_ref(), Err(fault), "{list:?}");
    }
    // Faults that the writer corrects and the reader refuses.
    let table: &[(&[Entry], ListingFault)] = &[
        (&[Entry { mode: 0o4755, ..file(b"a") }], ListingFault::Mode(0o4755)),
        (&[Entry { mode: 0o644, ..link(b"a", b"b") }], ListingFault::Mode(0o644)),
        (&[Entry { mtime_s: 1, ..link(b"a", b"b") }], ListingFault::LinkTime),
        (&[Entry { mode: 0o644, ..hard_link(b"b", b"a") }], ListingFault::Mode(0o644)),
        (&[Entry { mtime_ns: 1, ..hard_link(b"b", b"a") }], ListingFault::LinkTime),
    ];
    for (list, fault) in table {
        assert_eq!(read(&forge(list)).as_ref(), Err(fault), "{list:?}");
        assert_ne!(write(list).unwrap().0, forge(list));
    }
}

#[test]
fn headers_and_kinds_are_checked() {
    let (good, _) = write(&[file(b"a")]).unwrap();
    assert_eq!(read(b""), Err(ListingFault::CutOff));
    assert_eq!(read(b"xylemdir"), Err(ListingFault::CutOff));
    assert_eq!(read(b"notalist\x01"), Err(ListingFault::NotAListing));
    assert_eq!(read(b"xylemdir\x02"), Err(ListingFault::UnknownVersion(2)));
    let mut kind = good.clone();
    kind[HEADER_LEN] = 4;
    assert_eq!(read(&kind), Err(ListingFault::UnknownKind(4)));
    for cut in HEADER_LEN + 1..good.len() {
        assert_eq!(read(&good[..cut]), Err(ListingFault::CutOff), "cut at {cut}");
    }
}

#[test]
fn the_sum_of_sizes_may_not_overflow() {
    // 2^20 files of 2^44 bytes: forged in pieces, never in memory at once.
    let mut reader = ListingReader::new();
    let mut header: &[u8] = b"xylemdir\x01";
    assert_eq!(reader.pull(&mut header), Ok(None));
    let mut result = Ok(());
    for n in 0..=1u32 << 20 {
        let kind = EntryKind::File { size: xylem_object::MAX_SIZE, root: hash(b"") };
        let bytes = forge(&[entry(format!("{n:08x}").as_bytes(), kind)]);
        if let Err(error) = reader.pull(&mut &bytes[HEADER_LEN..]) {
            result = Err((n, error.fault));
            break;
        }
    }
    assert_eq!(result, Err(((1 << 20) - 1, ListingFault::TotalTooLarge)));
}

#[test]
fn an_error_names_entry_and_path() {
    let forged = forge(&[folder(b"a"), file(b"a/..")]);
    let error = entries(&forged).nth(1).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "listing entry 1 (\"a/..\"): the path has a component \"..\"");
    let error = write(&[file(b"a\xff/\n")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "listing entry 0 (\"a\\xff/\\n\"): its folder is not listed before it"
    );
    assert_eq!(entries(&forged).count(), 2, "the iterator ends after an error");
}

#[test]
fn a_refused_entry_can_be_left_out() {
    let mut bytes = Vec::new();
    let mut writer = ListingWriter::new(|piece: &[u8]| bytes.extend_from_slice(piece));
    writer.push(&file(b"a")).unwrap();
    writer.push(&file(b"b\0")).unwrap_err();
    writer.push(&file(b"a/b")).unwrap_err();
    writer.push(&file(b"b")).unwrap();
    assert_eq!(writer.finish().files, 2);
    assert_eq!(bytes, write(&[file(b"a"), file(b"b")]).unwrap().0);
}

/// Components that sort around `/`, so that other entries separate folders from their contents.
fn component() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(&b"a!-0\xff\n"[..]), 1..4)
}

fn kind() -> impl Strategy<Value = EntryKind> {
    prop_oneof![
        2 => (0u64..1 << 45, any::<[u8; 32]>()).prop_map(|(size, root)| EntryKind::File {
            size: size.min(1 << 44),
            root: Hash::from_bytes(root),
        }),
        2 => Just(EntryKind::Directory),
        1 => prop::collection::vec(1u8.., 1..20).prop_map(|target| EntryKind::Symlink { target }),
    ]
}

/// A folder as in a file system: each entry lies in a folder.
fn tree() -> impl Strategy<Value = Vec<Entry>> {
    let entry = (prop::collection::vec(component(), 1..5), kind(), 0u32..0o10000, any::<i64>());
    prop::collection::vec((entry, 0u32..1_000_000_000), 0..24).prop_map(|list| {
        let mut found = std::collections::BTreeMap::new();
        for ((components, kind, mode, mtime_s), mtime_ns) in list {
            let path = components.join(&b'/');
            let parents: Vec<_> =
                (1..components.len()).map(|n| components[..n].join(&b'/')).collect();
            let free = parents.iter().all(|parent| {
                found.get(parent).is_none_or(|e: &Entry| e.kind == EntryKind::Directory)
            });
            if free && !found.contains_key(&path) {
                for parent in parents {
                    found.entry(parent.clone()).or_insert_with(|| folder(&parent));
                }
                found.insert(path.clone(), Entry { path, kind, mode, mtime_s, mtime_ns });
            }
        }
        found.into_values().collect()
    })
}

/// The parts of an entry that a listing carries.
fn carried(entry: &Entry) -> Entry {
    match &entry.kind {
        EntryKind::Symlink { target } => link(&entry.path, target),
        _ => Entry { mode: entry.mode & 0o777, ..entry.clone() },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn round_trips_in_pieces_of_any_size(list in tree(), piece in 1usize..40) {
        let (bytes, totals) = write(&list).unwrap();
        let mut reader = ListingReader::new();
        let mut found = Vec::new();
        for mut piece in bytes.chunks(piece) {
            while let Some(entry) = reader.pull(&mut piece).unwrap() {
                found.push(entry);
            }
            prop_assert!(piece.is_empty());
        }
        prop_assert_eq!(reader.finish().unwrap(), totals);
        let expected: Vec<_> = list.iter().map(carried).collect();
        prop_assert_eq!(found, expected);
    }

    /// All bytes that the reader accepts are those that a writer makes of the entries read: there is one form. Single
    /// corrupted bytes pass the magic often enough for the test to be useful.
    #[test]
    fn accepted_listings_are_canonical(list in tree(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let (mut bytes, _) = write(&list).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(found) = read(&bytes) {
            prop_assert_eq!(write(&found).unwrap().0, bytes);
            prop_assert_ne!(found, list);
        }
    }
}
