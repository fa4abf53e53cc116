//! [`merge`]: what is to be done here so that nothing of another member's folder is missed.
//!
//! All members come to the same answers whoever asks whom first: who wins where two have changed the same path is a
//! matter of the two versions alone.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use xylem_hash::Hash;

use super::index::{Item, ItemKind, Names, name};
use super::local::FolderError;
use super::stored::Paths;

/// Bytes of a file name at most.
const MAX_COMPONENT: usize = 255;
/// What comes or is noted at once, as far as nothing goes: who joins a large folder needs no memory for all of it.
const PORTION: usize = 10_000;

/// Before the name of whoever's version a copy is.
const MARK: &str = ".conflict-";

/// Something that is to come to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where.
    pub path: Vec<u8>,
    /// What, in which version.
    pub item: Item,
    /// What has to be there until then; anything else was changed here meanwhile, and stays.
    pub before: ItemKind,
}

/// What [`merge`] finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Versions to be noted; the folder has what they say.
    pub known: Vec<(Vec<u8>, Item)>,
    /// What lost against another member's: it is moved to this other path first.
    pub aside: Vec<(Vec<u8>, Place)>,
    /// What goes; what lies inside comes first.
    pub gone: Vec<Place>,
    /// What comes, directories first. Files are fetched.
    pub put: Vec<Place>,
    /// What both have changed, and of which both are kept from now on.
    pub met: Vec<Vec<u8>>,
    /// More is to be done after this.
    pub rest: bool,
}

impl Plan {
    /// Whether nothing is to be done or noted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The time of the last change among all versions that it takes over, in ms since 1970.
    pub fn newest(&self) -> u64 {
        let places = self.gone.iter().chain(&self.put).map(|place| &place.item);
        let items = self.known.iter().map(|(_, item)| item).chain(places);
        items.map(|item| item.version.newest()).max().unwrap_or(0)
    }

    /// Where in the other member's folder the content of the files lies that are to come.
    ///
    /// # Errors
    /// The index can't be read.
    pub fn wanted(&self, theirs: &dyn Paths) -> Result<HashMap<Hash, Vec<u8>>, FolderError> {
        let root = |kind: &ItemKind| match kind {
            ItemKind::File { root, .. } => Some(*root),
            _ => None,
        };
        let mut wanted: HashMap<Hash, Option<Vec<u8>>> =
            self.put.iter().filter_map(|place| Some((root(&place.item.kind)?, None))).collect();
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        for entry in theirs.entries()? {
            let (path, item) = entry?;
            // The first in order is never another name of an earlier one.
            if !item.absent
                && let Some(at @ None) = root(&item.kind).and_then(|root| wanted.get_mut(&root))
            {
                *at = Some(path);
            }
        }
        Ok(wanted.into_iter().filter_map(|(root, path)| Some((root, path?))).collect())
    }
}

/// Holds another member's index against ours. `leaves_out` says which paths are none of this folder's (its second
/// argument: whether that is a directory). Where nothing goes and nothing is in the way, what comes may be the first of several
/// [portions](Plan::rest): what goes needs a whole plan, since it may be the copy of what comes.
///
/// # Errors
/// One of them can't be read.
pub fn merge(
    ours: &dyn Paths,
    theirs: &dyn Paths,
    leaves_out: &dyn Fn(&[u8], bool) -> bool,
) -> Result<Plan, FolderError> {
    in_portions(ours, theirs, leaves_out, PORTION)
}

fn in_portions(
    ours: &dyn Paths,
    theirs: &dyn Paths,
    leaves_out: &dyn Fn(&[u8], bool) -> bool,
    portion: usize,
) -> Result<Plan, FolderError> {
    match compared(ours, theirs, leaves_out, portion)? {
        Some(plan) => Ok(plan),
        None => Ok(compared(ours, theirs, leaves_out, usize::MAX)?.unwrap_or_default()),
    }
}

/// See [`merge`]; `None` if it has to be done at once and is more than `portion`.
fn compared(
    ours: &dyn Paths,
    theirs: &dyn Paths,
    leaves_out: &dyn Fn(&[u8], bool) -> bool,
    portion: usize,
) -> Result<Option<Plan>, FolderError> {
    let (mut plan, mut beside) = (Plan::default(), Vec::new());
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
        beside.extend(plan.take(path, their, our, (ours.names(), theirs.names())));
        if plan.put.len().max(plan.known.len()) > portion {
            plan.rest = true;
            plan.put.truncate(portion);
            plan.known.truncate(portion);
        }
        let alone = plan.gone.is_empty() && plan.met.is_empty() && beside.is_empty();
        if plan.rest && !alone {
            return Ok(None);
        }
    }
    plan.gone.reverse();
    if !beside.is_empty() {
        let mut free: HashSet<Vec<u8>> = beside.iter().map(|(to, ..)| to.clone()).collect();
        for entry in ours.entries()? {
            // Somebody has settled this conflict before.
            free.remove(&entry?.0);
        }
        for (to, item, path) in beside.into_iter().filter(|(to, ..)| free.contains(to)) {
            plan.put(&to, item, ItemKind::Gone);
            plan.met.push(path);
        }
    }
    Ok(Some(plan))
}

