//! [`Index`]: every path of a member's folder with its version; removed paths are listed as well.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::BTreeMap;

use xylem_hash::{Hash, Hasher};
use xylem_object::listing;

use super::attributes::{ExtendedAttributes, MAX_ATTRIBUTES};
use super::vector::{Dot, MemberId, Vector};

/// First bytes of an index.
const MAGIC: &[u8] = b"xylem sync index 3\n";
/// First bytes of indexes that earlier builds wrote.
const OLD_MAGICS: [&[u8]; 2] = [b"xylem sync index 1\n", b"xylem sync index 2\n"];
/// Most bytes of an index; a larger one is not read.
pub const MAX_INDEX: u64 = 256 << 20;
/// Most paths of an index.
pub(super) const MAX_ITEMS: usize = 4_000_000;
/// Most members that an index names, and most changes in the version of one path.
pub(super) const MAX_MEMBERS: usize = 4096;
/// Most bytes of a member's name.
pub(super) const MAX_NAME: usize = 64;
/// Bytes of the hash at the end.
const HASH_LEN: usize = 32;
/// Permission bits that are exchanged.
const MODES: u32 = 0o777;

const GONE: u8 = 0;
const FILE: u8 = 1;
const DIRECTORY: u8 = 2;
const SYMLINK: u8 = 3;
/// Flag beside the kind: the path is known, but not part of the folder here.
const ABSENT: u8 = 0x80;
/// Flag beside the kind: permissions and time come from another change than the content.
const HAS_DESCRIBED: u8 = 0x40;
/// Flag beside the kind: extended attributes are known.
const HAS_ATTRIBUTES: u8 = 0x20;
/// Flag beside that: the disk here does not have these attributes.
const UNAPPLIED: u8 = 0x10;
/// Nanoseconds of a second.
const SECOND_NS: u32 = 1_000_000_000;
/// Resolutions of file times in nanoseconds, on file systems coarser than one nanosecond.
const COARSE_NS: [u32; 5] = [100, 1_000, 1_000_000, 10_000_000, SECOND_NS];

/// Kind and content of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// Nothing: the path was removed (a tombstone).
    Gone,
    /// A file.
    File {
        /// Root hash of its content.
        root: Hash,
        /// Its size in bytes.
        size: u64,
        /// Permissions.
        mode: u32,
        /// Modification time: seconds and nanoseconds since 1970.
        mtime: (i64, u32),
    },
    /// A directory.
    Directory {
        /// Permissions, for a member that creates it.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Its target, as it is written.
        target: Vec<u8>,
    },
}

impl ItemKind {
    /// Returns whether the content is the same; permissions and times do not count.
    pub fn has_content_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { root, .. }, Self::File { root: other, .. }) => root == other,
            (Self::Directory { .. }, Self::Directory { .. }) => true,
            _ => self == other,
        }
    }

    /// Returns whether a disk that was given this may show it as `found`: some disks keep times less exactly.
    pub(super) fn may_appear_as(&self, found: &Self) -> bool {
        match (self, found) {
            (
                Self::File { root, size, mode, mtime },
                Self::File { root: r, size: s, mode: m, mtime: t },
            ) => (root, size, mode) == (r, s, m) && is_time(*mtime, *t),
            _ => self == found,
        }
    }

    /// Takes the permissions and the time of another item, as far as that has them.
    #[must_use]
    pub(super) fn with_description_of(mut self, other: &Self) -> Self {
        match (&mut self, other) {
            (Self::File { mode, mtime, .. }, Self::File { mode: m, mtime: t, .. }) => {
                (*mode, *mtime) = (*m, *t);
            }
            (Self::Directory { mode }, Self::Directory { mode: m }) => *mode = *m,
            _ => {}
        }
        self
    }

    /// Takes the permissions of another item of the same kind.
    #[must_use]
    pub(super) fn with_mode_of(mut self, other: &Self) -> Self {
        match (&mut self, other) {
            (Self::File { mode, .. }, Self::File { mode: other, .. })
            | (Self::Directory { mode }, Self::Directory { mode: other }) => *mode = *other,
            _ => {}
        }
        self
    }

    /// Returns permissions and time, of a kind that has them.
    pub(super) fn description(&self) -> Option<(u32, (i64, u32))> {
        match self {
            Self::File { mode, mtime, .. } => Some((*mode, *mtime)),
            Self::Directory { mode } => Some((*mode, (0, 0))),
            Self::Gone | Self::Symlink { .. } => None,
        }
    }

    /// Returns whether the path was removed.
    pub fn is_gone(&self) -> bool {
        *self == Self::Gone
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    /// Returns the root hash, of a file.
    pub(super) fn root(&self) -> Option<Hash> {
        match self {
            Self::File { root, .. } => Some(*root),
            _ => None,
        }
    }
}

