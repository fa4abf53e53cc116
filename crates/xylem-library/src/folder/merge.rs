//! [`merge`]: what is to be done here so that nothing of another member's folder is missed.
//!
//! All members come to the same answers whoever asks whom first. A content goes where somebody who has seen it has replaced or
//! removed it, whatever the times; of two that nobody has seen together the later one has the name, and the other becomes
//! a copy. Nothing in that depends on what was joined with what before.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use xylem_hash::Hash;

use super::error::FolderError;
use super::index::{Item, ItemKind, MAX_INDEX, MAX_ITEMS, MAX_MEMBERS, check, entry_size, name};
use super::stored::{IndexSize, Paths};
use crate::copies::{LONG, SHORT, copy_name};

/// What comes or is noted at once, as far as nothing goes: a member that joins a large folder needs no memory for all of it. So many paths,
const PORTION: usize = 10_000;
/// or this part of all, since both indexes are read and one is written for each.
const PORTIONS: u64 = 16;
/// Paths that are refused and named at most.
const MAX_REFUSED: usize = 1_000;

/// Which of two members' something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// This member's.
    Ours,
    /// The other member's.
    Theirs,
}

/// What lost against another member's, and is kept under another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beaten {
    /// That name.
    pub to: Vec<u8>,
    /// What, in which version.
    pub item: Item,
    /// Whose it was: ours is moved there before the other comes, theirs comes there.
    pub whose: Whose,
}

/// Something that is to come to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where.
    pub path: Vec<u8>,
    /// What, in which version.
    pub item: Item,
    /// What has to be there until then; anything else was changed here meanwhile, and stays.
    pub before: ItemKind,
    /// What is kept beside it: both have changed it, neither knowing of the other.
    pub beaten: Option<Beaten>,
}

impl Place {
    /// The content that has to be fetched for it, and its bytes.
    pub(super) fn fetched(&self) -> Option<(Hash, u64)> {
        let kind = match &self.beaten {
            Some(Beaten { item, whose: Whose::Theirs, .. }) => &item.kind,
            _ if self.item.kind.has_content_of(&self.before) => return None,
            _ => &self.item.kind,
        };
        match kind {
            ItemKind::File { root, size, .. } => Some((*root, *size)),
            _ => None,
        }
    }
}

/// What [`merge`] finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Versions to be noted; the folder has what they say.
    pub known: Vec<(Vec<u8>, Item)>,
    /// What goes; what lies inside comes first.
    pub gone: Vec<Place>,
    /// What comes or is described otherwise, directories first. Files are fetched.
    pub put: Vec<Place>,
    /// What is not taken, and why; the first of them.
    pub refused: Vec<(Vec<u8>, String)>,
    /// More is to be done after this.
    pub rest: bool,
}

impl Plan {
    /// Whether nothing is to be done or noted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The last of all times that it takes over, in ms since 1970.
    pub fn newest(&self) -> u64 {
        let places = self.gone.iter().chain(&self.put);
        let beaten = self.put.iter().filter_map(|place| place.beaten.as_ref());
        let items = places.map(|place| &place.item).chain(beaten.map(|beaten| &beaten.item));
        let items = items.chain(self.known.iter().map(|(_, item)| item));
        items.map(Item::newest).max().unwrap_or(0)
    }

    /// Files that are only renamed: by where they go from, in `gone`, where they come to, in `put`.
    pub(super) fn renames(&self) -> HashMap<usize, usize> {
        let mut from: HashMap<Hash, Vec<usize>> = HashMap::new();
        for (at, place) in self.gone.iter().enumerate() {
            if let Some(root) = place.before.root() {
                from.entry(root).or_default().push(at);
            }
        }
        let free = |place: &Place| place.before.is_gone() && place.beaten.is_none();
        let mut renames = HashMap::new();
        for (to, place) in self.put.iter().enumerate().filter(|(_, place)| free(place)) {
            let from = place.item.kind.root().and_then(|root| from.get_mut(&root));
            if let Some(from) = from.and_then(Vec::pop) {
                renames.insert(from, to);
            }
        }
        renames
    }

    /// How often each file is needed that has to be fetched.
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

