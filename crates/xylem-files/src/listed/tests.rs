use std::path::Path;

use xylem_store::{DiskMedium, OpenHow};

use super::*;

fn named(path: String, kind: EntryKind) -> Entry {
    Entry { path: path.into_bytes(), kind, mode: 0o644, mtime_s: 0, mtime_ns: 0 }
}

/// Makes folders of 300 files, with some links. Names are long enough to cross pieces; sizes need no, few and more
/// slots.
fn tree() -> Vec<Entry> {
    let mut entries = Vec::new();
    for folder in 0..30 {
        entries.push(named(format!("folder-{folder:02}"), EntryKind::Directory));
        for n in 0..300_u64 {
            let path = format!("folder-{folder:02}/{n:03}{}", "x".repeat((n % 97) as usize));
            entries.push(match n {
                7 => named(path, EntryKind::Symlink { target: b"elsewhere".to_vec() }),
                8 => {
                    let target = format!("folder-{folder:02}/000").into_bytes();
                    named(path, EntryKind::HardLink { target })
                }
                _ => {
                    let root = xylem_hash::hash(path.as_bytes());
                    named(path, EntryKind::File { size: n * n * 10, root })
                }
            });
        }
    }
    entries
}

fn written(entries: &[Entry], at: &Path) -> (FileRef, u64, Hash) {
    let mut bytes = Vec::new();
    let mut writer = listing::ListingWriter::new(|piece: &[u8]| bytes.extend_from_slice(piece));
    entries.iter().for_each(|entry| writer.push(entry).unwrap());
    std::fs::write(at, &bytes).unwrap();
    let file = FileRef::open(&DiskMedium::new(), at, OpenHow::Read).unwrap();
    (file, bytes.len() as u64, xylem_hash::hash(&bytes))
}

#[test]
fn entries_read_from_disk_equal_those_written() {
    let dir = tempfile::tempdir().unwrap();
    let entries = tree();
    let (file, size, root) = written(&entries, &dir.path().join("listing"));
    let mut listed = ListedFiles::open(file, size, &root, SegmentSize::DEFAULT).unwrap();
    assert!(size > 2 * PIECE as u64, "some entry must cross two pieces");
    let all: Vec<Listed> = listed.entries().map(Result::unwrap).collect();
    assert_eq!(all.len() as u64, listed.totals().entries);
    let (mut number, mut slot) = (0, 0);
    for (found, entry) in all.iter().zip(&entries) {
        let like = |e: &Entry| Entry { mode: found.entry.mode, ..e.clone() };
        assert_eq!((&found.entry, found.number, found.slot), (&like(entry), number, slot));
        let again = listed.find(&entry.path).unwrap().unwrap().clone();
        assert_eq!((again.entry, again.number), (found.entry.clone(), number));
        if let EntryKind::File { size, .. } = entry.kind {
            let by_number = listed.file(number).unwrap().unwrap();
            assert_eq!((&by_number.entry.path, by_number.slot), (&entry.path, slot));
            (number, slot) = (number + 1, slot + packed_slots(size, SegmentSize::DEFAULT));
        }
    }
    assert_eq!(number, listed.totals().files);
    assert!(listed.file(number).unwrap().is_none());
    assert!(listed.file(u64::MAX).unwrap().is_none());
    for absent in [&b""[..], b"a", b"folder-00/", b"folder-05/zzz", b"zzz"] {
        assert!(listed.find(absent).unwrap().is_none());
    }
    let reversed = listed.entries_reversed().map(|l| l.unwrap().entry.path);
    assert!(reversed.eq(all.iter().rev().map(|l| l.entry.path.clone())));
}

#[test]
fn an_empty_listing_has_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (file, size, root) = written(&[], &dir.path().join("listing"));
    let mut listed = ListedFiles::open(file, size, &root, SegmentSize::DEFAULT).unwrap();
    assert!(listed.file(0).unwrap().is_none() && listed.find(b"a").unwrap().is_none());
    assert_eq!((listed.entries().count(), listed.entries_reversed().count()), (0, 0));
}

#[test]
fn a_wrong_root_and_a_change_on_disk_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("listing");
    let (file, size, root) = written(&tree(), &path);
    let open = |file: &FileRef, size, root: &Hash| {
        ListedFiles::open(file.clone(), size, root, SegmentSize::DEFAULT)
    };
    let other = xylem_hash::hash(b"other");
    assert!(matches!(open(&file, size, &other), Err(ListedError::NotTheRoot(_))));
    assert!(matches!(open(&file, size + 1, &root), Err(ListedError::NotTheRoot(_))));
    let mut listed = open(&file, size, &root).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(listed.entries().filter(Result::is_err).count(), 1);
    assert_eq!(listed.entries_reversed().filter(Result::is_err).count(), 1);
    let files = listed.totals().files;
    let failing = (0..files).filter(|n| listed.file(*n).is_err()).count();
    assert!((1..=BLOCK).contains(&failing), "only that block: {failing}");
}

#[test]
fn a_hard_link_must_name_a_listed_file() {
    let dir = tempfile::tempdir().unwrap();
    let to = |target: &[u8]| {
        let kind = EntryKind::HardLink { target: target.to_vec() };
        let link = EntryKind::Symlink { target: b"b".to_vec() };
        let file = EntryKind::File { size: 0, root: xylem_hash::hash(b"") };
        [("a", EntryKind::Directory), ("b", file), ("c", link), ("d", kind)]
            .map(|(path, kind)| named(path.to_owned(), kind))
    };
    for (target, good) in [(&b"b"[..], true), (b"a", false), (b"c", false), (b"aa", false)] {
        let (file, size, root) = written(&to(target), &dir.path().join("listing"));
        let opened = ListedFiles::open(file, size, &root, SegmentSize::DEFAULT);
        let bad = matches!(opened, Err(ListedError::Bad(ref e)) if e.entry == 3);
        assert_eq!((opened.is_ok(), bad), (good, !good), "{}", target.escape_ascii());
    }
}