/// Returns whether a disk that was given `time` may show it as `shown`: to the nanosecond, or rounded down; FAT rounds
/// to two seconds.
pub(super) fn is_time(time: (i64, u32), shown: (i64, u32)) -> bool {
    let (secs, nanos) = time;
    let even = shown.1 == 0 && shown.0.checked_add(secs & 1) == Some(secs);
    let coarse = COARSE_NS.iter().any(|step| {
        let rest = nanos.checked_rem(*step).unwrap_or(0);
        shown == (secs, nanos.saturating_sub(rest))
    });
    time == shown || even || coarse
}

/// Version of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexItem {
    /// Kind and content.
    pub kind: ItemKind,
    /// The changes that this version has seen.
    pub version: Vector,
    /// The change that brought the content, or removed it.
    pub content: Dot,
    /// When that change was made, in milliseconds since 1970, as far as its member can know. It decides which of two
    /// versions is the later one. Joining versions does not change it.
    pub edited_ms: u64,
    /// The change that brought the permissions, the time and the extended attributes.
    pub described: Dot,
    /// Extended attributes of a file or directory; `None`: no member has recorded any.
    pub attributes: Option<ExtendedAttributes>,
    /// The disk here may have other attributes than these: this member does not exchange them, or could not set them.
    pub unapplied: bool,
    /// The path is known but not part of the folder here: the rules leave it out, or it cannot be read.
    pub absent: bool,
}

impl IndexItem {
    /// A path of which nothing is known.
    pub(super) fn none() -> Self {
        let (version, content, described) = (Vector::default(), Dot::default(), Dot::default());
        Self {
            kind: ItemKind::Gone,
            version,
            content,
            edited_ms: 0,
            described,
            attributes: None,
            unapplied: false,
            absent: false,
        }
    }

    /// Records that `me` changed the path to `kind`, noticed at `now_ms`. `edited_ms` is the time of the content, if
    /// that is new. Extended attributes stay as far as the path remains a file, or a directory.
    pub(super) fn changed(&mut self, kind: ItemKind, me: MemberId, edited_ms: u64, now_ms: u64) {
        let attributes = self.attributes.clone().filter(|_| self.is_alike(&kind));
        self.changed_to(kind, attributes, me, edited_ms, now_ms);
    }

    /// Records a change as [`IndexItem::changed`] does, to these extended attributes.
    pub(super) fn changed_to(
        &mut self,
        kind: ItemKind,
        attributes: Option<ExtendedAttributes>,
        me: MemberId,
        edited_ms: u64,
        now_ms: u64,
    ) {
        let dot = self.version.record_change(me, now_ms);
        let mode = |kind: &ItemKind| kind.description().map(|(mode, _)| mode);
        if self.kind.has_content_of(&kind) {
            self.described = dot;
        } else {
            (self.content, self.edited_ms) = (dot, edited_ms.min(now_ms));
            let is_same = mode(&self.kind) == mode(&kind) && self.attributes == attributes;
            if !self.is_alike(&kind) || !is_same {
                self.described = dot;
            }
        }
        self.unapplied &= attributes.is_some();
        (self.kind, self.attributes, self.absent) = (kind, attributes, false);
    }