    /// Where in the other member's folder the content of the files lies that are to come.
    ///
    /// # Errors
    /// The index can't be read.
    pub fn wanted(&self, theirs: &dyn Paths) -> Result<HashMap<Hash, Vec<u8>>, FolderError> {
        let uses = self.uses().into_keys();
        let mut wanted: HashMap<Hash, Option<Vec<u8>>> = uses.map(|root| (root, None)).collect();
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        for entry in theirs.entries()? {
            let (path, item) = entry?;
            // The first in order is never another name of an earlier one.
            if !item.absent
                && let Some(at @ None) = item.kind.root().and_then(|root| wanted.get_mut(&root))
            {
                *at = Some(path);
            }
        }
        Ok(wanted.into_iter().filter_map(|(root, path)| Some((root, path?))).collect())
    }
}

/// How much of others' is taken: so that what this member changes beside it finds room, too.
#[derive(Clone, Copy)]
struct Most {
    /// Members in a version of one path.
    members: usize,
    /// Of the whole index.
    size: IndexSize,
    /// What comes and is noted at once.
    portion: usize,
}

const MOST: Most = Most {
    members: MAX_MEMBERS / 2,
    size: IndexSize { paths: MAX_ITEMS as u64 / 4 * 3, bytes: MAX_INDEX / 4 * 3 },
    portion: PORTION,
};

/// Holds another member's index against ours. `leaves_out` says which paths are none of this folder's (its second
/// argument: whether that is a directory). Where nothing goes and nothing is in the way, what comes may be the first of several
/// [portions](Plan::rest): what goes needs a whole plan, since it may be the copy of what comes.
///
/// What would make our index larger than others read is refused, path by path.
///
/// # Errors
/// One of them can't be read.
pub fn merge(
    ours: &dyn Paths,
    theirs: &dyn Paths,
    leaves_out: &dyn Fn(&[u8], bool) -> bool,
) -> Result<Plan, FolderError> {
    let part = usize::try_from(theirs.size().paths / PORTIONS).unwrap_or(PORTION);
    bounded(ours, theirs, leaves_out, Most { portion: PORTION.max(part), ..MOST })
}

fn bounded(
    ours: &dyn Paths,
    theirs: &dyn Paths,
    leaves_out: &dyn Fn(&[u8], bool) -> bool,
    most: Most,
) -> Result<Plan, FolderError> {
    match compared(ours, theirs, leaves_out, most)? {
        Some(plan) => Ok(plan),
        None => {
            let most = Most { portion: usize::MAX, ..most };
            Ok(compared(ours, theirs, leaves_out, most)?.unwrap_or_default())
        }
    }
}

/// See [`merge`]; `None` if it has to be done at once and is more than a portion.
fn compared(
    ours: &dyn Paths,
    theirs: &dyn Paths,
    leaves_out: &dyn Fn(&[u8], bool) -> bool,
    most: Most,
) -> Result<Option<Plan>, FolderError> {
    let mut merging = Merging { plan: Plan::default(), met: Vec::new(), size: ours.size(), most };
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
        if plan.put.len().max(plan.known.len()) > most.portion {
            plan.rest = true;
            plan.put.truncate(most.portion);
            plan.known.truncate(most.portion);
        }
        let alone = plan.gone.is_empty() && merging.met.is_empty();
        if plan.rest && !alone {
            return Ok(None);
        }
    }
    merging.settle(ours, theirs)?;
    let mut plan = merging.plan;
    plan.gone.reverse();
    Ok(Some(plan))
}

/// A plan in the making.
struct Merging {
    plan: Plan,
    /// What both have changed.
    met: Vec<Met>,
    /// How large our index is, with what was taken.
    size: IndexSize,
    most: Most,
}

/// A path that both have changed, neither knowing of the other.
struct Met {
    path: Vec<u8>,
    /// What is to be there,
    item: Item,
    /// instead of this.
    before: Item,
    /// What lost, and whose it was.
    lost: Item,
    whose: Whose,
}

