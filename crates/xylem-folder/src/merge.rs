//! [`merge`]: plans what to do in this folder so that it has everything of another member's folder.
//!
//! All members reach the same result, in any order of exchanges. If a member that had seen a content replaced or
//! removed it, the content goes, whatever the times. If two versions are concurrent, the later one keeps the name, and
//! the other becomes a conflict copy. The result does not depend on the order of earlier merges.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use xylem_files::copies::{LONG, SHORT, copy_name};
use xylem_hash::Hash;

use super::attributes::ExtendedAttributes;
use super::error::FolderError;
use super::index::{
    IndexItem, ItemKind, MAX_INDEX, MAX_ITEMS, MAX_MEMBERS, check, entry_size, name,
};
use super::stored::{IndexSize, IndexSource};
use super::vector::MemberId;

/// Most paths that come or are noted in one plan, if none goes: a member that joins a large folder need not hold all of
/// it in memory.
const PORTION: usize = 10_000;
/// The portion is at least one part in so many of the paths, since each portion reads both indexes and writes one.
const PORTIONS: u64 = 16;
/// Most refused paths that are named.
const MAX_REFUSED: usize = 1_000;

/// Which of two members owns something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeSide {
    /// This member.
    Ours,
    /// The other member.
    Theirs,
}

/// The losing one of two concurrent versions, which is kept under another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LosingVersion {
    /// The name of the copy.
    pub to: Vec<u8>,
    /// Its content and version.
    pub item: IndexItem,
    /// The member that made it. Ours is moved aside before the winner arrives; theirs is fetched to the new name.
    pub whose: MergeSide,
}

/// A change that is to be made at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    /// The path.
    pub path: Vec<u8>,
    /// The new content and version.
    pub item: IndexItem,
    /// The expected content until then. Anything else is a concurrent local change, and stays.
    pub before: ItemKind,
    /// The losing version, if both members changed the path concurrently.
    pub losing: Option<LosingVersion>,
}

impl PlannedChange {
    /// Returns the content that has to be fetched, and its bytes.
    pub(super) fn fetched(&self) -> Option<(Hash, u64)> {
        let kind = match &self.losing {
            Some(LosingVersion { item, whose: MergeSide::Theirs, .. }) => &item.kind,
            _ if self.item.kind.has_content_of(&self.before) => return None,
            _ => &self.item.kind,
        };
        match kind {
            ItemKind::File { root, size, .. } => Some((*root, *size)),
            _ => None,
        }
    }
}

/// Result of [`merge`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Versions to record; the folder has their content already.
    pub noted: Vec<(Vec<u8>, IndexItem)>,
    /// Paths to remove, inner ones first.
    pub removed: Vec<PlannedChange>,
    /// Paths to write, or to give other permissions and times; directories first. Files are fetched.
    pub put: Vec<PlannedChange>,
    /// Refused paths with the reason; only the first of them.
    pub refused: Vec<(Vec<u8>, String)>,
    /// Extended attributes that the disk should have until then, at paths that keep their content and get others.
    pub attributes_before: BTreeMap<Vec<u8>, ExtendedAttributes>,
    /// More remains to be planned after this.
    pub rest: bool,
}

impl Plan {
    /// Returns whether there is nothing to do or to record.
    pub fn is_empty(&self) -> bool {
        let places = self.removed.is_empty() && self.put.is_empty();
        places && self.noted.is_empty() && self.refused.is_empty() && !self.rest
    }

    /// Returns the latest time that the plan takes over, in milliseconds since 1970.
    pub fn newest(&self) -> u64 {
        let places = self.removed.iter().chain(&self.put);
        let beaten = self.put.iter().filter_map(|place| place.losing.as_ref());
        let items = places.map(|place| &place.item).chain(beaten.map(|beaten| &beaten.item));
        let items = items.chain(self.noted.iter().map(|(_, item)| item));
        items.map(IndexItem::newest).max().unwrap_or(0)
    }

    /// Returns the files that are only renamed: positions in `gone`, mapped to positions in `put`.
    pub(super) fn renames(&self) -> HashMap<usize, usize> {
        let mut from: HashMap<Hash, Vec<usize>> = HashMap::new();
        for (at, place) in self.removed.iter().enumerate() {
            if let Some(root) = place.before.root() {
                from.entry(root).or_default().push(at);
            }
        }
        let free = |place: &PlannedChange| place.before.is_gone() && place.losing.is_none();
        let mut renames = HashMap::new();
        for (to, place) in self.put.iter().enumerate().filter(|(_, place)| free(place)) {
            let from = place.item.kind.root().and_then(|root| from.get_mut(&root));
            if let Some(from) = from.and_then(Vec::pop) {
                renames.insert(from, to);
            }
        }
        renames
    }

    /// Returns how often each content that has to be fetched is needed.
    pub(super) fn uses(&self) -> HashMap<Hash, usize> {
        let renamed: BTreeSet<usize> = self.renames().into_values().collect();
        let mut uses = HashMap::new();
        for (at, place) in self.put.iter().enumerate() {
            if let Some((root, _)) = place.fetched().filter(|_| !renamed.contains(&at)) {
                *uses.entry(root).or_default() += 1;
            }
        }
        uses
    }

    /// Returns the paths in the other member's folder that have the contents to be fetched.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn wanted(&self, theirs: &dyn IndexSource) -> Result<HashMap<Hash, Vec<u8>>, FolderError> {
        let uses = self.uses().into_keys();
        let mut wanted: HashMap<Hash, Option<Vec<u8>>> = uses.map(|root| (root, None)).collect();
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        for entry in theirs.entries()? {
            let (path, item) = entry?;
            // The first path in order is never a hard link to an earlier one.
            if !item.absent
                && let Some(at @ None) = item.kind.root().and_then(|root| wanted.get_mut(&root))
            {
                *at = Some(path);
            }
        }
        Ok(wanted.into_iter().filter_map(|(root, path)| Some((root, path?))).collect())
    }
}

/// Bounds on what is taken from others, so that this member's own changes find room, too.
#[derive(Clone, Copy)]
struct MergeLimits {
    /// Members in the version of one path.
    members: usize,
    /// Size of the whole index.
    size: IndexSize,
    /// Paths that come or are recorded in one plan.
    portion: usize,
}