impl Plan {
    /// What is to be done for what they have at a path; returns what of it is to be put beside ours, as [`Plan::meet`] does, and
    /// the path.
    fn take(
        &mut self,
        path: Vec<u8>,
        their: Item,
        our: Option<&Item>,
        names: (&Names, &Names),
    ) -> Option<(Vec<u8>, Item, Vec<u8>)> {
        let Some(our) = our else {
            if their.kind.is_gone() {
                self.known.push((path, their));
            } else {
                self.put(&path, their, ItemKind::Gone);
            }
            return None;
        };
        if our.absent {
            return None;
        }
        match their.version.order(&our.version) {
            Some(Ordering::Less) => {}
            Some(Ordering::Equal) if our.kind.is_same(&their.kind) => {}
            Some(Ordering::Greater) if our.kind.is_same(&their.kind) => {
                self.known.push((path, Item { kind: our.kind.clone(), ..their }));
            }
            Some(Ordering::Greater) if their.kind.is_gone() => {
                let before = our.kind.clone();
                self.gone.push(Place { path, item: their, before });
            }
            Some(Ordering::Greater) => self.put(&path, their, our.kind.clone()),
            // One version is one content, unless somebody lies: it is as good as a conflict.
            None | Some(Ordering::Equal) => {
                let theirs = self.meet(&path, names, (our, &their));
                return theirs.map(|(to, item)| (to, item, path));
            }
        }
        None
    }

    fn put(&mut self, path: &[u8], item: Item, before: ItemKind) {
        self.put.push(Place { path: path.to_vec(), item, before });
    }

    /// Both have changed it, neither knowing of the other. Returns what of theirs is to be put beside ours, and where, unless
    /// that is known here.
    fn meet(
        &mut self,
        path: &[u8],
        (ours, theirs): (&Names, &Names),
        (our, their): (&Item, &Item),
    ) -> Option<(Vec<u8>, Item)> {
        let version = our.version.joined(&their.version);
        let with = |item: &Item| Item { version: version.clone(), ..item.clone() };
        if our.kind.is_same(&their.kind) {
            let by = our.by.max(their.by);
            self.known.push((path.to_vec(), Item { by, ..with(our) }));
            return None;
        }
        // What was changed outlives what was removed.
        if their.kind.is_gone() {
            self.known.push((path.to_vec(), with(our)));
            return None;
        }
        if our.kind.is_gone() {
            self.put(path, with(their), ItemKind::Gone);
            return None;
        }
        let loser = if rank(our) > rank(their) { their } else { our };
        let names = if ours.contains_key(&loser.by) { ours } else { theirs };
        let aside = aside(path, &name(names, &loser.by), &content(&loser.kind));
        if std::ptr::eq(loser, their) {
            self.known.push((path.to_vec(), with(our)));
            return Some((aside, their.clone()));
        }
        let before = our.kind.clone();
        self.met.push(path.to_vec());
        self.aside.push((aside, Place { path: path.to_vec(), item: our.clone(), before }));
        self.put(path, with(their), ItemKind::Gone);
        None
    }
}

/// Who of two wins: a directory, the later change, and if that says nothing any order that all agree on.
fn rank(item: &Item) -> (bool, u64, [u8; 8], [u8; 32]) {
    (item.kind.is_directory(), item.version.newest(), item.by, content(&item.kind))
}

fn content(kind: &ItemKind) -> [u8; 32] {
    match kind {
        ItemKind::File { root, .. } => *root.as_bytes(),
        ItemKind::Symlink { target } => *xylem_hash::hash(target).as_bytes(),
        ItemKind::Gone | ItemKind::Directory { .. } => [0; 32],
    }
}

/// `notes.txt` of Alice's becomes `notes.conflict-alice-1a2b3c4d.txt`: the same name for everybody who finds the conflict.
pub(super) fn aside(path: &[u8], whose: &str, content: &[u8; 32]) -> Vec<u8> {
    let name_at = path.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
    let (folder, name) = path.split_at(name_at);
    let dot = name.iter().rposition(|b| *b == b'.').filter(|at| *at > 0).unwrap_or(name.len());
    let (stem, ending) = name.split_at(dot);
    let hex: String = content.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let mark = format!("{MARK}{whose}-{hex}");
    let ending = if mark.len() + ending.len() > MAX_COMPONENT { &[] } else { ending };
    let mut keep = stem.len().min(MAX_COMPONENT - mark.len() - ending.len());
    // Not in the middle of a character.
    while keep > 0 && keep < stem.len() && stem[keep] & 0xC0 == 0x80 {
        keep -= 1;
    }
    [folder, &stem[..keep], mark.as_bytes(), ending].concat()
}