impl Merging {
    /// What is to be done for what they have at a path.
    fn take(&mut self, path: Vec<u8>, their: Item, our: Option<&Item>) {
        let (item, lost) = match our {
            None => (their.clone(), None),
            Some(our) if our.absent => return,
            Some(our) => joined(our, &their),
        };
        if our.is_some_and(|our| *our == item) {
            return;
        }
        if let Err(why) = self.count(&path, &item, our) {
            return self.refuse(path, why.to_owned());
        }
        let before = our.cloned().unwrap_or_else(Item::none);
        match lost {
            None => self.plan.step(path, item, before.kind),
            Some(whose) => {
                let lost = if whose == Whose::Ours { before.clone() } else { their };
                self.met.push(Met { path, item, before, lost, whose });
            }
        }
    }

    fn refuse(&mut self, path: Vec<u8>, why: String) {
        if self.plan.refused.len() < MAX_REFUSED {
            self.plan.refused.push((path, why));
        }
    }

    /// Counts what it adds to our index, if that has room for it.
    fn count(&mut self, path: &[u8], item: &Item, our: Option<&Item>) -> Result<(), &'static str> {
        if item.version.entries().len() > self.most.members {
            return Err("too many members have changed it");
        }
        let old = our.map_or(0, |our| entry_size(path, our));
        let more = entry_size(path, item).saturating_sub(old);
        let paths = self.size.paths.saturating_add(u64::from(our.is_none()));
        let bytes = self.size.bytes.saturating_add(more);
        // What was removed before we knew of it leaves room for what is there.
        let part = if our.is_none() && item.kind.is_gone() { 2 } else { 1 };
        let full = paths > self.most.size.paths / part || bytes > self.most.size.bytes / part;
        if full && more > 0 {
            return Err("this folder has as many paths as can be kept in step");
        }
        self.size = IndexSize { paths, bytes };
        Ok(())
    }

    /// Finds names for what lost, unless somebody has done so before.
    fn settle(&mut self, ours: &dyn Paths, theirs: &dyn Paths) -> Result<(), FolderError> {
        if self.met.is_empty() {
            return Ok(());
        }
        let names = |met: &Met| {
            let all = [ours.names(), theirs.names()];
            let whose = all.into_iter().find(|names| names.contains_key(&met.lost.content.by));
            let whose = name(whose.unwrap_or(all[0]), &met.lost.content.by);
            let content = content(&met.lost.kind);
            [SHORT, LONG].map(|len| copy_name(&met.path, &whose, &content, len))
        };
        let named: Vec<[Vec<u8>; 2]> = self.met.iter().map(names).collect();
        let mut known: BTreeMap<&[u8], Vec<Item>> =
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
            let to = free(&met.lost, names, &known);
            let Met { path, item, before, lost, whose } = met;
            match to {
                Some(to) => {
                    if let Err(why) = check(to, &lost) {
                        self.refuse(path, format!("a copy of it can't be kept: {why}"));
                        continue;
                    }
                    if let Err(why) = self.count(to, &lost, None) {
                        self.refuse(path, why.to_owned());
                        continue;
                    }
                    let beaten = Some(Beaten { to: to.to_vec(), item: lost, whose });
                    self.plan.put.push(Place { path, item, before: before.kind, beaten });
                }
                None => self.plan.step(path, item, before.kind),
            }
        }
        self.plan.put.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }
}

/// The first of these names of which nobody knows anything; `None`: under one of them somebody has kept it already, or has seen
/// it so and removed it.
fn free<'a>(
    lost: &Item,
    names: &'a [Vec<u8>],
    known: &BTreeMap<&[u8], Vec<Item>>,
) -> Option<&'a [u8]> {
    for name in names {
        let items = known.get(name.as_slice()).map_or(&[][..], Vec::as_slice);
        let settles = |item: &Item| {
            item.version.has_seen(lost.content) || item.kind.has_content_of(&lost.kind)
        };
        if items.iter().any(settles) {
            return None;
        }
        if items.is_empty() {
            return Some(name);
        }
    }
    // Both names stand for something else: what is in the place of the longer one is held against it when it is put.
    names.last().map(Vec::as_slice)
}

impl Plan {
    /// What is to be done so that a path is this.
    fn step(&mut self, path: Vec<u8>, item: Item, before: ItemKind) {
        if item.kind == before {
            self.known.push((path, item));
        } else if item.kind.is_gone() {
            self.gone.push(Place { path, item, before, beaten: None });
        } else {
            self.put.push(Place { path, item, before, beaten: None });
        }
    }
}