const MOST: MergeLimits = MergeLimits {
    members: MAX_MEMBERS / 2,
    size: IndexSize { paths: MAX_ITEMS as u64 / 4 * 3, bytes: MAX_INDEX / 4 * 3 },
    portion: PORTION,
};

/// Compares another member's index with ours. `leaves_out` decides which paths are not part of this folder; its second
/// argument is whether the path is a directory. If nothing is removed and nothing conflicts, the plan may be the first
/// of several [portions](Plan::rest). A plan with removals is always whole, since a removed file may be the source of a
/// new one.
///
/// `reader` is this member if it only reads. It then settles no conflict between others, since no member would take the
/// result: it has one of their versions until their settlement arrives.
///
/// A path that would make our index larger than others accept is refused; the others are taken.
///
/// # Errors
/// One of the indexes cannot be read.
pub fn merge(
    ours: &dyn IndexSource,
    theirs: &dyn IndexSource,
    leaves_out: &dyn Fn(&[u8], bool) -> bool,
    reader: Option<MemberId>,
) -> Result<Plan, FolderError> {
    let part = usize::try_from(theirs.size().paths / PORTIONS).unwrap_or(PORTION);
    bounded(ours, theirs, leaves_out, reader, MergeLimits { portion: PORTION.max(part), ..MOST })
}

fn bounded(
    ours: &dyn IndexSource,
    theirs: &dyn IndexSource,
    leaves_out: &dyn Fn(&[u8], bool) -> bool,
    reader: Option<MemberId>,
    most: MergeLimits,
) -> Result<Plan, FolderError> {
    match plan_within(ours, theirs, leaves_out, reader, most)? {
        Some(plan) => Ok(plan),
        None => {
            let most = MergeLimits { portion: usize::MAX, ..most };
            Ok(plan_within(ours, theirs, leaves_out, reader, most)?.unwrap_or_default())
        }
    }
}

/// Implements [`merge`]; `None` if the plan has to be whole and is more than a portion.
fn plan_within(
    ours: &dyn IndexSource,
    theirs: &dyn IndexSource,
    leaves_out: &dyn Fn(&[u8], bool) -> bool,
    reader: Option<MemberId>,
    most: MergeLimits,
) -> Result<Option<Plan>, FolderError> {
    let (plan, met, size) = (Plan::default(), Vec::new(), ours.size());
    let mut merging = Merging { plan, met, size, most, reader };
    let mut our_entries = ours.entries()?;
    let mut next = our_entries.next().transpose()?;
    for entry in theirs.entries()? {
        let (path, their) = entry?;
        while next.as_ref().is_some_and(|(ours, _)| *ours < path) {
            next = our_entries.next().transpose()?;
        }
        if their.absent || leaves_out(&path, their.kind.is_directory()) {
            continue;
        }
        let our = next.as_ref().filter(|(ours, _)| *ours == path).map(|(_, our)| our);
        merging.take(path, their, our);
        let plan = &mut merging.plan;
        if plan.put.len().max(plan.noted.len()) > most.portion {
            plan.rest = true;
            plan.put.truncate(most.portion);
            plan.noted.truncate(most.portion);
        }
        let alone = plan.removed.is_empty() && merging.met.is_empty();
        if plan.rest && !alone {
            return Ok(None);
        }
    }
    merging.settle(ours, theirs)?;
    let mut plan = merging.plan;
    plan.removed.reverse();
    Ok(Some(plan))
}

/// A plan in the making.
struct Merging {
    plan: Plan,
    /// Paths that both members changed.
    met: Vec<ConcurrentChange>,
    /// Size of our index, with what was taken.
    size: IndexSize,
    most: MergeLimits,
    /// This member, if it only reads.
    reader: Option<MemberId>,
}

/// A path that both members changed concurrently.
struct ConcurrentChange {
    path: Vec<u8>,
    /// The resulting version.
    item: IndexItem,
    /// The version that is replaced here.
    before: IndexItem,
    /// The version that lost, and the member that owns it.
    lost: IndexItem,
    whose: MergeSide,
}

impl Merging {
    /// Plans what to do about the other member's version of a path.
    fn take(&mut self, path: Vec<u8>, mut their: IndexItem, our: Option<&IndexItem>) {
        // What is on the other member's disk is not what is on ours.
        their.unapplied = their.attributes.is_some();
        let (mut item, lost) = match our {
            None => (their.clone(), None),
            Some(our) if our.absent => return,
            Some(our) => self.join(our, &their),
        };
        let before = our.cloned().unwrap_or_else(IndexItem::none);
        item.unapplied =
            item.attributes.is_some() && (before.unapplied || item.attributes != before.attributes);
        if our.is_some_and(|our| *our == item) {
            return;
        }
        if let Err(why) = self.count(&path, &item, our) {
            return self.refuse(path, why.to_owned());
        }
        match lost {
            None => self.plan.step(path, item, &before),
            Some(whose) => {
                let lost = if whose == MergeSide::Ours { before.clone() } else { their };
                self.met.push(ConcurrentChange { path, item, before, lost, whose });
            }
        }
    }

    /// Merges two versions of a path as this member does; see [`join_items`].
    fn join(&self, our: &IndexItem, their: &IndexItem) -> (IndexItem, Option<MergeSide>) {
        let Some(me) = self.reader else { return join_items(our, their) };
        let order = our.version.order(&their.version);
        // Its own change is kept as a writer would keep it: if the member may write again, the result counts.
        let is_own = our.content.by == me || our.described.by == me;
        match order {
            // The others settled the same versions in another order.
            Some(Ordering::Equal) => (their.clone(), None),
            // Joined, the version would state that this member had seen what it does not keep.
            None if !is_own => match pick_winner(our, their).0 {
                Some(MergeSide::Theirs) => (their.clone(), None),
                _ => (our.clone(), None),
            },
            _ => join_items(our, their),
        }
    }

    fn refuse(&mut self, path: Vec<u8>, why: String) {
        if self.plan.refused.len() < MAX_REFUSED {
            self.plan.refused.push((path, why));
        }
    }

