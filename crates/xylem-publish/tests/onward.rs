//! Serves another publisher's publication, with its segment size, from manifests in the store.

use std::fs;
use std::path::Path;
use std::time::Duration;

use xylem_base::{Stop, UnixTime, disk};
use xylem_files::reads::Reads;
use xylem_files::{signed, walk::Selection};
use xylem_object::naming::{self, PublicationRequest};
use xylem_object::{Manifest, ObjectId, PublisherKey, ServeOutcome, sign_manifest};
use xylem_packet::{Interest, InterestBuilder, Name};
use xylem_publish::{onward, publish};
use xylem_store::{ObjectPart, Objects, Store};
use xylem_tree::{Geometry, SegmentIndex, SegmentSize};

fn key() -> PublisherKey {
    PublisherKey::from_bytes(&[7; 32])
}

/// Returns the manifest and the versioned prefix of publishing `path`.
fn published(store: &Store, path: &Path) -> (Manifest, Name) {
    let name = |file: &[u8]| naming::default_name(&key().public(), file);
    let now = UnixTime::new(Duration::from_secs(1));
    let (published, prefix) =
        publish(store, path, &name, &Selection::default(), now, &Stop::new(), &mut |_| {}).unwrap();
    (published.manifest, prefix)
}

/// Serves `path` with segments of this size, and checks that every segment of these objects is answered.
fn serves_all(store: &Store, path: &Path, log2: u8, objects: &[(ObjectId, u64)]) {
    let (mut manifest, prefix) = published(store, path);
    manifest.segment = SegmentSize::from_log2_chunks(log2).unwrap();
    let packet = sign_manifest(&manifest, prefix.as_ref(), &key()).unwrap();
    signed::keep(store, &manifest.root, &packet).unwrap();
    let found = signed::find(store, &manifest.root, &key().public(), Some(&prefix)).unwrap();
    let reads = Reads::over(store.medium().clone(), path);
    let onward = onward(store, path, found, Some(&reads), &Stop::new(), &mut |_| {});
    let mut answers = onward.unwrap().unwrap().answers(reads).unwrap();
    let mut out = Vec::new();
    for (object, size) in objects.iter().copied().chain([(ObjectId::Root, manifest.size)]) {
        for index in 0..Geometry::new(size, manifest.segment).segments() {
            let request = PublicationRequest::Segment { object, index: SegmentIndex(index) };
            let (name, mut wire) = (naming::encode(prefix.as_ref(), &request), Vec::new());
            InterestBuilder::new(name.as_ref()).encode(&mut wire).unwrap();
            let interest = Interest::decode(&wire).unwrap();
            out.clear();
            let mut answer = answers.answer(Duration::ZERO, &interest, &mut out);
            // The system has evicted it from memory meanwhile.
            while answer == ServeOutcome::NotYet {
                let _ = fs::read(path);
                answer = answers.answer(Duration::ZERO, &interest, &mut out);
            }
            assert_eq!(answer, ServeOutcome::Data, "{name} of {log2}");
        }
    }
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed) ^ (i >> 8) as u8).collect()
}

#[test]
fn trees_have_the_publications_segment_size() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(disk(), &dir.path().join("store")).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, bytes(300_000, 1)).unwrap();
    let folder = dir.path().join("folder");
    fs::create_dir(&folder).unwrap();
    // In the order of the listing.
    let sizes = [0, 1, 1_025, 8_193, 66_000, 200_000];
    for (i, size) in sizes.into_iter().enumerate() {
        fs::write(folder.join(format!("{i}-{:0>200}", "")), bytes(size, i as u8)).unwrap();
    }
    let files = sizes.iter().enumerate().map(|(i, size)| (ObjectId::File(i as u64), *size as u64));
    let files: Vec<_> = files.collect();
    // Alternating, so that each finds the trees of the other.
    for log2 in [3, 0, 3, 1] {
        serves_all(&store, &file, log2, &[]);
        serves_all(&store, &folder, log2, &files);
    }
}

#[test]
fn several_manifests_of_a_root_are_stored_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(disk(), &dir.path().join("store")).unwrap();
    let manifest = Manifest::file(xylem_hash::hash(b"hello"), 5, b"hello");
    let (root, own, other) = (manifest.root, key(), PublisherKey::from_bytes(&[8; 32]));
    let name = |n: u64| Name::from_uri(&format!("/a/v={n}")).unwrap();
    let sign = |n: u64, by| sign_manifest(&manifest, name(n).as_ref(), by).unwrap();
    let find = |n: u64, by: &PublisherKey| {
        signed::find(&store, &root, &by.public(), Some(&name(n))).map(|found| found.prefix)
    };
    assert_eq!(find(1, &key()), None);
    for n in 1..=10 {
        signed::keep(&store, &root, &sign(n, if n == 9 { &other } else { &own })).unwrap();
    }
    assert_eq!(find(2, &key()), None, "eight are enough");
    assert_eq!(find(3, &key()), Some(name(3)));
    assert_eq!((find(9, &key()), find(9, &other)), (None, Some(name(9))));
    let latest = signed::find(&store, &root, &key().public(), None).unwrap();
    assert_eq!(latest.prefix, name(10));
    // Stored again, it becomes the latest, without a duplicate.
    signed::keep(&store, &root, &sign(3, &key())).unwrap();
    assert_eq!(signed::find(&store, &root, &key().public(), None).unwrap().prefix, name(3));
    let whole = store.object_bytes(&root, ObjectPart::Manifest, 1 << 20).unwrap().unwrap();
    for at in 0..whole.len() {
        let mut bad = whole.clone();
        bad[at] ^= 1;
        store.put(&root, ObjectPart::Manifest, &bad).unwrap();
        if let Some(found) = signed::find(&store, &root, &key().public(), None) {
            assert!(whole.windows(found.packet.len()).any(|packet| packet == found.packet));
        }
    }
}
