use super::*;
use std::fs;
use xylem_mail::sealed::{Master, padded};
use xylem_sim::noise;
use xylem_store::{DiskMedium, FileRef, Store};
use xylem_tree::Outboard;

/// Makes a folder with one encrypted file of these bytes, shown with the size that `shown` returns.
fn overlay(dir: &Path, plain: &[u8], shown: fn(u64) -> u64) -> (Overlay, PathBuf, FileKey) {
    let path = dir.join("plain.bin");
    fs::write(&path, plain).unwrap();
    let disk: Arc<dyn Medium> = Arc::new(DiskMedium::new());
    let store = Store::open(disk.clone(), &dir.join("store")).unwrap();
    let outboard = Outboard::of(plain, SegmentSize::DEFAULT);
    let nodes = store.new_file().unwrap();
    nodes.file().write_all(outboard.as_bytes(), 0).unwrap();
    let (root, nodes) = (outboard.root(), Some(shared_nodes(&nodes.outboard())));
    let key = Master::new(&[1; 32], b"here").file(&root);
    let check = Some(PlaintextCheck { root, nodes, slot: 0 });
    let (source, key_of_it) = (plain.len() as u64, key.clone());
    let file = Ciphered { path, source, size: shown(source), key: key_of_it, check };
    let files = BTreeMap::from([(PathBuf::from("f/a"), Virtual::Ciphered(Arc::new(file)))]);
    let folder = dir.join("nowhere");
    (Overlay::new(disk, folder.clone(), files), folder, key)
}

fn same(len: u64) -> u64 {
    len
}

#[test]
fn any_part_read_equals_that_part_of_the_ciphertext() {
    let dir = tempfile::tempdir().unwrap();
    let lengths = [1, 1_024, 8_191, 8_192, 8_193, 50_000, 65_537];
    for (len, shown) in lengths.into_iter().flat_map(|len| [(len, padded as _), (len, same as _)]) {
        let plain = noise(len, len as u64);
        let (overlay, folder, key) = overlay(dir.path(), &plain, shown);
        let mut whole = plain.clone();
        whole.resize(shown(len as u64) as usize, 0);
        key.apply(0, &mut whole);
        let file = FileRef::open(&overlay, &folder.join("f/a"), OpenHow::Read).unwrap();
        assert_eq!(file.metadata().unwrap().size, shown(len as u64));
        for start in [0, 1, 1_000, 8_191, 8_192, 8_193, 16_384, 40_000, len - 1, len] {
            for wanted in [1, 100, 8_192, 8_193, 20_000, 60_000] {
                let mut read = vec![0; wanted];
                let got = file.read_full(&mut read, start as u64).unwrap();
                let end = whole.len().min(start + wanted);
                let right = whole.get(start..end).unwrap_or_default();
                assert_eq!(read[..got], *right, "{len} bytes from {start}, {wanted} wanted");
            }
        }
    }
}

/// The key of the former content encrypts nothing else.
#[test]
fn changed_plaintext_is_not_encrypted() {
    let dir = tempfile::tempdir().unwrap();
    for len in [5_000, 50_000] {
        let plain = noise(len, 1);
        let (overlay, folder, _) = overlay(dir.path(), &plain, same);
        let file = FileRef::open(&overlay, &folder.join("f/a"), OpenHow::Read).unwrap();
        let mut changed = plain.clone();
        changed[len - 1] ^= 1;
        fs::write(dir.path().join("plain.bin"), &changed).unwrap();
        let mut read = vec![1; len];
        assert!(file.read_full(&mut read, 0).is_err());
        assert!(!read.windows(64).any(|w| changed.windows(64).any(|c| c == w)));
        assert!(len < 8_192 || file.read_full(&mut read[..8_192], 0).is_ok(), "the rest is");
    }
}

#[test]
fn the_overlay_is_listed_and_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let (overlay, folder, _) = overlay(dir.path(), b"x", same);
    let names = |path: &Path| -> Vec<_> {
        overlay.list_dir(path).unwrap().into_iter().map(|item| (item.name, item.kind)).collect()
    };
    assert_eq!(names(&folder), [("f".into(), FileKind::Directory)]);
    assert_eq!(names(&folder.join("f")), [("a".into(), FileKind::File)]);
    assert!(overlay.create_dir(&folder.join("g"), 0o755).is_err());
    assert!(overlay.remove_file(&folder.join("f/a")).is_err());
    assert!(overlay.open(&folder.join("f/b"), OpenHow::Create { mode: 0o600 }).is_err());
    assert!(overlay.metadata(&folder.join("f/b")).is_err());
    assert!(overlay.metadata(&dir.path().join("plain.bin")).is_ok(), "the rest is the disk's");
}