    /// Adds the size of an item to our index, if there is room for it.
    fn count(
        &mut self,
        path: &[u8],
        item: &IndexItem,
        our: Option<&IndexItem>,
    ) -> Result<(), &'static str> {
        if item.version.entries().len() > self.most.members {
            return Err("too many members have changed it");
        }
        let old = our.map_or(0, |our| entry_size(path, our));
        let more = entry_size(path, item).saturating_sub(old);
        let paths = self.size.paths.saturating_add(u64::from(our.is_none()));
        let bytes = self.size.bytes.saturating_add(more);
        // Removals of paths that were unknown here leave half of the room for files that exist.
        let part = if our.is_none() && item.kind.is_gone() { 2 } else { 1 };
        let full = paths > self.most.size.paths / part || bytes > self.most.size.bytes / part;
        if full && more > 0 {
            return Err("this folder has the most paths that can be kept in step");
        }
        self.size = IndexSize { paths, bytes };
        Ok(())
    }

    /// Chooses copy names for the versions that lost, unless a member has kept them before.
    fn settle(
        &mut self,
        ours: &dyn IndexSource,
        theirs: &dyn IndexSource,
    ) -> Result<(), FolderError> {
        if self.met.is_empty() {
            return Ok(());
        }
        let names = |met: &ConcurrentChange| {
            let all = [ours.names(), theirs.names()];
            let whose = all.into_iter().find(|names| names.contains_key(&met.lost.content.by));
            let whose = name(whose.unwrap_or(all[0]), &met.lost.content.by);
            let content = content(&met.lost.kind);
            [SHORT, LONG].map(|len| copy_name(&met.path, &whose, &content, len))
        };
        let named: Vec<[Vec<u8>; 2]> = self.met.iter().map(names).collect();
        let mut known: BTreeMap<&[u8], Vec<IndexItem>> =
            named.iter().flatten().map(|name| (name.as_slice(), Vec::new())).collect();
        for index in [ours, theirs] {
            for entry in index.entries()? {
                let (path, item) = entry?;
                if let Some(items) = known.get_mut(path.as_slice()) {
                    items.push(item);
                }
            }
        }
        for (met, names) in std::mem::take(&mut self.met).into_iter().zip(&named) {
            let to = free_copy_name(&met.lost, names, &known);
            let ConcurrentChange { path, mut item, before, lost, whose } = met;
            match to {
                Some(to) => {
                    if let Err(why) = check(to, &lost) {
                        self.refuse(path, format!("its conflict copy can't be kept: {why}"));
                        continue;
                    }
                    if let Err(why) = self.count(to, &lost, None) {
                        self.refuse(path, why.to_owned());
                        continue;
                    }
                    let beaten = Some(LosingVersion { to: to.to_vec(), item: lost, whose });
                    self.plan.mark_unapplied(&path, &mut item, &before);
                    self.plan.put.push(PlannedChange {
                        path,
                        item,
                        before: before.kind,
                        losing: beaten,
                    });
                }
                None => self.plan.step(path, item, &before),
            }
        }
        self.plan.put.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }
}

/// Returns the first of these names that no index lists. `None`: under one of them a member has kept the content
/// already, or has seen it and removed it.
fn free_copy_name<'a>(
    lost: &IndexItem,
    names: &'a [Vec<u8>],
    known: &BTreeMap<&[u8], Vec<IndexItem>>,
) -> Option<&'a [u8]> {
    for name in names {
        let items = known.get(name.as_slice()).map_or(&[][..], Vec::as_slice);
        let settles = |item: &IndexItem| {
            item.version.has_seen(lost.content) || item.kind.has_content_of(&lost.kind)
        };
        if items.iter().any(settles) {
            return None;
        }
        if items.is_empty() {
            return Some(name);
        }
    }
    // Both names are taken. When the copy is made, it is compared with what has the longer name.
    names.last().map(Vec::as_slice)
}

impl Plan {
    /// Plans the step that makes a path this item.
    fn step(&mut self, path: Vec<u8>, mut item: IndexItem, before: &IndexItem) {
        self.mark_unapplied(&path, &mut item, before);
        let before = before.kind.clone();
        if item.kind == before {
            self.noted.push((path, item));
        } else if item.kind.is_gone() {
            self.removed.push(PlannedChange { path, item, before, losing: None });
        } else {
            self.put.push(PlannedChange { path, item, before, losing: None });
        }
    }

    /// Marks new content as without its extended attributes, since the disk has none of them yet. For a path that keeps
    /// its content, notes which attributes the disk should have now.
    fn mark_unapplied(&mut self, path: &[u8], item: &mut IndexItem, before: &IndexItem) {
        if !item.kind.has_content_of(&before.kind) {
            item.unapplied = item.attributes.is_some();
        } else if item.unapplied && !before.unapplied {
            let there = before.attributes.clone().unwrap_or_default();
            self.attributes_before.insert(path.to_vec(), there);
        }
    }
}

/// Merges two versions of a path. Also returns which of the two contents has to be kept under another name.
pub(super) fn join_items(our: &IndexItem, their: &IndexItem) -> (IndexItem, Option<MergeSide>) {
    match our.version.order(&their.version) {
        Some(Ordering::Less) => return (their.clone(), None),
        Some(Ordering::Greater) => return (our.clone(), None),
        Some(Ordering::Equal) if our == their => return (our.clone(), None),
        Some(Ordering::Equal) | None => {}
    }
    let (winner, lost) = pick_winner(our, their);
    let mut item = match winner {
        Some(MergeSide::Ours) => our.clone(),
        Some(MergeSide::Theirs) => their.clone(),
        // Both contents were replaced or removed by members that had seen them.
        None => {
            let last = if our.content > their.content { our } else { their };
            let (kind, described) = (ItemKind::Gone, last.content);
            IndexItem { kind, described, attributes: None, unapplied: false, ..last.clone() }
        }
    };
    describe(&mut item, our, their);
    item.version = our.version.joined(&their.version);
    (item, lost)
}

