//! Published content: a file or a directory made from a seed, and older versions of it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use xylem_base::{Stop, UnixTime};
use xylem_faults::FaultMedium;
use xylem_files::walk::Selection;
use xylem_object::{ObjectId, ObjectSource as _, PublisherKey};
use xylem_packet::Name;
use xylem_publish::{PublishError, Published, publish};
use xylem_sim::Rng;
use xylem_store::{FileKind, Medium, Store};

use crate::producer::{Original, Truth};

pub(crate) const NOW: UnixTime = UnixTime::new(std::time::Duration::from_secs(1_800_000_000));
pub(crate) const HERE: &str = "/source";

/// An entry: a file with its bytes, a link with its target, or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    File(Vec<u8>),
    Link(PathBuf),
    Folder,
}

/// All entries below a path; the path itself is the empty one.
pub(crate) type Tree = BTreeMap<PathBuf, Entry>;

/// Reads the entries at `path`; empty if there is no such name.
pub(crate) fn tree(medium: &FaultMedium, path: &Path) -> Tree {
    let mut found = Tree::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(inner) = todo.pop() {
        let at = if inner.as_os_str().is_empty() { path.to_path_buf() } else { path.join(&inner) };
        let Ok(meta) = medium.metadata(&at) else { continue };
        let entry = match meta.kind {
            FileKind::File => Entry::File(medium.read(&at).expect("a file")),
            FileKind::Symlink => Entry::Link(medium.read_link(&at).expect("a link")),
            _ => {
                let names = medium.list_dir(&at).expect("a folder");
                todo.extend(names.into_iter().map(|item| inner.join(item.name)));
                Entry::Folder
            }
        };
        found.insert(inner, entry);
    }
    found
}

/// Writes a tree without faults.
pub(crate) fn plant(medium: &FaultMedium, path: &Path, tree: &Tree) {
    for (inner, entry) in tree {
        let at = if inner.as_os_str().is_empty() { path.to_path_buf() } else { path.join(inner) };
        match entry {
            Entry::File(bytes) => medium.write(&at, bytes).expect("a folder to write in"),
            Entry::Link(target) => medium.symlink(target, &at).expect("a free name"),
            Entry::Folder => medium.create_dir(&at, 0o755).expect("a free name"),
        }
    }
}

/// Removes all entries at a path, as a user would.
pub(crate) fn remove(medium: &FaultMedium, path: &Path) {
    for (inner, entry) in tree(medium, path).into_iter().rev() {
        let at = if inner.as_os_str().is_empty() { path.to_path_buf() } else { path.join(&inner) };
        let removed = match entry {
            Entry::Folder => medium.remove_dir(&at),
            _ => medium.remove_file(&at),
        };
        removed.expect("it is there");
    }
}

pub(crate) fn open(medium: &FaultMedium, durable: bool) -> Store {
    let store = Store::open(Arc::new(medium.clone()), Path::new("/store")).expect("a store");
    if durable { store.durable() } else { store }
}

pub(crate) fn share(store: &Store) -> Result<(Published, Name), PublishError> {
    let name = |_: &[u8]| Name::from_uri("/a/b").expect("a name");
    let (selection, stop) = (Selection::default(), Stop::new());
    publish(store, Path::new(HERE), &name, &selection, NOW, &stop, &mut |_| {})
}

/// Something to publish, and the expected result of fetching it.
pub(crate) struct Source {
    pub(crate) original: Original,
    pub(crate) tree: Tree,
}

impl Source {
    pub(crate) fn new(tree: Tree) -> Self {
        let medium = FaultMedium::new();
        plant(&medium, Path::new(HERE), &tree);
        let (published, prefix) = share(&open(&medium, false)).expect("a healthy disk");
        let manifest = published.manifest.clone();
        let mut serving = published.serve(Arc::new(medium));
        let mut objects = HashMap::new();
        let files = (0..).map(ObjectId::File);
        for id in [ObjectId::Root].into_iter().chain(files) {
            let Some(geometry) = serving.geometry(id) else { break };
            let mut content = vec![0; geometry.size() as usize];
            for (i, piece) in content.chunks_mut(8192).enumerate() {
                serving.read_content(id, i as u64 * 8192, piece).expect("a healthy disk");
            }
            objects.insert(id, Truth::new(content));
        }
        if let Some(sums) = &manifest.sums {
            let mut content = vec![0; sums.size as usize];
            for (i, piece) in content.chunks_mut(4096).enumerate() {
                let read = serving.read_content(ObjectId::Sums, i as u64 * 4096, piece);
                read.expect("a healthy disk");
            }
            objects.insert(ObjectId::Sums, Truth::new(content));
        }
        let key = Rc::new(PublisherKey::from_bytes(&[7; 32]));
        let original = Original { prefix, key, manifest, objects: Rc::new(objects) };
        Self { original, tree }
    }
}

/// Makes a file of up to a dozen segments, or many more at times; sizes at the edges of segments are frequent.
pub(crate) fn file(rng: &mut Rng) -> Tree {
    let size = match rng.below(8) {
        0 => [0, 1, 8_191, 8_192, 8_193, 16_384][rng.index(6)],
        1..4 => 1 + rng.below(30_000),
        4..7 => 1 + rng.below(100_000),
        _ => 1 + rng.below(400_000),
    };
    Tree::from([(PathBuf::new(), Entry::File(rng.bytes(size as usize)))])
}

/// Makes a few files, mostly small ones, some in folders, and sometimes a link.
pub(crate) fn folder(rng: &mut Rng) -> Tree {
    let mut tree = Tree::from([(PathBuf::new(), Entry::Folder)]);
    for name in ["a", "b", "deep", "deep/c", "deep/d", "e", "f"] {
        let entry = match name {
            "deep" => Entry::Folder,
            "f" if rng.chance(0.5) => Entry::Link("a".into()),
            _ if rng.chance(0.25) => continue,
            _ => {
                let size = match rng.below(8) {
                    0 => 0,
                    1..6 => rng.below(12_000),
                    6 => rng.below(60_000),
                    // Larger than the files that are held in memory until they are complete.
                    _ => 65_000 + rng.below(60_000),
                };
                Entry::File(rng.bytes(size as usize))
            }
        };
        tree.insert(name.into(), entry);
    }
    tree
}

/// Makes an older version of `tree`: some files unchanged, some changed in a few places, some missing, and one that was
/// never published.
pub(crate) fn older(tree: &Tree, rng: &mut Rng) -> Tree {
    let mut old = Tree::new();
    for (path, entry) in tree {
        let is_all = path.as_os_str().is_empty();
        let entry = match entry {
            Entry::File(bytes) => {
                let mut bytes = bytes.clone();
                match rng.below(4) {
                    0 if !is_all => continue,
                    1 if !is_all => {}
                    2 => bytes.insert(rng.index(bytes.len() + 1), 7),
                    _ => {
                        for _ in 0..1 + rng.below(3) {
                            bytes.push(9);
                            let at = rng.index(bytes.len());
                            bytes[at] ^= 0x55;
                        }
                    }
                }
                Entry::File(bytes)
            }
            Entry::Link(_) => continue,
            Entry::Folder => Entry::Folder,
        };
        old.insert(path.clone(), entry);
    }
    if tree[Path::new("")] == Entry::Folder {
        old.insert("mine".into(), Entry::File(rng.bytes(50)));
    }
    old
}
