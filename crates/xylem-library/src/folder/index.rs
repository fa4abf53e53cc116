//! [`Index`]: every path of a member's folder with the version that it has, and those that are gone.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::BTreeMap;

use xylem_hash::{Hash, Hasher};
use xylem_object::listing;

use super::vector::{MemberId, Vector};

/// What an index begins with.
const MAGIC: &[u8] = b"xylem sync index 2\n";
/// As earlier builds wrote it.
const OLD_MAGIC: &[u8] = b"xylem sync index 1\n";
/// Bytes of an index at most; a larger one is not looked at.
pub const MAX_INDEX: u64 = 256 << 20;
/// Paths of an index at most.
pub(super) const MAX_ITEMS: usize = 4_000_000;
/// Members that have ever changed something.
const MAX_MEMBERS: usize = 1024;
/// Bytes of a member's name.
pub(super) const MAX_NAME: usize = 64;

const GONE: u8 = 0;
const FILE: u8 = 1;
const DIRECTORY: u8 = 2;
const SYMLINK: u8 = 3;
/// Beside the kind: it is known of and not here.
const ABSENT: u8 = 0x80;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// Nothing any more.
    Gone,
    /// A file.
    File {
        /// Its content.
        root: Hash,
        /// Its bytes.
        size: u64,
        /// Permissions.
        mode: u32,
        /// When it was written: seconds and nanoseconds.
        mtime: (i64, u32),
    },
    /// A directory.
    Directory {
        /// Permissions, for whoever makes it.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points, as it is written.
        target: Vec<u8>,
    },
}

impl ItemKind {
    /// Whether nothing would change: times of files and permissions of directories do not count.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { root, mode, .. }, Self::File { root: r, mode: m, .. }) => {
                (root, mode) == (r, m)
            }
            (Self::Directory { .. }, Self::Directory { .. }) => true,
            _ => self == other,
        }
    }

    /// Whether there is nothing.
    pub fn is_gone(&self) -> bool {
        *self == Self::Gone
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }
}

/// One path's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: ItemKind,
    /// Which changes it has seen.
    pub version: Vector,
    /// Who made the last one.
    pub by: MemberId,
    /// Known of and not here: it is left out by our rules, or can't be read.
    pub absent: bool,
}

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// By path, `/` between components.
    pub items: BTreeMap<Vec<u8>, Item>,
    /// What members are called.
    pub names: Names,
}

/// What members are called.
pub type Names = BTreeMap<MemberId, String>;

/// Bytes that are no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// They end, or go on, where they should not.
    #[error("it is not an index, or a part of one, or was damaged")]
    Malformed,
    /// An earlier build wrote it.
    #[error("an earlier build of xylem wrote it; all members of a group need this one")]
    Old,
    /// A path that a folder may not have, or not there.
    #[error("it has a path that is not allowed: {0}")]
    Path(listing::PathError),
    /// A name that is none, or too many of them.
    #[error("it has a member's name that is not allowed")]
    Name,
}

impl IndexError {
    pub(super) fn not_sorted() -> Self {
        Self::Path(listing::PathError::NotSorted)
    }
}

/// What a member is called; its identifier where that is not known.
pub(super) fn name(names: &Names, member: &MemberId) -> String {
    let hex = || member.iter().map(|byte| format!("{byte:02x}")).collect();
    names.get(member).cloned().unwrap_or_else(hex)
}

/// A hash of what a folder holds in which versions.
#[derive(Default)]
pub(super) struct State {
    hasher: Hasher,
    bytes: Vec<u8>,
}

impl State {
    /// The next path in order. Times of files and permissions of directories do not count.
    pub(super) fn add(&mut self, path: &[u8], item: &Item) {
        if item.absent {
            return;
        }
        let bytes = &mut self.bytes;
        bytes.clear();
        put_bytes(bytes, path);
        match &item.kind {
            ItemKind::File { root, size, mode, .. } => {
                let kind = ItemKind::File { root: *root, size: *size, mode: *mode, mtime: (0, 0) };
                put_kind(bytes, &kind, 0);
            }
            ItemKind::Directory { .. } => put_kind(bytes, &ItemKind::Directory { mode: 0 }, 0),
            kind => put_kind(bytes, kind, 0),
        }
        for (member, number) in item.version.entries() {
            bytes.extend_from_slice(member);
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        self.hasher.update(bytes);
    }

    pub(super) fn finish(self) -> Hash {
        self.hasher.finalize()
    }
}

impl Index {
    /// A hash of what the folder holds in which versions: members that are in step have the same.
    pub fn state(&self) -> Hash {
        let mut state = State::default();
        self.items.iter().for_each(|(path, item)| state.add(path, item));
        state.finish()
    }