/// Decides which content stays (`None`: neither), and which has to be kept elsewhere.
fn pick_winner(our: &IndexItem, their: &IndexItem) -> (Option<MergeSide>, Option<MergeSide>) {
    let is_same = our.kind.has_content_of(&their.kind);
    let seen = (their.version.has_seen(our.content), our.version.has_seen(their.content));
    let ours_first = rank(our) > rank(their);
    match seen {
        (false, true) => (Some(MergeSide::Ours), None),
        (true, false) => (Some(MergeSide::Theirs), None),
        (true, true) if our.content != their.content => (None, None),
        // One change has one content, unless a member lies; then it is treated as a conflict.
        _ => {
            let (winner, loser, lost) = match ours_first {
                true => (MergeSide::Ours, MergeSide::Theirs, their),
                false => (MergeSide::Theirs, MergeSide::Ours, our),
            };
            let is_kept = !is_same && !lost.kind.is_gone();
            (Some(winner), is_kept.then_some(loser))
        }
    }
}

/// Gives `item` the newer permissions and extended attributes of the two. It also takes the newer time, if that belongs
/// to the same content. A change of content leaves the permissions to a concurrent change of permissions.
fn describe(item: &mut IndexItem, our: &IndexItem, their: &IndexItem) {
    if !our.is_alike(&item.kind) || !their.is_alike(&item.kind) || item.kind.description().is_none()
    {
        return;
    }
    let seen = (their.version.has_seen(our.described), our.version.has_seen(their.described));
    let order = |one: &IndexItem| (one.described, one.kind.description());
    let is_ours = (order(our), &our.attributes) > (order(their), &their.attributes);
    let newer = match seen {
        (false, true) => our,
        (true, false) => their,
        _ if is_ours => our,
        _ => their,
    };
    if newer.kind.has_content_of(&item.kind) {
        item.kind = item.kind.clone().with_description_of(&newer.kind);
    } else {
        item.kind = item.kind.clone().with_mode_of(&newer.kind);
    }
    (item.described, item.attributes) = (newer.described, newer.attributes.clone());
}

/// Orders two concurrent versions: existing before removed, directories first, then the later edit, then any order on
/// which all members agree.
fn rank(item: &IndexItem) -> (bool, bool, u64, [u8; 8], u64, [u8; 32]) {
    let IndexItem { kind, content: dot, edited_ms, .. } = item;
    let (is_there, is_directory) = (!kind.is_gone(), kind.is_directory());
    (is_there, is_directory, *edited_ms, dot.by, dot.number, content(kind))
}

fn content(kind: &ItemKind) -> [u8; 32] {
    match kind {
        ItemKind::File { root, .. } => *root.as_bytes(),
        ItemKind::Symlink { target } => *xylem_hash::hash(target).as_bytes(),
        ItemKind::Gone | ItemKind::Directory { .. } => [0; 32],
    }
}

/// Returns the name of the copy of a member's version.
pub(super) fn copy_path(path: &[u8], whose: &str, kind: &ItemKind) -> Vec<u8> {
    copy_name(path, whose, &content(kind), SHORT)
}

#[cfg(test)]
mod simulated {
    mod tests;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use crate::index::tests::attributes;
    use proptest::prelude::*;

    const ALICE: MemberId = [1; 8];
    const BOB: MemberId = [2; 8];

    pub(super) fn file(content: &str) -> ItemKind {
        let root = xylem_hash::hash(content.as_bytes());
        ItemKind::File { root, size: content.len() as u64, mode: 0o644, mtime: (0, 0) }
    }

    /// A member; its index stands for its disk.
    #[derive(Clone, Debug)]
    pub(super) struct SimulatedMember {
        pub(super) id: MemberId,
        pub(super) index: Index,
        pub(super) only_reads: bool,
    }

    impl SimulatedMember {
        pub(super) fn new(id: MemberId, name: &str) -> Self {
            let mut index = Index::default();
            index.names.insert(id, name.to_owned());
            Self { id, index, only_reads: false }
        }

        pub(super) fn set(&mut self, path: &str, kind: ItemKind, now: u64) {
            self.set_of(path, kind, now, now);
        }

        /// The file was written at `edited`; a scan notices it at `now`.
        pub(super) fn set_of(&mut self, path: &str, kind: ItemKind, edited: u64, now: u64) {
            let item = self.index.items.entry(path.into()).or_insert_with(IndexItem::none);
            item.changed(kind, self.id, edited, now);
        }

        /// Takes over another member's index, as the folder would.
        pub(super) fn hear(&mut self, other: &Self) -> Plan {
            self.hear_by(other, PORTION).pop().unwrap()
        }

        fn hear_by(&mut self, other: &Self, portion: usize) -> Vec<Plan> {
            let mut plans = Vec::new();
            loop {
                let most = MergeLimits { portion, ..MOST };
                let reader = self.only_reads.then_some(self.id);
                let plan = bounded(&self.index, &other.index, &|_, _| false, reader, most).unwrap();
                for (path, item) in plan.noted.clone() {
                    assert_eq!(self.kind(&path), item.kind, "known is what is there");
                    self.index.items.insert(path, item);
                }
                for PlannedChange { path, item, before, losing: beaten } in
                    plan.removed.iter().chain(&plan.put).cloned()
                {
                    assert_eq!(self.kind(&path), before);
                    if let Some(LosingVersion { to, item, .. }) = beaten {
                        assert!(self.kind(&to).is_gone(), "no other copy is in the way");
                        self.index.items.insert(to, item);
                    }
                    self.index.items.insert(path, item);
                }
                plans.push(plan);
                if !plans.last().is_some_and(|plan| plan.rest) {
                    return plans;
                }
            }
        }

        pub(super) fn kind(&self, path: &[u8]) -> ItemKind {
            self.index.items.get(path).map_or(ItemKind::Gone, |item| item.kind.clone())
        }

        pub(super) fn files(&self) -> Vec<String> {
            let there = self.index.items.iter().filter(|(_, item)| !item.kind.is_gone());
            there.map(|(path, _)| String::from_utf8_lossy(path).into_owned()).collect()
        }
    }

    fn met(plan: &Plan) -> Vec<&[u8]> {
        let met = plan.put.iter().filter(|place| place.losing.is_some());
        met.map(|place| place.path.as_slice()).collect()
    }

    fn two() -> (SimulatedMember, SimulatedMember) {
        let (mut alice, bob) =
            (SimulatedMember::new(ALICE, "alice"), SimulatedMember::new(BOB, "bob"));
        alice.set("a", file("1"), 1);
        let mut bob = bob;
        bob.hear(&alice);
        (alice, bob)
    }

