//! One test suite for every storage of finished parts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use xylem_hash::Hash;
use xylem_tree::{Geometry, NodeSource, SegmentSize};

use crate::support::{Source, memory};
use xylem_store::{
    DiskMedium, ObjectInfo, ObjectPart, Objects, Store, StoreError, check_tree,
    segments_of_outboard,
};

/// A model of an object store: whole values under keys.
#[derive(Default)]
struct Memory(Mutex<BTreeMap<Key, Vec<u8>>>);

type Key = ([u8; 32], u8);

fn key(root: &Hash, part: ObjectPart) -> Key {
    (*root.as_bytes(), part as u8)
}

fn missing() -> StoreError {
    StoreError::NotFound { path: PathBuf::from("memory") }
}

impl Objects for Memory {
    fn info(&self, root: &Hash, part: ObjectPart) -> Result<Option<ObjectInfo>, StoreError> {
        let all = self.0.lock().unwrap();
        let size = all.get(&key(root, part)).map(|bytes| bytes.len() as u64);
        Ok(size.map(|size| ObjectInfo { root: *root, part, size, written_s: 1 }))
    }

    fn read_at(
        &self,
        root: &Hash,
        part: ObjectPart,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, StoreError> {
        let all = self.0.lock().unwrap();
        let bytes = all.get(&key(root, part)).ok_or_else(missing)?;
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let len = from.len().min(out.len());
        out[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn put(&self, root: &Hash, part: ObjectPart, bytes: &[u8]) -> Result<(), StoreError> {
        self.0.lock().unwrap().insert(key(root, part), bytes.to_vec());
        Ok(())
    }

    fn list(&self, each: &mut dyn FnMut(ObjectInfo)) -> Result<(), StoreError> {
        for ((root, part), bytes) in self.0.lock().unwrap().iter() {
            let part =
                ObjectPart::ALL.into_iter().find(|p| *p as u8 == *part).ok_or_else(missing)?;
            let (root, size) = (Hash::from_bytes(*root), bytes.len() as u64);
            each(ObjectInfo { root, part, size, written_s: 1 });
        }
        Ok(())
    }

    fn remove(&self, root: &Hash, part: ObjectPart) -> Result<(), StoreError> {
        self.0.lock().unwrap().remove(&key(root, part));
        Ok(())
    }
}

/// A tree that is read only through the interface.
struct Nodes<'a>(&'a dyn Objects, Hash);

impl NodeSource for Nodes<'_> {
    type Error = StoreError;

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let got = self.0.read_at(&self.1, ObjectPart::Outboard, first_slot * 32, out)?;
        assert_eq!(got, out.len());
        Ok(())
    }
}

fn names(objects: &dyn Objects) -> Vec<([u8; 32], u8, u64)> {
    let mut names = Vec::new();
    objects.list(&mut |i| names.push((*i.root.as_bytes(), i.part as u8, i.size))).unwrap();
    names.sort_unstable();
    names
}

fn suite(objects: &dyn Objects) {
    let (a, b) = (xylem_hash::hash(b"a"), xylem_hash::hash(b"b"));
    assert_eq!(names(objects), []);
    assert_eq!(objects.info(&a, ObjectPart::Outboard).unwrap(), None);
    let mut out = [7; 8];
    let nothing = objects.read_at(&a, ObjectPart::Outboard, 0, &mut out);
    assert!(matches!(nothing, Err(StoreError::NotFound { .. })), "{nothing:?}");
    objects.remove(&a, ObjectPart::Outboard).unwrap();

    for part in ObjectPart::ALL {
        objects.put(&a, part, b"0123456789").unwrap();
    }
    objects.put(&b, ObjectPart::Listing, b"").unwrap();
    assert_eq!(names(objects).len(), ObjectPart::ALL.len() + 1);
    let info = objects.info(&a, ObjectPart::Listing).unwrap().unwrap();
    assert_eq!((info.root, info.part, info.size), (a, ObjectPart::Listing, 10));
    // Ranges: inside, across the end, at it, beyond it, empty.
    for (offset, len, want) in
        [(0, 8, &b"01234567"[..]), (4, 8, b"456789"), (10, 8, b""), (999, 8, b""), (3, 0, b"")]
    {
        let mut out = vec![0; len];
        let got = objects.read_at(&a, ObjectPart::Manifest, offset, &mut out).unwrap();
        assert_eq!(&out[..got], want);
    }
    // Whole, or as before.
    objects.put(&a, ObjectPart::Listing, b"new").unwrap();
    assert_eq!(objects.info(&a, ObjectPart::Listing).unwrap().unwrap().size, 3);
    objects.remove(&a, ObjectPart::Listing).unwrap();
    objects.remove(&a, ObjectPart::Listing).unwrap();
    assert_eq!(objects.info(&a, ObjectPart::Listing).unwrap(), None);
    assert_eq!(names(objects).len(), ObjectPart::ALL.len());

    let source = Source::new(500_000, 30);
    objects.put(&source.root(), ObjectPart::Outboard, source.outboard.as_bytes()).unwrap();
    let info = objects.info(&source.root(), ObjectPart::Outboard).unwrap().unwrap();
    let segments = segments_of_outboard(info.size).unwrap();
    assert_eq!(segments, source.geometry().segments());
    let found = check_tree(&mut Nodes(objects, source.root()), segments, &source.root()).unwrap();
    assert!(found.is_whole(), "{found:?}");
}

#[test]
fn files_in_memory_pass_the_suite() {
    suite(&memory().1);
}

#[test]
fn files_on_disk_pass_the_suite() {
    let place = tempfile::tempdir().unwrap();
    suite(&Store::open(Arc::new(DiskMedium::new()), place.path()).unwrap());
}

#[test]
fn values_under_keys_pass_the_suite() {
    suite(&Memory::default());
}

#[test]
fn every_changed_node_is_found_and_nothing_else() {
    for size in [1, 8192, 8193, 24_577, 100_001, 6_000_000] {
        let source = Source::new(size, 31);
        let geometry = Geometry::new(size as u64, SegmentSize::DEFAULT);
        let whole = source.outboard.as_bytes().to_vec();
        let check = |bytes: &[u8]| {
            check_tree(&mut &bytes[..], geometry.segments(), &source.root()).unwrap()
        };
        assert!(check(&whole).is_whole(), "{size}");
        let step = (geometry.slots() / 24).max(1);
        for slot in (0..geometry.slots()).step_by(step as usize) {
            let mut bad = whole.clone();
            bad[slot as usize * 32 + 5] ^= 1;
            let found = check(&bad);
            assert!(found.bad_pairs > 0 && !found.is_whole(), "{size} {slot}");
            let mut hole = whole.clone();
            hole[slot as usize * 32..][..32].fill(0);
            let found = check(&hole);
            assert!(found.unwritten > 0 && found.bad_pairs == 0, "{size} {slot} {found:?}");
        }
        let other = check_tree(&mut &whole[..], geometry.segments(), &xylem_hash::hash(b"other"));
        assert!(!other.unwrap().is_whole());
    }
    assert_eq!(segments_of_outboard(32), Some(1));
    assert_eq!(segments_of_outboard(96), Some(2));
    for no_tree in [0, 1, 31, 33, 64, 128] {
        assert_eq!(segments_of_outboard(no_tree), None, "{no_tree}");
    }
}