    /// As bytes, with `about` (a ticket) in front.
    pub fn encode(&self, about: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_head(&mut out, about, &self.names);
        self.items.iter().for_each(|(path, item)| put_entry(&mut out, path, item));
        out.extend_from_slice(&[0, 0]);
        let hash = xylem_hash::hash(&out);
        out.extend_from_slice(hash.as_bytes());
        out
    }

    /// Reads one, and what stands in front of it.
    ///
    /// # Errors
    /// See [`IndexError`].
    pub fn decode(bytes: &[u8]) -> Result<(Self, Vec<u8>), IndexError> {
        let mut input = Input(bytes);
        let (about, names) = input.head()?;
        let mut index = Self { items: BTreeMap::new(), names };
        loop {
            match input.entry()? {
                Entry::Path(path, item) => {
                    if index.items.last_key_value().is_some_and(|(last, _)| *last >= path) {
                        return Err(IndexError::not_sorted());
                    }
                    if index.items.len() >= MAX_ITEMS {
                        return Err(IndexError::Malformed);
                    }
                    index.items.insert(path, item);
                }
                Entry::End(said) => {
                    let hashed = bytes.len().saturating_sub(said.len());
                    let hash = xylem_hash::hash(bytes.get(..hashed).unwrap_or_default());
                    return match input.0.is_empty() && *hash.as_bytes() == said {
                        true => Ok((index, about)),
                        false => Err(IndexError::Malformed),
                    };
                }
            }
        }
    }
}

/// What comes next in an index.
pub(super) enum Entry {
    Path(Vec<u8>, Item),
    /// Nothing more but the hash of all that came before it.
    End([u8; 32]),
}

pub(super) fn put_head(out: &mut Vec<u8>, about: &[u8], names: &Names) {
    out.extend_from_slice(MAGIC);
    put_bytes(out, about);
    let names: Vec<_> = names.iter().take(MAX_MEMBERS).collect();
    out.extend_from_slice(&u16::try_from(names.len()).unwrap_or(u16::MAX).to_be_bytes());
    for (member, name) in names {
        out.extend_from_slice(member);
        put_bytes(out, name.as_bytes());
    }
}

pub(super) fn put_entry(out: &mut Vec<u8>, path: &[u8], item: &Item) {
    put_bytes(out, path);
    put_kind(out, &item.kind, if item.absent { ABSENT } else { 0 });
    out.extend_from_slice(&item.by);
    let entries = item.version.entries();
    out.extend_from_slice(&u16::try_from(entries.len()).unwrap_or(u16::MAX).to_be_bytes());
    for (member, number) in entries {
        out.extend_from_slice(member);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Whether a member may be called so: file names are made of it.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '@');
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(plain)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Paths, targets and tickets are shorter by far.
    let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes.get(..usize::from(len)).unwrap_or_default());
}

fn put_kind(out: &mut Vec<u8>, kind: &ItemKind, mark: u8) {
    match kind {
        ItemKind::Gone => out.push(GONE | mark),
        ItemKind::File { root, size, mode, mtime } => {
            out.push(FILE | mark);
            out.extend_from_slice(root.as_bytes());
            out.extend_from_slice(&size.to_be_bytes());
            out.extend_from_slice(&mode.to_be_bytes());
            out.extend_from_slice(&mtime.0.to_be_bytes());
            out.extend_from_slice(&mtime.1.to_be_bytes());
        }
        ItemKind::Directory { mode } => {
            out.push(DIRECTORY | mark);
            out.extend_from_slice(&mode.to_be_bytes());
        }
        ItemKind::Symlink { target } => {
            out.push(SYMLINK | mark);
            put_bytes(out, target);
        }
    }
}