    #[test]
    fn a_change_is_taken_over_by_the_other_member() {
        let (mut alice, mut bob) = two();
        assert_eq!(bob.files(), ["a"]);
        bob.set("a", file("2"), 2);
        let plan = alice.hear(&bob);
        assert_eq!(plan.put.len(), 1);
        assert_eq!(plan.put[0].before, file("1"));
        assert!(bob.hear(&alice).is_empty(), "they are in step");
        bob.set("a", ItemKind::Gone, 3);
        assert_eq!(alice.hear(&bob).removed.len(), 1);
        assert_eq!(alice.index.state(), bob.index.state());
    }

    #[test]
    fn a_conflict_keeps_both_versions_and_names_the_author() {
        let (mut alice, mut bob) = two();
        alice.set("a", file("alice's"), 10);
        bob.set("a", file("bob's"), 11);
        let (alice_before, bob_before) = (alice.clone(), bob.clone());
        alice.hear(&bob_before);
        bob.hear(&alice_before);
        assert_eq!(alice.index.state(), bob.index.state());
        let hex = &xylem_hash::hash(b"alice's").to_string()[..8];
        assert_eq!(alice.files(), ["a".to_owned(), format!("a.conflict-alice-{hex}")]);
        assert!(
            alice.index.items[b"a".as_slice()].kind.has_content_of(&file("bob's")),
            "the later one"
        );
        assert!(alice.hear(&bob).is_empty() && bob.hear(&alice).is_empty());
    }

    #[test]
    fn additions_come_in_portions_and_renames_at_once() {
        let (mut alice, mut bob) = two();
        let names = |dir: &str| -> Vec<String> { (0..5).map(|n| format!("{dir}/{n}")).collect() };
        names("old").iter().for_each(|path| alice.set(path, file(path), 1));
        let sizes = |plans: &[Plan]| -> Vec<usize> { plans.iter().map(|p| p.put.len()).collect() };
        let plans = bob.hear_by(&alice, 2);
        assert_eq!((sizes(&plans), bob.index.state()), (vec![2, 2, 1], alice.index.state()));
        for (old, new) in names("old").iter().zip(names("new")) {
            alice.set(old, ItemKind::Gone, 2);
            alice.set(&new, file(old), 2);
        }
        let plans = bob.hear_by(&alice, 2);
        assert_eq!((sizes(&plans), plans[0].removed.len()), (vec![5], 5));
        assert_eq!(bob.index.state(), alice.index.state());
    }

    #[test]
    fn a_concurrent_change_wins_over_a_removal() {
        let (mut alice, mut bob) = two();
        alice.set("a", ItemKind::Gone, 10);
        bob.set("a", file("changed"), 5);
        let bob_before = bob.clone();
        bob.hear(&alice);
        alice.hear(&bob_before);
        assert_eq!((alice.files(), bob.files()), (vec!["a".to_owned()], vec!["a".to_owned()]));
        assert_eq!(alice.index.state(), bob.index.state());
    }

    proptest! {
        /// Members change, remove and exchange in any order. Once all have exchanged with all, all have the same.
        #[test]
        fn members_converge(steps in proptest::collection::vec((0..3_usize, 0..6_u8, 0..3_usize), 1..60)) {
            let mut members = [([3; 8], "carol"), (ALICE, "alice"), (BOB, "bob")]
                .map(|(id, name)| SimulatedMember::new(id, name));
            for (now, (who, what, path)) in steps.into_iter().enumerate() {
                let path = ["a", "b", "b/c"][path];
                match what {
                    0 | 1 => members[who].set(path, file(&format!("{now}")), now as u64),
                    2 => members[who].set(path, file("same"), 1),
                    3 => members[who].set(path, ItemKind::Gone, now as u64),
                    _ => {
                        let other = members[(who + usize::from(what) - 3) % 3].clone();
                        members[who].hear_by(&other, 1);
                    }
                }
            }
            for _ in 0..4 {
                for (to, from) in [(0, 1), (0, 2), (1, 0), (2, 0), (1, 2), (2, 1)] {
                    let other = members[from].clone();
                    members[to].hear(&other);
                }
            }
            let states = members.each_ref().map(|member| member.index.state());
            prop_assert_eq!(states[0], states[1]);
            prop_assert_eq!(states[0], states[2]);
        }
    }

    proptest! {
        /// A member that only reads hears the others in any order, and may make changes of its own. Without those it has what
        /// the others have. Once it may write, all have the same, and nothing is removed that it did not have.
        #[test]
        fn a_reader_has_what_the_writers_have(
            steps in proptest::collection::vec((0..4_usize, 0..8_u8, 0..3_usize), 1..80),
            changes in any::<bool>(),
        ) {
            let mut members = [([3; 8], "carol"), (ALICE, "alice"), (BOB, "bob"), ([4; 8], "reader")]
                .map(|(id, name)| SimulatedMember::new(id, name));
            members[3].only_reads = true;
            let mut at_reader = std::collections::HashSet::new();
            let files = |member: &SimulatedMember| -> Vec<Hash> {
                member.index.items.values().filter_map(|item| item.kind.root()).collect()
            };
            for (now, (who, what, path)) in steps.into_iter().enumerate() {
                let (path, now) = (["a", "b", "b/c"][path], now as u64);
                match what {
                    0..=3 if who == 3 && !changes => {}
                    0 | 1 => members[who].set(path, file(&format!("{now}")), now),
                    2 => members[who].set_of(path, file("same"), 1, now),
                    3 => members[who].set(path, ItemKind::Gone, now),
                    _ => {
                        let other = members[(who + usize::from(what)) % 3].clone();
                        members[who].hear_by(&other, 2);
                    }
                }
                at_reader.extend(files(&members[3]));
            }
            for (to, from) in [(0, 1), (0, 2), (1, 0), (2, 0), (1, 2), (2, 1)].repeat(4) {
                let other = members[from].clone();
                members[to].hear(&other);
            }
            let [mut carol, mut alice, mut bob, mut reader] = members;
            prop_assert_eq!(carol.index.state(), alice.index.state());
            [&alice, &bob, &carol].into_iter().for_each(|member| drop(reader.hear(member)));
            prop_assert!(changes || reader.index.state() == carol.index.state());
            prop_assert!(reader.hear(&bob).is_empty());
            at_reader.extend(files(&reader));
            // It may write again: nothing is removed but what it had.
            let before = files(&carol);
            reader.only_reads = false;
            for _ in 0..2 {
                [&mut alice, &mut bob, &mut carol].into_iter().for_each(|member| drop(member.hear(&reader)));
                reader.hear(&carol);
            }
            prop_assert_eq!(reader.index.state(), carol.index.state());
            prop_assert_eq!(reader.index.state(), alice.index.state());
            let after = files(&reader);
            for root in before {
                prop_assert!(after.contains(&root) || at_reader.contains(&root), "{root} is lost");
            }
        }
    }