/// What comes of two versions of a path, and which of the two contents has to be kept under another name.
pub(super) fn joined(our: &Item, their: &Item) -> (Item, Option<Whose>) {
    match our.version.order(&their.version) {
        Some(Ordering::Less) => return (their.clone(), None),
        Some(Ordering::Greater) => return (our.clone(), None),
        Some(Ordering::Equal) if our == their => return (our.clone(), None),
        Some(Ordering::Equal) | None => {}
    }
    let (winner, lost) = stronger(our, their);
    let mut item = match winner {
        Some(Whose::Ours) => our.clone(),
        Some(Whose::Theirs) => their.clone(),
        // Each was replaced or removed by somebody who had seen it.
        None => {
            let last = if our.content > their.content { our } else { their };
            Item { kind: ItemKind::Gone, described: last.content, ..last.clone() }
        }
    };
    describe(&mut item, our, their);
    item.version = our.version.joined(&their.version);
    (item, lost)
}

/// Whose content is to be there (`None`: nobody's), and whose has to be kept elsewhere.
fn stronger(our: &Item, their: &Item) -> (Option<Whose>, Option<Whose>) {
    let is_same = our.kind.has_content_of(&their.kind);
    let seen = (their.version.has_seen(our.content), our.version.has_seen(their.content));
    let ours_first = rank(our) > rank(their);
    match seen {
        (false, true) => (Some(Whose::Ours), None),
        (true, false) => (Some(Whose::Theirs), None),
        (true, true) if our.content != their.content => (None, None),
        // One change is one content, unless somebody lies: that is as good as a conflict.
        _ => {
            let (winner, loser, lost) = match ours_first {
                true => (Whose::Ours, Whose::Theirs, their),
                false => (Whose::Theirs, Whose::Ours, our),
            };
            let is_kept = !is_same && !lost.kind.is_gone();
            (Some(winner), is_kept.then_some(loser))
        }
    }
}

/// Gives `item`, whose content is that of one of the two, the permissions of the one whose are newer, and its time where that has
/// the same content. Who changes a file leaves its permissions to whoever changes those.
fn describe(item: &mut Item, our: &Item, their: &Item) {
    let is_alike =
        |one: &Item| std::mem::discriminant(&one.kind) == std::mem::discriminant(&item.kind);
    if !is_alike(our) || !is_alike(their) || item.kind.description().is_none() {
        return;
    }
    let seen = (their.version.has_seen(our.described), our.version.has_seen(their.described));
    let order = |one: &Item| (one.described, one.kind.description());
    let newer = match seen {
        (false, true) => our,
        (true, false) => their,
        _ if order(our) > order(their) => our,
        _ => their,
    };
    if newer.kind.has_content_of(&item.kind) {
        item.kind = item.kind.clone().described_as(&newer.kind);
    } else {
        item.kind = item.kind.clone().with_mode_of(&newer.kind);
    }
    item.described = newer.described;
}