    /// Records at `now_ms` that `me` changed only the extended attributes.
    pub(super) fn attributes_changed(
        &mut self,
        attributes: ExtendedAttributes,
        me: MemberId,
        now_ms: u64,
    ) {
        self.described = self.version.record_change(me, now_ms);
        (self.attributes, self.unapplied) = (Some(attributes), false);
    }

    /// Returns whether both are files, both directories, or the like.
    pub(super) fn is_alike(&self, kind: &ItemKind) -> bool {
        std::mem::discriminant(&self.kind) == std::mem::discriminant(kind)
    }

    /// Records at `now_ms` that `me` treats the item as made anew.
    pub(super) fn record_as_new(&mut self, me: MemberId, now_ms: u64) {
        let dot = self.version.record_change(me, now_ms);
        (self.content, self.described, self.edited_ms) = (dot, dot, now_ms);
    }

    /// Returns the latest of its times, in milliseconds since 1970.
    pub fn newest(&self) -> u64 {
        self.version.newest().max(self.edited_ms)
    }
}

/// The paths of a folder with their versions, and the names of members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Items by path, `/` between components.
    pub items: BTreeMap<Vec<u8>, IndexItem>,
    /// Display names of members.
    pub names: Names,
}

/// Display names of members.
pub type Names = BTreeMap<MemberId, String>;

/// Why bytes are not an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// They are cut off, or do not follow the layout.
    #[error("it is not an index, or is damaged")]
    Malformed,
    /// An earlier build wrote it.
    #[error("an older version of xylem wrote it; all members of a group need the same version")]
    Old,
    /// A path that a folder may not have, or not at this place.
    #[error("it has a path that is not allowed: {0}")]
    Path(listing::PathError),
    /// Extended attributes that are not allowed, or too many.
    #[error("it has extended attributes that are not allowed")]
    Attributes,
    /// A name that is not allowed, or too many names.
    #[error("it has a member's name that is not allowed")]
    Name,
    /// More of something than an index may have.
    #[error("it has more paths, bytes, or changes of a path than an index may have")]
    TooLarge,
}

impl IndexError {
    pub(super) fn not_sorted() -> Self {
        Self::Path(listing::PathError::NotSorted)
    }
}

/// Returns the display name of a member; its identifier, if no name is known.
pub(super) fn name(names: &Names, member: &MemberId) -> String {
    let hex = || member.iter().map(|byte| format!("{byte:02x}")).collect();
    names.get(member).cloned().unwrap_or_else(hex)
}

/// Incremental hash of a folder's paths and versions.
#[derive(Default)]
pub(super) struct StateHasher {
    hasher: Hasher,
    bytes: Vec<u8>,
}

impl StateHasher {
    /// Adds the next path in order.
    pub(super) fn add(&mut self, path: &[u8], item: &IndexItem) {
        if item.absent {
            return;
        }
        self.bytes.clear();
        // Whether attributes are on the disk here concerns no other member.
        write_entry_as(&mut self.bytes, path, item, false);
        self.hasher.update(&self.bytes);
    }

    pub(super) fn finish(self) -> Hash {
        self.hasher.finalize()
    }
}

impl Index {
    /// Returns a hash of the folder's paths and versions: members that are in step have the same.
    pub fn state(&self) -> Hash {
        let mut state = StateHasher::default();
        self.items.iter().for_each(|(path, item)| state.add(path, item));
        state.finish()
    }

    /// Encodes the index, with `about` (a ticket) in front.
    ///
    /// # Errors
    /// [`Index::decode`] would refuse it.
    pub fn encode(&self, about: &[u8]) -> Result<Vec<u8>, IndexError> {
        let mut out = Vec::new();
        put_head(&mut out, about, &self.names)?;
        for (path, item) in &self.items {
            put_entry(&mut out, path, item)?;
        }
        let paths = self.items.len();
        if paths > MAX_ITEMS || size_of_all(out.len() as u64) > MAX_INDEX {
            return Err(IndexError::TooLarge);
        }
        out.extend_from_slice(&END);
        let hash = xylem_hash::hash(&out);
        out.extend_from_slice(hash.as_bytes());
        Ok(out)
    }