    /// The first member exchanges no attributes: it knows those of others, and its changes leave them alone.
    fn take_as_folder(who: usize, member: &mut SimulatedMember, other: &SimulatedMember) {
        member.hear_by(other, 2);
        for item in member.index.items.values_mut() {
            item.unapplied = who == 0 && item.attributes.is_some();
        }
    }

    proptest! {
        #[test]
        fn attributes_converge_beside_a_member_without_them(
            steps in proptest::collection::vec((0..3_usize, 0..9_u8, 0..3_usize), 1..60),
        ) {
            let mut members = [([3; 8], "carol"), (ALICE, "alice"), (BOB, "bob")]
                .map(|(id, name)| SimulatedMember::new(id, name));
            for (now, (who, what, path)) in steps.into_iter().enumerate() {
                let (path, now) = (["a", "b", "b/c"][path], now as u64);
                let id = members[who].id;
                match what {
                    0 => members[who].set(path, file(&format!("{now}")), now),
                    1 => members[who].set(path, file("same"), 1),
                    2 => members[who].set(path, ItemKind::Gone, now),
                    3 => {
                        let mode = 0o600 + u32::try_from(now % 8).unwrap();
                        let kind = members[who].kind(path.as_bytes()).with_mode_of(&file_of("", mode, 0));
                        members[who].set(path, kind, now);
                    }
                    4..=6 if who > 0 => {
                        let all = [("user.a", "1"), ("user.b", "2")];
                        let item = members[who].index.items.get_mut(path.as_bytes());
                        if let Some(item) = item.filter(|item| !item.kind.is_gone()) {
                            item.attributes_changed(attributes(&all[..usize::from(what) - 4]), id, now);
                        }
                    }
                    _ => {
                        let other = members[(who + 1 + usize::from(what % 2)) % 3].clone();
                        take_as_folder(who, &mut members[who], &other);
                    }
                }
            }
            for _ in 0..4 {
                for (to, from) in [(0, 1), (0, 2), (1, 0), (2, 0), (1, 2), (2, 1)] {
                    let other = members[from].clone();
                    take_as_folder(to, &mut members[to], &other);
                }
            }
            let states = members.each_ref().map(|member| member.index.state());
            prop_assert_eq!(states[0], states[1]);
            prop_assert_eq!(states[0], states[2]);
            let other = members[1].clone();
            prop_assert!(members[0].hear(&other).is_empty() && members[2].hear(&other).is_empty());
            for item in members[1].index.items.values() {
                prop_assert!(item.attributes.is_none() || !item.kind.is_gone());
            }
            members[0].index.encode(b"").unwrap();
        }
    }

    #[test]
    fn attributes_survive_changes_by_members_that_know_none_on_their_disk() {
        let (mut alice, mut bob) = two();
        let has = |member: &SimulatedMember| member.index.items[b"a".as_slice()].attributes.clone();
        let item = alice.index.items.get_mut(b"a".as_slice()).unwrap();
        item.attributes_changed(attributes(&[("user.a", "1")]), ALICE, 10);
        let plan = bob.hear(&alice);
        assert_eq!((plan.noted.len(), plan.put.len()), (1, 0), "there is nothing to fetch");
        assert_eq!(plan.attributes_before[b"a".as_slice()], attributes(&[]));
        assert!(bob.index.items[b"a".as_slice()].unapplied);
        // New content, and other permissions.
        bob.set("a", file("2"), 20);
        assert!(alice.hear(&bob).put[0].item.unapplied, "the new file has none yet");
        alice.index.items.get_mut(b"a".as_slice()).unwrap().unapplied = false;
        bob.set("a", file("2").with_mode_of(&file_of("", 0o600, 0)), 30);
        let plan = alice.hear(&bob);
        assert!(!plan.put[0].item.unapplied && plan.attributes_before.is_empty());
        // One edits while the other changes attributes: both count.
        bob.set("a", file_of("3", 0o600, 0), 40);
        let item = alice.index.items.get_mut(b"a".as_slice()).unwrap();
        item.attributes_changed(attributes(&[("user.a", "2")]), ALICE, 41);
        let before = alice.clone();
        alice.hear(&bob);
        bob.hear(&before);
        for member in [&alice, &bob] {
            assert_eq!(member.kind(b"a"), file_of("3", 0o600, 0));
            assert_eq!(has(member), Some(attributes(&[("user.a", "2")])));
        }
        assert_eq!(alice.index.state(), bob.index.state());
        // Two change them: the later change wins, and no copy is made.
        for (member, value, now) in [(&mut alice, "3", 50), (&mut bob, "4", 51)] {
            let (id, item) = (member.id, member.index.items.get_mut(b"a".as_slice()).unwrap());
            item.attributes_changed(attributes(&[("user.a", value)]), id, now);
        }
        let before = alice.clone();
        alice.hear(&bob);
        bob.hear(&before);
        assert_eq!((has(&alice), has(&bob)), (has(&bob), Some(attributes(&[("user.a", "4")]))));
        assert_eq!((alice.files().len(), alice.index.state()), (1, bob.index.state()));
        // What is removed has none, and a new file neither.
        bob.set("a", ItemKind::Gone, 60);
        alice.hear(&bob);
        alice.set("a", file("new"), 70);
        assert_eq!(has(&alice), None);
    }