/// Who of two wins that nobody has seen together: what is there, a directory, the later change, and if that says nothing any order
/// that all agree on.
fn rank(item: &Item) -> (bool, bool, u64, [u8; 8], u64, [u8; 32]) {
    let Item { kind, content: dot, edited_ms, .. } = item;
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

/// The name of the copy that the version of a member of this name is kept under.
pub(super) fn beside(path: &[u8], whose: &str, kind: &ItemKind) -> Vec<u8> {
    copy_name(path, whose, &content(kind), SHORT)
}

#[cfg(test)]
mod simulated {
    mod tests;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::index::Index;
    use crate::folder::vector::MemberId;
    use proptest::prelude::*;

    const ALICE: MemberId = [1; 8];
    const BOB: MemberId = [2; 8];

    pub(super) fn file(content: &str) -> ItemKind {
        let root = xylem_hash::hash(content.as_bytes());
        ItemKind::File { root, size: content.len() as u64, mode: 0o644, mtime: (0, 0) }
    }

    /// One member, whose disk is its index.
    #[derive(Clone, Debug)]
    pub(super) struct Member {
        pub(super) id: MemberId,
        pub(super) index: Index,
    }

    impl Member {
        pub(super) fn new(id: MemberId, name: &str) -> Self {
            let mut index = Index::default();
            index.names.insert(id, name.to_owned());
            Self { id, index }
        }

        pub(super) fn set(&mut self, path: &str, kind: ItemKind, now: u64) {
            self.set_of(path, kind, now, now);
        }

        /// The file was written at `edited`, and that is seen `now`.
        pub(super) fn set_of(&mut self, path: &str, kind: ItemKind, edited: u64, now: u64) {
            let item = self.index.items.entry(path.into()).or_insert_with(Item::none);
            item.changed(kind, self.id, edited, now);
        }

        /// Takes over what another has, as the folder would.
        pub(super) fn hear(&mut self, other: &Self) -> Plan {
            self.hear_by(other, PORTION).pop().unwrap()
        }

        fn hear_by(&mut self, other: &Self, portion: usize) -> Vec<Plan> {
            let mut plans = Vec::new();
            loop {
                let most = Most { portion, ..MOST };
                let plan = bounded(&self.index, &other.index, &|_, _| false, most).unwrap();
                for (path, item) in plan.known.clone() {
                    assert_eq!(self.kind(&path), item.kind, "known is what is there");
                    self.index.items.insert(path, item);
                }
                for Place { path, item, before, beaten } in
                    plan.gone.iter().chain(&plan.put).cloned()
                {
                    assert_eq!(self.kind(&path), before);
                    if let Some(Beaten { to, item, .. }) = beaten {
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
        let met = plan.put.iter().filter(|place| place.beaten.is_some());
        met.map(|place| place.path.as_slice()).collect()
    }

    fn two() -> (Member, Member) {
        let (mut alice, bob) = (Member::new(ALICE, "alice"), Member::new(BOB, "bob"));
        alice.set("a", file("1"), 1);
        let mut bob = bob;
        bob.hear(&alice);
        (alice, bob)
    }

    #[test]
    fn what_one_has_changed_the_other_takes() {
        let (mut alice, mut bob) = two();
        assert_eq!(bob.files(), ["a"]);
        bob.set("a", file("2"), 2);
        let plan = alice.hear(&bob);
        assert_eq!(plan.put.len(), 1);
        assert_eq!(plan.put[0].before, file("1"));
        assert!(bob.hear(&alice).is_empty(), "they are in step");
        bob.set("a", ItemKind::Gone, 3);
        assert_eq!(alice.hear(&bob).gone.len(), 1);
        assert_eq!(alice.index.state(), bob.index.state());
    }

    #[test]
    fn a_conflict_keeps_both_and_says_whose() {
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
    fn what_only_comes_does_in_portions_and_what_is_renamed_at_once() {
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
        assert_eq!((sizes(&plans), plans[0].gone.len()), (vec![5], 5));
        assert_eq!(bob.index.state(), alice.index.state());
    }

    #[test]
    fn what_was_changed_outlives_what_was_removed() {
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
        /// Members change, remove and hear of one another in any order: when all have heard all, all have the same.
        #[test]
        fn members_converge(steps in proptest::collection::vec((0..3_usize, 0..6_u8, 0..3_usize), 1..60)) {
            let mut members = [([3; 8], "carol"), (ALICE, "alice"), (BOB, "bob")]
                .map(|(id, name)| Member::new(id, name));
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

    /// Who settles a conflict says so; who hears that it is settled does not.
    #[test]
    fn a_conflict_is_met_once() {
        let (mut alice, mut bob) = (Member::new(ALICE, "alice"), Member::new(BOB, "bob"));
        alice.set("a", file("alice's"), 1);
        bob.set("a", file("bob's"), 2);
        let plan = |ours: &Member, theirs: &Member| {
            merge(&ours.index, &theirs.index, &|_, _| false).unwrap()
        };
        assert_eq!(met(&plan(&alice, &bob)), [b"a"]);
        assert_eq!(met(&plan(&bob, &alice)), [b"a"]);
        alice.hear(&bob);
        let settled = plan(&bob, &alice);
        assert!(!settled.put.is_empty() && met(&settled).is_empty(), "{settled:?}");
        // Nor who has the copy already, and hears of the one that lost once more.
        let (mut carol, mut dave) = (Member::new(ALICE, "alice"), Member::new(BOB, "bob"));
        carol.set("a", file("alice's, the later one"), 5);
        dave.set("a", file("bob's"), 2);
        assert_eq!(met(&plan(&carol, &dave)), [b"a"]);
        let copy = beside(b"a", "bob", &file("bob's"));
        carol.set(std::str::from_utf8(&copy).unwrap(), file("bob's"), 6);
        let again = plan(&carol, &dave);
        assert!(again.put.is_empty(), "{again:?}");
    }

    fn file_of(content: &str, mode: u32, mtime: i64) -> ItemKind {
        file(content).described_as(&ItemKind::File {
            root: xylem_hash::hash(b""),
            size: 0,
            mode,
            mtime: (mtime, 0),
        })
    }

    /// Both hear what the other had.
    fn exchange(one: &mut Member, other: &mut Member) -> [Plan; 2] {
        let before = one.clone();
        let plans = [one.hear(other), other.hear(&before)];
        assert_eq!(one.index.items, other.index.items);
        plans
    }

    /// Two settle a conflict apart, each having heard of a third's removal before or not: the time of that decides nothing.
    #[test]
    fn members_who_settle_a_conflict_apart_agree_whatever_a_third_has_removed() {
        let (mut ann, mut bob) = (Member::new([9; 8], "ann"), Member::new(BOB, "bob"));
        ann.set("x", file("1"), 1);
        bob.hear(&ann);
        let mut cyd = Member { id: [3; 8], index: bob.index.clone() };
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

    /// What somebody has removed who had seen it does not come back because another has joined it with something else.
    #[test]
    fn what_was_removed_by_who_had_seen_it_stays_so() {
        let (mut alice, mut bob) = two();
        alice.set("a", file("alice's"), 10);
        bob.set("a", file("bob's"), 11);
        let mut carol = Member::new([3; 8], "carol");
        carol.hear(&bob);
        exchange(&mut alice, &mut bob);
        assert!(alice.kind(b"a").has_content_of(&file("bob's")));
        carol.set("a", ItemKind::Gone, 12);
        let plans = exchange(&mut alice, &mut carol);
        assert_eq!(plans[0].gone.len(), 1);
        assert_eq!(
            alice.files(),
            [String::from_utf8(beside(b"a", "alice", &file("alice's"))).unwrap()]
        );
    }

    /// The later edit has the name, whenever it is noticed.
    #[test]
    fn what_was_edited_last_has_the_name_and_not_what_was_noticed_last() {
        let (mut ann, mut bob) = two();
        ann.set_of("a", file("ann's, later"), 5_000, 5_001);
        bob.set_of("a", file("bob's, noticed later"), 2_000, 9_000);
        exchange(&mut ann, &mut bob);
        assert!(ann.kind(b"a").has_content_of(&file("ann's, later")));
        // A time ahead of its member's clock is no later one.
        let mut item = Item::none();
        item.changed(file("x"), BOB, u64::MAX, 7);
        assert_eq!((item.edited_ms, item.newest()), (7, 7));
    }

    /// Permissions and times are no content: they travel, and there is no copy because of them.
    #[test]
    fn permissions_and_times_travel_and_are_no_conflict() {
        let (mut alice, mut bob) = two();
        alice.set("a", file_of("1", 0o755, 0), 10);
        let plan = bob.hear(&alice);
        assert_eq!((plan.put.len(), plan.wanted(&alice.index).unwrap().len()), (1, 0));
        // Apart from each other: the later one, and no copy.
        alice.set("a", file_of("1", 0o700, 0), 20);
        bob.set("a", file_of("1", 0o600, 5), 21);
        exchange(&mut alice, &mut bob);
        assert_eq!((alice.kind(b"a"), alice.files().len()), (file_of("1", 0o600, 5), 1));
        // One edits, the other permits, whichever is the later: both count.
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

    /// The same file made twice, with another umask: one file.
    #[test]
    fn the_same_content_under_other_permissions_makes_no_copy() {
        let (mut alice, mut bob) = (Member::new(ALICE, "alice"), Member::new(BOB, "bob"));
        alice.set("a", file_of("1", 0o644, 1), 1);
        bob.set("a", file_of("1", 0o664, 2), 2);
        exchange(&mut alice, &mut bob);
        assert_eq!(alice.files(), ["a"]);
        assert_eq!(alice.kind(b"a"), file_of("1", 0o664, 2));
    }

    /// Whoever puts a copy that lost back over the name has changed the file once more, and hears of others' changes as before.
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

    /// A copy's name that stands for something else by now is left alone.
    #[test]
    fn a_copy_whose_name_is_taken_gets_a_longer_one() {
        let (mut alice, mut bob) = two();
        let copy = beside(b"a", "alice", &file("alice's"));
        bob.set(std::str::from_utf8(&copy).unwrap(), file("something else"), 5);
        alice.set("a", file("alice's"), 10);
        bob.set("a", file("bob's"), 11);
        exchange(&mut alice, &mut bob);
        assert!(alice.kind(&copy).has_content_of(&file("something else")));
        let long = copy_name(b"a", "alice", &content(&file("alice's")), LONG);
        assert!(alice.kind(&long).has_content_of(&file("alice's")));
    }

    /// Copies of links are told apart as those of files are.
    #[test]
    fn a_copy_of_a_link_is_named_by_its_target() {
        let link = |target: &str| ItemKind::Symlink { target: target.into() };
        assert_ne!(beside(b"a", "bob", &link("x")), beside(b"a", "bob", &link("y")));
    }

    /// What others say never makes our index one that is not read; and the rest of what they say is taken.
    #[test]
    fn what_would_make_our_index_too_large_is_refused_path_by_path() {
        let (alice, mut bob) = two();
        let crowd = |item: &mut Item, count: u64| {
            for n in 0..count {
                item.version.changed((n + 1_000).to_be_bytes(), 1);
            }
        };
        crowd(bob.index.items.get_mut(b"a".as_slice()).unwrap(), MAX_MEMBERS as u64 - 4);
        bob.set("b", file("good"), 5);
        let mut ours = alice.clone();
        let plan = ours.hear(&bob);
        let refused = |plan: &Plan| plan.refused.iter().map(|(p, _)| p.clone()).collect::<Vec<_>>();
        assert_eq!(refused(&plan), [b"a"]);
        assert!(!ours.kind(b"b").is_gone());
        // Removals of what we never had leave room for what is there.
        let size = |paths| IndexSize { paths, bytes: 10_000 };
        let bounded = |theirs: &Member, paths| {
            let most = Most { size: size(paths), ..MOST };
            bounded(&alice.index, &theirs.index, &|_, _| false, most).unwrap()
        };
        let mut carol = Member::new([3; 8], "carol");
        for n in 0..10 {
            carol.set(&format!("removed {n}"), ItemKind::Gone, 1);
            carol.set(&format!("there {n}"), file("x"), 1);
        }
        let plan = bounded(&carol, 10);
        assert_eq!((plan.known.len(), plan.put.len(), plan.refused.len()), (4, 5, 11));
        // What is known already may change all the same.
        let mut dave = alice.clone();
        dave.set("a", ItemKind::Gone, 9);
        assert_eq!(bounded(&dave, 1).gone.len(), 1);
        // A copy's name that would be too long is no copy; ours stays.
        let deep = format!("{}{}", "y/".repeat(490), "x".repeat(200));
        let deep = format!("{}/{deep}", ["z"; 14].map(|z| z.repeat(207)).join("/"));
        let (mut ours, mut theirs) = (Member::new(ALICE, "alice"), Member::new(BOB, "bob"));
        ours.set(&deep, file("ours"), 1);
        theirs.set(&deep, file("theirs"), 2);
        assert!(check(deep.as_bytes(), &Item::none()).is_ok(), "{}", deep.len());
        let plan = ours.hear(&theirs);
        assert_eq!((refused(&plan), met(&plan).len()), (vec![deep.as_bytes().to_vec()], 0));
    }

    proptest! {
        /// Whatever lawful index is merged into ours: what we have then is written, and read again.
        #[test]
        fn what_was_merged_is_written_and_read(
            all in proptest::collection::vec((0..4_usize, 0..2_usize, 0..5_u8, 0..700_u64), 1..12),
        ) {
            let mut members = [(ALICE, "alice"), (BOB, "bob")].map(|(id, name)| Member::new(id, name));
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
                    item.version.changed((n + 1_000 * who as u64).to_be_bytes(), 1);
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