    /// Decodes an index, and what stands in front of it.
    ///
    /// # Errors
    /// See [`IndexError`].
    pub fn decode(bytes: &[u8]) -> Result<(Self, Vec<u8>), IndexError> {
        if bytes.len() as u64 > MAX_INDEX {
            return Err(IndexError::TooLarge);
        }
        let mut input = IndexParser(bytes);
        let (about, names) = input.head()?;
        let mut index = Self { items: BTreeMap::new(), names };
        loop {
            match input.entry()? {
                IndexEntry::Path(path, item) => {
                    if index.items.last_key_value().is_some_and(|(last, _)| *last >= path) {
                        return Err(IndexError::not_sorted());
                    }
                    if index.items.len() >= MAX_ITEMS {
                        return Err(IndexError::TooLarge);
                    }
                    index.items.insert(path, item);
                }
                IndexEntry::End(said) => {
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

/// Next element of an index.
pub(super) enum IndexEntry {
    Path(Vec<u8>, IndexItem),
    /// The end: the hash of all bytes before it.
    End([u8; HASH_LEN]),
}

/// Bytes before the hash at the end.
pub(super) const END: [u8; 2] = [0, 0];

/// Returns the bytes of a whole index that has `before_end` bytes before its end.
pub(super) fn size_of_all(before_end: u64) -> u64 {
    before_end.saturating_add(END.len().saturating_add(HASH_LEN) as u64)
}

/// Writes the head of an index.
///
/// # Errors
/// A reader would refuse it.
pub(super) fn put_head(out: &mut Vec<u8>, about: &[u8], names: &Names) -> Result<(), IndexError> {
    check_names(names)?;
    if about.len() > usize::from(u16::MAX) {
        return Err(IndexError::TooLarge);
    }
    write_head(out, about, names);
    Ok(())
}

/// Writes the entry of one path.
///
/// # Errors
/// A reader would refuse it.
pub(super) fn put_entry(
    out: &mut Vec<u8>,
    path: &[u8],
    item: &IndexItem,
) -> Result<(), IndexError> {
    check(path, item)?;
    write_entry(out, path, item);
    Ok(())
}

fn write_head(out: &mut Vec<u8>, about: &[u8], names: &Names) {
    out.extend_from_slice(MAGIC);
    put_bytes(out, about);
    put_count(out, names.len());
    for (member, name) in names {
        out.extend_from_slice(member);
        put_bytes(out, name.as_bytes());
    }
}

fn write_entry(out: &mut Vec<u8>, path: &[u8], item: &IndexItem) {
    write_entry_as(out, path, item, item.unapplied);
}

fn write_entry_as(out: &mut Vec<u8>, path: &[u8], item: &IndexItem, unapplied: bool) {
    put_bytes(out, path);
    let described = (item.described != item.content).then_some(item.described);
    let flags = [
        (item.absent, ABSENT),
        (described.is_some(), HAS_DESCRIBED),
        (item.attributes.is_some(), HAS_ATTRIBUTES),
        (unapplied, UNAPPLIED),
    ];
    let mark = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |mark, (_, flag)| mark | flag);
    put_kind(out, &item.kind, mark);
    put_dot(out, item.content);
    out.extend_from_slice(&item.edited_ms.to_be_bytes());
    described.into_iter().for_each(|dot| put_dot(out, dot));
    if let Some(attributes) = &item.attributes {
        put_count(out, attributes.all().len());
        for (name, value) in attributes.all() {
            put_bytes(out, name);
            put_bytes(out, value);
        }
    }
    let entries = item.version.entries();
    put_count(out, entries.len());
    for (member, number) in entries {
        out.extend_from_slice(member);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Checks that an index may have these names.
fn check_names(names: &Names) -> Result<(), IndexError> {
    let all = names.len() <= MAX_MEMBERS && names.values().all(|name| is_name(name));
    if all { Ok(()) } else { Err(IndexError::Name) }
}

/// Checks that an index may have this item at this path.
pub(super) fn check(path: &[u8], item: &IndexItem) -> Result<(), IndexError> {
    listing::check_path(path).map_err(IndexError::Path)?;
    match &item.kind {
        ItemKind::Symlink { target } => {
            listing::check_target(target).map_err(IndexError::Path)?;
        }
        kind => {
            let (mode, mtime) = kind.description().unwrap_or_default();
            if mode > MODES || mtime.1 >= SECOND_NS {
                return Err(IndexError::Malformed);
            }
        }
    }
    let may_have_attributes = item.kind.description().is_some() || item.attributes.is_none();
    if !may_have_attributes || (item.unapplied && item.attributes.is_none()) {
        return Err(IndexError::Malformed);
    }
    if item.version.entries().len() > MAX_MEMBERS {
        return Err(IndexError::TooLarge);
    }
    // No version has a change that its vector has not seen.
    let seen = [item.content, item.described].into_iter().all(|dot| item.version.has_seen(dot));
    if seen { Ok(()) } else { Err(IndexError::Malformed) }
}

/// Returns the bytes of a path's entry.
pub(super) fn entry_size(path: &[u8], item: &IndexItem) -> u64 {
    let mut out = Vec::new();
    write_entry(&mut out, path, item);
    out.len() as u64
}

fn put_dot(out: &mut Vec<u8>, dot: Dot) {
    out.extend_from_slice(&dot.by);
    out.extend_from_slice(&dot.number.to_be_bytes());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    // The check before allows far fewer.
    out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}

/// Returns whether a member may have this name: file names are made of it.
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

/// The part of an index that is still to be read.
pub(super) struct IndexParser<'a>(pub(super) &'a [u8]);

impl<'a> IndexParser<'a> {
    /// Reads what stands before the first path.
    pub(super) fn head(&mut self) -> Result<(Vec<u8>, Names), IndexError> {
        if OLD_MAGICS.iter().any(|old| self.0.starts_with(old)) {
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
            // Members ascend: each set of names has one encoding.
            if names.last_key_value().is_some_and(|(last, _)| *last >= member) {
                return Err(IndexError::Name);
            }
            names.insert(member, name.to_owned());
        }
        check_names(&names)?;
        Ok((about, names))
    }

    /// Reads the next path, or the end.
    pub(super) fn entry(&mut self) -> Result<IndexEntry, IndexError> {
        let path = self.bytes()?;
        if path.is_empty() {
            return Ok(IndexEntry::End(self.array()?));
        }
        listing::check_path(path).map_err(IndexError::Path)?;
        let item = self.item()?;
        check(path, &item)?;
        Ok(IndexEntry::Path(path.to_vec(), item))
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

    fn dot(&mut self) -> Result<Dot, IndexError> {
        let by = self.array()?;
        Ok(Dot { by, number: self.u64()? })
    }

    fn item(&mut self) -> Result<IndexItem, IndexError> {
        let [mark] = self.array()?;
        let has = |flag| mark & flag != 0;
        let kind = match mark & !(ABSENT | HAS_DESCRIBED | HAS_ATTRIBUTES | UNAPPLIED) {
            GONE => ItemKind::Gone,
            FILE => {
                let root = Hash::from_bytes(self.array()?);
                let (size, mode) = (self.u64()?, self.u32()?);
                let mtime = (i64::from_be_bytes(self.array()?), self.u32()?);
                ItemKind::File { root, size, mode, mtime }
            }
            DIRECTORY => ItemKind::Directory { mode: self.u32()? },
            SYMLINK => ItemKind::Symlink { target: self.bytes()?.to_vec() },
            _ => return Err(IndexError::Malformed),
        };
        let (content, edited_ms) = (self.dot()?, self.u64()?);
        let described = if has(HAS_DESCRIBED) { self.dot()? } else { content };
        // Each item has one encoding.
        if has(HAS_DESCRIBED) && described == content {
            return Err(IndexError::Malformed);
        }
        let attributes = has(HAS_ATTRIBUTES).then(|| self.attributes()).transpose()?;
        let count = usize::from(self.u16()?);
        if count > MAX_MEMBERS {
            return Err(IndexError::TooLarge);
        }
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push((self.array()?, self.u64()?));
        }
        let version = Vector::of(entries).ok_or(IndexError::Malformed)?;
        let (absent, unapplied) = (has(ABSENT), has(UNAPPLIED));
        Ok(IndexItem {
            kind,
            version,
            content,
            edited_ms,
            described,
            attributes,
            unapplied,
            absent,
        })
    }

    /// Reads extended attributes: their names ascend.
    fn attributes(&mut self) -> Result<ExtendedAttributes, IndexError> {
        let count = usize::from(self.u16()?);
        if count > MAX_ATTRIBUTES {
            return Err(IndexError::Attributes);
        }
        let mut all = BTreeMap::new();
        for _ in 0..count {
            let (name, value) = (self.bytes()?, self.bytes()?);
            let is_after =
                all.last_key_value().is_none_or(|(last, _): (&Vec<u8>, _)| **last < *name);
            if !is_after || name.len().saturating_add(value.len()) > MAX_ATTRIBUTES {
                return Err(IndexError::Attributes);
            }
            all.insert(name.to_vec(), value.to_vec());
        }
        ExtendedAttributes::new(all).map_err(|_| IndexError::Attributes)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn attributes(all: &[(&str, &str)]) -> ExtendedAttributes {
        let all = all.iter().map(|(name, value)| (Vec::from(*name), Vec::from(*value)));
        ExtendedAttributes::new(all.collect()).unwrap()
    }

    pub(crate) fn an_index() -> Index {
        let mut index = Index::default();
        let kinds = [
            ItemKind::Gone,
            ItemKind::File { root: xylem_hash::hash(b"x"), size: 1, mode: 0o644, mtime: (-5, 9) },
            ItemKind::Directory { mode: 0o755 },
            ItemKind::Symlink { target: b"a".to_vec() },
        ];
        for (kind, path) in kinds.into_iter().zip(["a", "b", "c", "c/d"]) {
            let mut item = IndexItem::none();
            item.changed(kind, [1; 8], 6, 7);
            item.absent = path == "b";
            if path == "c" {
                item.changed(ItemKind::Directory { mode: 0o700 }, [2; 8], 8, 8);
                item.attributes_changed(attributes(&[("user.a", "1"), ("user.b", "")]), [2; 8], 9);
            }
            index.items.insert(path.into(), item);
        }
        index.names.insert([1; 8], "alice".to_owned());
        index
    }

    /// Encodes an index without checks.
    fn raw(index: &Index) -> Vec<u8> {
        let mut out = Vec::new();
        write_head(&mut out, b"", &index.names);
        index.items.iter().for_each(|(path, item)| write_entry(&mut out, path, item));
        out.extend_from_slice(&END);
        let hash = xylem_hash::hash(&out);
        out.extend_from_slice(hash.as_bytes());
        out
    }

    /// Returns why the index is refused. Writer and reader refuse it for the same reason.
    fn refused(index: &Index) -> IndexError {
        let why = Index::decode(&raw(index)).unwrap_err();
        assert_eq!(index.encode(b""), Err(why));
        why
    }

    #[test]
    fn an_index_survives_encoding() {
        let index = an_index();
        let bytes = index.encode(b"ticket").unwrap();
        assert_eq!(Index::decode(&bytes), Ok((index.clone(), b"ticket".to_vec())));
        for len in 0..bytes.len() {
            assert_eq!(Index::decode(&bytes[..len]), Err(IndexError::Malformed), "{len}");
        }
        // An absent path is not part of the folder's state.
        let mut here = index.clone();
        here.items.remove(b"b".as_slice());
        assert_eq!(here.state(), index.state());
        // Whether attributes are in place here is nothing that others have to agree on.
        let mut other = index.clone();
        other.items.get_mut(b"c".as_slice()).unwrap().unapplied = true;
        assert_eq!(other.state(), index.state());
        assert_ne!(other.encode(b"").unwrap(), index.encode(b"").unwrap());
        other.items.get_mut(b"c".as_slice()).unwrap().attributes = None;
        assert_eq!(refused(&other), IndexError::Malformed);
        other.items.get_mut(b"c".as_slice()).unwrap().unapplied = false;
        assert_ne!(other.state(), index.state());
        for old in OLD_MAGICS {
            let old = [old, &bytes[MAGIC.len()..]].concat();
            assert_eq!(Index::decode(&old), Err(IndexError::Old));
        }
    }

    /// An entry without attributes has the same bytes as in earlier builds of this format.
    #[test]
    fn an_entry_without_attributes_has_the_bytes_that_it_had_before() {
        let mut item = IndexItem::none();
        item.changed(ItemKind::Directory { mode: 0o755 }, [1; 8], 6, 7);
        let mut out = Vec::new();
        write_entry(&mut out, b"c", &item);
        let seven = [0, 0, 0, 0, 0, 0, 0, 7];
        let dot = [&[1; 8][..], &seven].concat();
        let edited = [0, 0, 0, 0, 0, 0, 0, 6];
        let expected =
            [&[0, 1, b'c', 2, 0, 0, 1, 0o355][..], &dot, &edited, &[0, 1], &dot].concat();
        assert_eq!(out, expected);
    }

    /// Attributes of other members are refused unless their names are of users, ascend, and all have a bounded size.
    #[test]
    fn attributes_that_no_member_may_send_are_refused() {
        let mut item = IndexItem::none();
        item.changed(ItemKind::Directory { mode: 0o755 }, [1; 8], 6, 7);
        item.attributes_changed(attributes(&[("user.a", "1")]), [1; 8], 8);
        let index = |item: &IndexItem| Index {
            items: [(b"c".to_vec(), item.clone())].into_iter().collect(),
            ..Index::default()
        };
        let whole = raw(&index(&item));
        let one = [&[0, 1, 0, 6][..], b"user.a", &[0, 1], b"1"].concat();
        let at = whole.windows(one.len()).position(|window| window == one).unwrap();
        let with = |encoded: &[u8]| {
            let rest = &whole[at + one.len()..whole.len() - HASH_LEN];
            let mut bytes = [&whole[..at], encoded, rest].concat();
            bytes.extend_from_slice(xylem_hash::hash(&bytes).as_bytes());
            Index::decode(&bytes).map(|(index, _)| index)
        };
        let set = |all: &[(&[u8], &[u8])]| {
            let mut out = Vec::new();
            put_count(&mut out, all.len());
            for (name, value) in all {
                put_bytes(&mut out, name);
                put_bytes(&mut out, value);
            }
            out
        };
        assert_eq!(with(&one), Ok(index(&item)));
        assert!(with(&set(&[(b"user.a", b""), (b"user.b", b"")])).is_ok());
        let large = [b'x'; MAX_ATTRIBUTES];
        for wrong in [
            set(&[(b"security.capability", b"1")]),
            set(&[(b"user.", b"1")]),
            set(&[(b"user.a\0b", b"1")]),
            set(&[(b"user.b", b""), (b"user.a", b"")]),
            set(&[(b"user.a", b""), (b"user.a", b"1")]),
            set(&[(b"user.a", &large)]),
            set(&[(b"user.a", &large[..2048]), (b"user.b", &large[..2048])]),
            vec![0xff, 0xff],
        ] {
            assert_eq!(with(&wrong), Err(IndexError::Attributes), "{wrong:?}");
        }
        // Nothing but files and directories has attributes.
        item.kind = ItemKind::Gone;
        assert_eq!(refused(&index(&item)), IndexError::Malformed);
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for path in ["../x", "/etc/passwd", "a/../../x", "a//b", "."] {
            let mut index = an_index();
            let item = index.items[b"a".as_slice()].clone();
            index.items.insert(path.into(), item);
            let why = refused(&index);
            assert!(matches!(why, IndexError::Path(_)), "{path}: {why:?}");
        }
        for name in ["", "a/b", "..", "a b", "\u{202e}x"] {
            let mut index = an_index();
            index.names.insert([2; 8], name.to_owned());
            assert_eq!(refused(&index), IndexError::Name, "{name}");
        }
    }

    #[test]
    fn an_index_that_readers_refuse_is_not_encoded() {
        let with = |change: &dyn Fn(&mut IndexItem)| {
            let mut index = an_index();
            index.items.values_mut().for_each(change);
            refused(&index)
        };
        let file = |mode, nanos| {
            let root = xylem_hash::hash(b"x");
            ItemKind::File { root, size: 1, mode, mtime: (0, nanos) }
        };
        assert_eq!(with(&|item| item.kind = file(0o1777, 0)), IndexError::Malformed);
        assert_eq!(with(&|item| item.kind = file(0o777, 1_000_000_000)), IndexError::Malformed);
        assert_eq!(with(&|item| item.content.number = 9), IndexError::Malformed);
        assert_eq!(with(&|item| item.described.by = [3; 8]), IndexError::Malformed);
        let many = |count: u64| {
            let id = |n: u64| (n.to_be_bytes(), 1);
            let mut index = an_index();
            for item in index.items.values_mut() {
                (item.content, item.described) = (Dot::default(), Dot::default());
                item.version = Vector::of((0..count).map(id).collect()).unwrap();
            }
            index
        };
        let most = many(MAX_MEMBERS as u64);
        assert_eq!(Index::decode(&most.encode(b"").unwrap()).unwrap().0, most);
        assert_eq!(refused(&many(MAX_MEMBERS as u64 + 1)), IndexError::TooLarge);
        let mut names = an_index();
        names.names = (0..=MAX_MEMBERS as u64).map(|n| (n.to_be_bytes(), "x".into())).collect();
        assert_eq!(refused(&names), IndexError::Name);
        assert_eq!(an_index().encode(&[0; 70_000]), Err(IndexError::TooLarge));
    }

    /// A file system that keeps times to the second, to two seconds, or to 100 nanoseconds has changed nothing.
    #[test]
    fn a_coarser_time_of_a_disk_is_no_change() {
        for shown in [(1_001, 123_456_789), (1_001, 123_456_700), (1_001, 0), (1_000, 0)] {
            assert!(is_time((1_001, 123_456_789), shown), "{shown:?}");
        }
        for shown in [(1_001, 123_456_788), (1_002, 0), (999, 0), (1_000, 123_456_789)] {
            assert!(!is_time((1_001, 123_456_789), shown), "{shown:?}");
        }
        assert!(!is_time((1_000, 0), (1_000, 5)) && !is_time((i64::MIN, 0), (i64::MAX, 0)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut whole = [MAGIC, &bytes, &[0, 0]].concat();
            whole.extend_from_slice(xylem_hash::hash(&whole).as_bytes());
            if let Ok((index, about)) = Index::decode(&whole) {
                prop_assert_eq!(Index::decode(&index.encode(&about).unwrap()), Ok((index, about)));
            }
        }

        #[test]
        fn any_attributes_survive_encoding(
            all in proptest::collection::btree_map("[a-z.]{1,9}", proptest::collection::vec(any::<u8>(), 0..300), 0..12),
            unapplied in any::<bool>(),
        ) {
            let all = all.into_iter().map(|(name, value)| (format!("user.{name}").into_bytes(), value));
            let all = ExtendedAttributes::new(all.collect()).unwrap();
            let mut index = an_index();
            for path in ["b", "c"] {
                let item = index.items.get_mut(path.as_bytes()).unwrap();
                item.attributes = Some(all.clone());
                item.unapplied = unapplied;
            }
            let bytes = index.encode(b"").unwrap();
            prop_assert_eq!(Index::decode(&bytes), Ok((index.clone(), Vec::new())));
        }
    }
}