    /// The member that settles a conflict reports it; a member that learns of the result does not.
    #[test]
    fn a_conflict_is_reported_once() {
        let (mut alice, mut bob) =
            (SimulatedMember::new(ALICE, "alice"), SimulatedMember::new(BOB, "bob"));
        alice.set("a", file("alice's"), 1);
        bob.set("a", file("bob's"), 2);
        let plan = |ours: &SimulatedMember, theirs: &SimulatedMember| {
            merge(&ours.index, &theirs.index, &|_, _| false, None).unwrap()
        };
        assert_eq!(met(&plan(&alice, &bob)), [b"a"]);
        assert_eq!(met(&plan(&bob, &alice)), [b"a"]);
        alice.hear(&bob);
        let settled = plan(&bob, &alice);
        assert!(!settled.put.is_empty() && met(&settled).is_empty(), "{settled:?}");
        // A member that has the copy already does not report the losing version again.
        let (mut carol, mut dave) =
            (SimulatedMember::new(ALICE, "alice"), SimulatedMember::new(BOB, "bob"));
        carol.set("a", file("alice's, the later one"), 5);
        dave.set("a", file("bob's"), 2);
        assert_eq!(met(&plan(&carol, &dave)), [b"a"]);
        let copy = copy_path(b"a", "bob", &file("bob's"));
        carol.set(std::str::from_utf8(&copy).unwrap(), file("bob's"), 6);
        let again = plan(&carol, &dave);
        assert!(again.put.is_empty(), "{again:?}");
    }

    fn file_of(content: &str, mode: u32, mtime: i64) -> ItemKind {
        file(content).with_description_of(&ItemKind::File {
            root: xylem_hash::hash(b""),
            size: 0,
            mode,
            mtime: (mtime, 0),
        })
    }

    /// Both take over what the other had.
    fn exchange(one: &mut SimulatedMember, other: &mut SimulatedMember) -> [Plan; 2] {
        let before = one.clone();
        let plans = [one.hear(other), other.hear(&before)];
        assert_eq!(one.index.items, other.index.items);
        plans
    }

    /// Two members settle a conflict separately, with or without a third one's removal: its time decides nothing.
    #[test]
    fn separate_settlements_agree_whatever_a_third_member_removed() {
        let (mut ann, mut bob) =
            (SimulatedMember::new([9; 8], "ann"), SimulatedMember::new(BOB, "bob"));
        ann.set("x", file("1"), 1);
        bob.hear(&ann);
        let mut cyd = SimulatedMember { id: [3; 8], ..bob.clone() };
        bob.set("x", file("bob's"), 2);
        cyd.set("x", file("cyd's"), 3);
        ann.set("x", ItemKind::Gone, 4);
        let (bob_before, cyd_before) = (bob.clone(), cyd.clone());
        bob.hear(&ann);
        bob.hear(&cyd_before);
        cyd.hear(&bob_before);
        cyd.hear(&ann);
        for member in [&bob, &cyd] {
            assert!(member.kind(b"x").has_content_of(&file("cyd's")));
            assert_eq!(member.files().len(), 2, "and bob's copy: {:?}", member.files());
        }
        exchange(&mut bob, &mut cyd);
        exchange(&mut ann, &mut cyd);
        assert_eq!(ann.index.items, bob.index.items);
    }

    /// A member removed a content that it had seen. The content does not come back because another member joined its
    /// version with another.
    #[test]
    fn a_content_removed_by_a_member_that_saw_it_stays_removed() {
        let (mut alice, mut bob) = two();
        alice.set("a", file("alice's"), 10);
        bob.set("a", file("bob's"), 11);
        let mut carol = SimulatedMember::new([3; 8], "carol");
        carol.hear(&bob);
        exchange(&mut alice, &mut bob);
        assert!(alice.kind(b"a").has_content_of(&file("bob's")));
        carol.set("a", ItemKind::Gone, 12);
        let plans = exchange(&mut alice, &mut carol);
        assert_eq!(plans[0].removed.len(), 1);
        assert_eq!(
            alice.files(),
            [String::from_utf8(copy_path(b"a", "alice", &file("alice's"))).unwrap()]
        );
    }

    /// The later edit keeps the name, whenever it is noticed.
    #[test]
    fn the_last_edit_keeps_the_name_whenever_it_is_noticed() {
        let (mut ann, mut bob) = two();
        ann.set_of("a", file("ann's, later"), 5_000, 5_001);
        bob.set_of("a", file("bob's, noticed later"), 2_000, 9_000);
        exchange(&mut ann, &mut bob);
        assert!(ann.kind(b"a").has_content_of(&file("ann's, later")));
        // A time ahead of the member's clock counts as the time of the scan.
        let mut item = IndexItem::none();
        item.changed(file("x"), BOB, u64::MAX, 7);
        assert_eq!((item.edited_ms, item.newest()), (7, 7));
    }

    /// Permissions and times are not content: they are exchanged, and cause no copy.
    #[test]
    fn permissions_and_times_are_exchanged_without_conflict() {
        let (mut alice, mut bob) = two();
        alice.set("a", file_of("1", 0o755, 0), 10);
        let plan = bob.hear(&alice);
        assert_eq!((plan.put.len(), plan.wanted(&alice.index).unwrap().len()), (1, 0));
        // Separate changes of permissions: the later one counts, without a copy.
        alice.set("a", file_of("1", 0o700, 0), 20);
        bob.set("a", file_of("1", 0o600, 5), 21);
        exchange(&mut alice, &mut bob);
        assert_eq!((alice.kind(b"a"), alice.files().len()), (file_of("1", 0o600, 5), 1));
        // One member edits and the other changes permissions, in either order: both count.
        for (edit, permit) in [(30, 31), (41, 40)] {
            let content = format!("edited {edit}");
            alice.set("a", file_of(&content, 0o600, edit), edit.try_into().unwrap());
            bob.set("a", bob.kind(b"a").with_mode_of(&file_of("", permit, 0)), u64::from(permit));
            exchange(&mut alice, &mut bob);
            assert_eq!(
                (alice.kind(b"a"), alice.files().len()),
                (file_of(&content, permit, edit), 1)
            );
            bob.set("a", file_of(&content, 0o600, edit), 35);
            alice.hear(&bob);
        }
        let directory = |mode| ItemKind::Directory { mode };
        alice.set("d", directory(0o755), 50);
        bob.hear(&alice);
        bob.set("d", directory(0o700), 51);
        assert_eq!(alice.hear(&bob).put.len(), 1);
        assert_eq!(alice.kind(b"d"), directory(0o700));
    }