/// What of an index is still to be read.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    /// What stands before the first path.
    pub(super) fn head(&mut self) -> Result<(Vec<u8>, Names), IndexError> {
        if self.0.starts_with(OLD_MAGIC) {
            return Err(IndexError::Old);
        }
        if self.take(MAGIC.len())? != MAGIC {
            return Err(IndexError::Malformed);
        }
        let about = self.bytes()?.to_vec();
        let count = usize::from(self.u16()?);
        if count > MAX_MEMBERS {
            return Err(IndexError::Name);
        }
        let mut names = Names::new();
        for _ in 0..count {
            let member = self.array()?;
            let name = std::str::from_utf8(self.bytes()?).map_err(|_| IndexError::Name)?;
            if !is_name(name) {
                return Err(IndexError::Name);
            }
            names.insert(member, name.to_owned());
        }
        Ok((about, names))
    }

    /// The next path, or the end.
    pub(super) fn entry(&mut self) -> Result<Entry, IndexError> {
        let path = self.bytes()?;
        if path.is_empty() {
            return Ok(Entry::End(self.array()?));
        }
        listing::check_path(path).map_err(IndexError::Path)?;
        Ok(Entry::Path(path.to_vec(), self.item()?))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], IndexError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(IndexError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        self.take(N)?.try_into().map_err(|_| IndexError::Malformed)
    }

    fn u16(&mut self) -> Result<u16, IndexError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, IndexError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, IndexError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn bytes(&mut self) -> Result<&'a [u8], IndexError> {
        let len = usize::from(self.u16()?);
        self.take(len)
    }

    fn mode(&mut self) -> Result<u32, IndexError> {
        Some(self.u32()?).filter(|mode| *mode <= 0o777).ok_or(IndexError::Malformed)
    }

    fn item(&mut self) -> Result<Item, IndexError> {
        let [kind] = self.array()?;
        let absent = kind & ABSENT != 0;
        let kind = match kind & !ABSENT {
            GONE => ItemKind::Gone,
            FILE => {
                let root = Hash::from_bytes(self.array()?);
                let (size, mode) = (self.u64()?, self.mode()?);
                let mtime = (i64::from_be_bytes(self.array()?), self.u32()?);
                if mtime.1 >= 1_000_000_000 {
                    return Err(IndexError::Malformed);
                }
                ItemKind::File { root, size, mode, mtime }
            }
            DIRECTORY => ItemKind::Directory { mode: self.mode()? },
            SYMLINK => {
                let target = self.bytes()?;
                listing::check_target(target).map_err(IndexError::Path)?;
                ItemKind::Symlink { target: target.to_vec() }
            }
            _ => return Err(IndexError::Malformed),
        };
        let by = self.array()?;
        let count = usize::from(self.u16()?);
        if count > MAX_MEMBERS {
            return Err(IndexError::Malformed);
        }
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push((self.array()?, self.u64()?));
        }
        let version = Vector::of(entries).ok_or(IndexError::Malformed)?;
        Ok(Item { kind, version, by, absent })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in crate::folder) fn an_index() -> Index {
        let mut index = Index::default();
        let mut version = Vector::default();
        version.changed([1; 8], 7);
        let kinds = [
            ItemKind::Gone,
            ItemKind::File { root: xylem_hash::hash(b"x"), size: 1, mode: 0o644, mtime: (-5, 9) },
            ItemKind::Directory { mode: 0o755 },
            ItemKind::Symlink { target: b"a".to_vec() },
        ];
        for (kind, path) in kinds.into_iter().zip(["a", "b", "c", "c/d"]) {
            let item = Item { kind, version: version.clone(), by: [1; 8], absent: path == "b" };
            index.items.insert(path.into(), item);
        }
        index.names.insert([1; 8], "alice".to_owned());
        index
    }

    #[test]
    fn an_index_comes_back_as_it_was() {
        let index = an_index();
        let bytes = index.encode(b"ticket");
        assert_eq!(Index::decode(&bytes), Ok((index.clone(), b"ticket".to_vec())));
        for len in 0..bytes.len() {
            assert_eq!(Index::decode(&bytes[..len]), Err(IndexError::Malformed), "{len}");
        }
        // What is not here is not what the folder holds.
        let mut here = index.clone();
        here.items.remove(b"b".as_slice());
        assert_eq!(here.state(), index.state());
        let old = [OLD_MAGIC, &bytes[MAGIC.len()..]].concat();
        assert_eq!(Index::decode(&old), Err(IndexError::Old));
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for path in ["../x", "/etc/passwd", "a/../../x", "a//b", "."] {
            let mut index = an_index();
            let item = index.items[b"a".as_slice()].clone();
            index.items.insert(path.into(), item);
            let refused = Index::decode(&index.encode(b""));
            assert!(matches!(refused, Err(IndexError::Path(_))), "{path}: {refused:?}");
        }
        for name in ["", "a/b", "..", "a b", "\u{202e}x"] {
            let mut index = an_index();
            index.names.insert([2; 8], name.to_owned());
            assert_eq!(Index::decode(&index.encode(b"")), Err(IndexError::Name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut whole = [MAGIC, &bytes, &[0, 0]].concat();
            whole.extend_from_slice(xylem_hash::hash(&whole).as_bytes());
            if let Ok((index, about)) = Index::decode(&whole) {
                prop_assert_eq!(Index::decode(&index.encode(&about)), Ok((index, about)));
            }
        }
    }
}