/// Whose version a file is the copy of that lost against another's: what stands after the mark in its name.
pub fn copy_of(path: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(path).ok()?.rsplit('/').next()?;
    let (_, marked) = name.split_once(MARK)?;
    let (whose, hash) = marked.rsplit_once('-')?;
    let hash = hash.get(..8)?;
    (!whose.is_empty() && hash.bytes().all(|b| b.is_ascii_hexdigit())).then_some(whose)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::index::Index;
    use crate::folder::vector::{MemberId, Vector};
    use proptest::prelude::*;

    const ALICE: MemberId = [1; 8];
    const BOB: MemberId = [2; 8];

    fn file(content: &str) -> ItemKind {
        let root = xylem_hash::hash(content.as_bytes());
        ItemKind::File { root, size: content.len() as u64, mode: 0o644, mtime: (0, 0) }
    }

    /// One member, whose disk is its index.
    #[derive(Clone, Debug)]
    struct Member {
        id: MemberId,
        index: Index,
    }

    impl Member {
        fn new(id: MemberId, name: &str) -> Self {
            let mut index = Index::default();
            index.names.insert(id, name.to_owned());
            Self { id, index }
        }

        fn set(&mut self, path: &str, kind: ItemKind, now: u64) {
            let none = Item {
                kind: ItemKind::Gone,
                version: Vector::default(),
                by: self.id,
                absent: false,
            };
            let item = self.index.items.entry(path.into()).or_insert(none);
            item.version.changed(self.id, now);
            (item.kind, item.by) = (kind, self.id);
        }

        /// Takes over what another has, as the folder would.
        fn hear(&mut self, other: &Self) -> Plan {
            self.hear_by(other, PORTION).pop().unwrap()
        }

        fn hear_by(&mut self, other: &Self, portion: usize) -> Vec<Plan> {
            let mut plans = Vec::new();
            loop {
                let plan = in_portions(&self.index, &other.index, &|_, _| false, portion).unwrap();
                for (to, place) in plan.aside.clone() {
                    self.index.items.insert(to, place.item);
                }
                let places = plan.gone.iter().chain(&plan.put);
                let puts = places.map(|place| (place.path.clone(), place.item.clone()));
                self.index.items.extend(plan.known.iter().cloned().chain(puts));
                plans.push(plan);
                if !plans.last().is_some_and(|plan| plan.rest) {
                    return plans;
                }
            }
        }

        fn files(&self) -> Vec<String> {
            let there = self.index.items.iter().filter(|(_, item)| !item.kind.is_gone());
            there.map(|(path, _)| String::from_utf8_lossy(path).into_owned()).collect()
        }
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
        assert!(alice.index.items[b"a".as_slice()].kind.is_same(&file("bob's")), "the later one");
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

    #[test]
    fn names_of_conflicts_fit() {
        let aside =
            |path: &str| String::from_utf8(aside(path.as_bytes(), "bob", &[0xAB; 32])).unwrap();
        assert_eq!(aside("a/b.tar.gz"), "a/b.tar.conflict-bob-abababab.gz");
        assert_eq!(aside(".profile"), ".profile.conflict-bob-abababab");
        assert_eq!(aside("a.b/c"), "a.b/c.conflict-bob-abababab");
        for name in ["é".repeat(127), "x".repeat(255), format!("x.{}", "y".repeat(253))] {
            assert!(aside(&name).len() <= MAX_COMPONENT, "{name}");
        }
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

    #[test]
    fn a_copy_says_whose_it_is() {
        for (path, whose) in
            [("d/notes.txt", "alice"), ("notes", "a-b-c"), (".profile", "bob@home"), ("x.y.z", "é")]
        {
            let copy = aside(path.as_bytes(), whose, &[0x1a; 32]);
            assert_eq!(copy_of(&copy), Some(whose));
            assert_eq!(copy_of(path.as_bytes()), None);
        }
        for path in [
            "a.conflict-",
            "a.conflict-bob",
            "a.conflict-bob-123",
            "a.conflict--12345678",
            "a.conflict-b-1234567é",
        ] {
            assert_eq!(copy_of(path.as_bytes()), None, "{path}");
        }
        assert_eq!(copy_of(b"d.conflict-bob-12345678/plain"), None);
        assert_eq!(copy_of(b"\xff.conflict-bob-12345678"), None);
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
        assert_eq!(plan(&alice, &bob).met, [b"a"]);
        assert_eq!(plan(&bob, &alice).met, [b"a"]);
        alice.hear(&bob);
        let settled = plan(&bob, &alice);
        assert!(!settled.put.is_empty() && settled.met.is_empty(), "{settled:?}");
        // Nor who has the copy already, and hears of the one that lost once more.
        let (mut carol, mut dave) = (Member::new(ALICE, "alice"), Member::new(BOB, "bob"));
        carol.set("a", file("alice's, the later one"), 5);
        dave.set("a", file("bob's"), 2);
        assert_eq!(plan(&carol, &dave).met, [b"a"]);
        let copy = aside(b"a", "bob", &content(&file("bob's")));
        carol.set(std::str::from_utf8(&copy).unwrap(), file("bob's"), 6);
        let again = plan(&carol, &dave);
        assert!(again.put.is_empty() && again.met.is_empty(), "{again:?}");
    }
}