    /// The same content is created twice, with different umasks: one file.
    #[test]
    fn the_same_content_under_other_permissions_makes_no_copy() {
        let (mut alice, mut bob) =
            (SimulatedMember::new(ALICE, "alice"), SimulatedMember::new(BOB, "bob"));
        alice.set("a", file_of("1", 0o644, 1), 1);
        bob.set("a", file_of("1", 0o664, 2), 2);
        exchange(&mut alice, &mut bob);
        assert_eq!(alice.files(), ["a"]);
        assert_eq!(alice.kind(b"a"), file_of("1", 0o664, 2));
    }

    /// A losing copy that is moved back over the name is one more change; later changes of others are still taken.
    #[test]
    fn a_copy_that_is_put_back_is_a_change_like_any_other() {
        let (mut bob, mut reader) = two();
        bob.set("a", file("bob's"), 11);
        reader.set("a", file("reader's"), 10);
        reader.hear(&bob);
        assert_eq!(reader.files().len(), 2);
        reader.set("a", file("reader's"), 12);
        bob.set("a", file("bob's again"), 13);
        assert!(met(&reader.hear(&bob)).is_empty(), "its copy is there already");
        assert!(reader.kind(b"a").has_content_of(&file("bob's again")));
        assert_eq!(reader.files().len(), 2);
        assert!(reader.hear(&bob).is_empty(), "once");
    }

    /// A copy's name that is taken by another content stays as it is.
    #[test]
    fn a_copy_whose_name_is_taken_gets_a_longer_one() {
        let (mut alice, mut bob) = two();
        let copy = copy_path(b"a", "alice", &file("alice's"));
        bob.set(std::str::from_utf8(&copy).unwrap(), file("something else"), 5);
        alice.set("a", file("alice's"), 10);
        bob.set("a", file("bob's"), 11);
        exchange(&mut alice, &mut bob);
        assert!(alice.kind(&copy).has_content_of(&file("something else")));
        let long = copy_name(b"a", "alice", &content(&file("alice's")), LONG);
        assert!(alice.kind(&long).has_content_of(&file("alice's")));
    }

    /// Copies of symbolic links have different names for different targets, as copies of files do.
    #[test]
    fn a_copy_of_a_link_is_named_by_its_target() {
        let link = |target: &str| ItemKind::Symlink { target: target.into() };
        assert_ne!(copy_path(b"a", "bob", &link("x")), copy_path(b"a", "bob", &link("y")));
    }

    /// No foreign index makes ours too large to read; the rest of the index is taken.
    #[test]
    fn paths_that_overfill_our_index_are_refused_one_by_one() {
        let (alice, mut bob) = two();
        let crowd = |item: &mut IndexItem, count: u64| {
            for n in 0..count {
                item.version.record_change((n + 1_000).to_be_bytes(), 1);
            }
        };
        crowd(bob.index.items.get_mut(b"a".as_slice()).unwrap(), MAX_MEMBERS as u64 - 4);
        bob.set("b", file("good"), 5);
        let mut ours = alice.clone();
        let plan = ours.hear(&bob);
        let refused = |plan: &Plan| plan.refused.iter().map(|(p, _)| p.clone()).collect::<Vec<_>>();
        assert_eq!(refused(&plan), [b"a"]);
        assert!(!ours.kind(b"b").is_gone());
        // Removals of unknown paths leave room for files that exist.
        let size = |paths| IndexSize { paths, bytes: 10_000 };
        let bounded = |theirs: &SimulatedMember, paths| {
            let most = MergeLimits { size: size(paths), ..MOST };
            bounded(&alice.index, &theirs.index, &|_, _| false, None, most).unwrap()
        };
        let mut carol = SimulatedMember::new([3; 8], "carol");
        for n in 0..10 {
            carol.set(&format!("removed {n}"), ItemKind::Gone, 1);
            carol.set(&format!("there {n}"), file("x"), 1);
        }
        let plan = bounded(&carol, 10);
        assert_eq!((plan.noted.len(), plan.put.len(), plan.refused.len()), (4, 5, 11));
        // A path that is known already may change all the same.
        let mut dave = alice.clone();
        dave.set("a", ItemKind::Gone, 9);
        assert_eq!(bounded(&dave, 1).removed.len(), 1);
        // If the copy's name is too long, no copy is made and ours stays.
        let deep = format!("{}{}", "y/".repeat(490), "x".repeat(200));
        let deep = format!("{}/{deep}", ["z"; 14].map(|z| z.repeat(207)).join("/"));
        let (mut ours, mut theirs) =
            (SimulatedMember::new(ALICE, "alice"), SimulatedMember::new(BOB, "bob"));
        ours.set(&deep, file("ours"), 1);
        theirs.set(&deep, file("theirs"), 2);
        assert!(check(deep.as_bytes(), &IndexItem::none()).is_ok(), "{}", deep.len());
        let plan = ours.hear(&theirs);
        assert_eq!((refused(&plan), met(&plan).len()), (vec![deep.as_bytes().to_vec()], 0));
    }

    proptest! {
        /// After any valid index is merged into ours, ours can be written and read again.
        #[test]
        fn a_merged_index_can_be_written_and_read(
            all in proptest::collection::vec((0..4_usize, 0..2_usize, 0..5_u8, 0..700_u64), 1..12),
        ) {
            let mut members = [(ALICE, "alice"), (BOB, "bob")].map(|(id, name)| SimulatedMember::new(id, name));
            for (now, (path, who, what, crowd)) in all.into_iter().enumerate() {
                let kind = match what {
                    0 => ItemKind::Gone,
                    1 => ItemKind::Directory { mode: 0o555 },
                    2 => ItemKind::Symlink { target: vec![b'x'; 4_096] },
                    _ => file(&now.to_string()),
                };
                let path = ["a", "b", "c", "d"][path];
                members[who].set(path, kind, now as u64);
                let item = members[who].index.items.get_mut(path.as_bytes()).unwrap();
                for n in 0..crowd {
                    item.version.record_change((n + 1_000 * who as u64).to_be_bytes(), 1);
                }
            }
            let [mut alice, bob] = members;
            alice.hear(&bob);
            for index in [alice.index, bob.index] {
                let bytes = index.encode(b"about").unwrap();
                prop_assert_eq!(Index::decode(&bytes), Ok((index, b"about".to_vec())));
            }
        }
    }
}
