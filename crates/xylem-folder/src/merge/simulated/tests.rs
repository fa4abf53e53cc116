//! Simulates many histories of small folders, each settled in several orders. The default number takes some seconds;
//! `XYLEM_MERGES` sets another one. From 614,656 on, all histories of two members and four steps are covered.

use std::collections::{BTreeMap, HashMap, HashSet};

use xylem_files::copies::copy_of;

use super::super::tests::{SimulatedMember, file};
use super::super::*;
use crate::vector::Dot;

/// A member's action on its folder, as the next scan sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Write(&'static str),
    /// Writes with a time long ago, as unpacking an archive does.
    WriteOld(&'static str),
    /// Writes a content that another member may write, too.
    WriteSame(&'static str),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    MakeDirectory(&'static str),
    Permit(&'static str),
    RemoveCopy,
    PutCopyBack,
    /// Takes over the folder of the member this many positions on.
    Hear(usize),
}

const STEPS: [Step; 15] = [
    Step::Write("a"),
    Step::Hear(1),
    Step::Remove("a"),
    Step::WriteOld("a"),
    Step::WriteSame("a"),
    Step::Rename("a", "b"),
    Step::Rename("b", "a"),
    Step::MakeDirectory("a"),
    Step::Permit("a"),
    Step::Write("b"),
    Step::Remove("b"),
    Step::RemoveCopy,
    Step::PutCopyBack,
    Step::Permit("b"),
    Step::Hear(2),
];

/// Members, and what must remain at the end of everything that they wrote.
#[derive(Clone)]
struct World {
    members: Vec<SimulatedMember>,
    now: u64,
    /// Contents, and whether a member that had one replaced or removed it.
    written: HashMap<Hash, bool>,
    /// Changes of a path that a member that had seen them replaced or removed.
    replaced: HashSet<(Vec<u8>, Dot)>,
}

impl World {
    /// All members have the same file.
    fn new(members: usize) -> Self {
        let names = ["ann", "bob", "cyd"].iter().zip(1_u8..).take(members);
        let members = names.map(|(name, id)| SimulatedMember::new([id; 8], name)).collect();
        let (written, replaced) = (HashMap::new(), HashSet::new());
        let mut world = Self { members, now: 100, written, replaced };
        world.take(0, Step::Write("a"));
        let first = world.members[0].clone();
        world.members.iter_mut().skip(1).for_each(|member| drop(member.hear(&first)));
        world
    }

    fn take(&mut self, who: usize, step: Step) {
        self.now += 10;
        let (now, there) = (self.now, |path: &str| self.members[who].kind(path.as_bytes()));
        match step {
            Step::Write(path) => self.set(who, path, file(&now.to_string()), now),
            Step::WriteOld(path) => self.set(who, path, file(&now.to_string()), 1),
            Step::WriteSame(path) => self.set(who, path, file("same"), now),
            Step::Remove(path) => self.set(who, path, ItemKind::Gone, now),
            Step::MakeDirectory(path) => {
                self.set(who, path, ItemKind::Directory { mode: 0o755 }, now);
            }
            Step::Rename(from, to) => {
                let kind = there(from);
                if let Some(root) = kind.root() {
                    let before = self.written[&root];
                    self.set(who, to, kind, now);
                    self.set(who, from, ItemKind::Gone, now);
                    // The content still exists under another name.
                    self.written.insert(root, before);
                }
            }
            Step::Permit(path) => {
                let mode = 0o600 + u32::try_from(now % 64).unwrap();
                let other = match there(path) {
                    ItemKind::File { root, size, mtime, .. } => {
                        ItemKind::File { root, size, mode, mtime }
                    }
                    ItemKind::Directory { .. } => ItemKind::Directory { mode },
                    kind => kind,
                };
                self.set(who, path, other, now);
            }
            Step::RemoveCopy => {
                if let Some(copy) = self.copy(who) {
                    self.set(who, &copy, ItemKind::Gone, now);
                }
            }
            Step::PutCopyBack => {
                if let Some(copy) = self.copy(who) {
                    let (kind, path) = (there(&copy), copy.split('.').next().unwrap().to_owned());
                    self.set(who, &path, kind, now);
                }
            }
            Step::Hear(on) => self.hear(who, (who + on) % self.members.len()),
        }
    }

    fn copy(&self, who: usize) -> Option<String> {
        self.members[who].files().into_iter().find(|path| copy_of(path.as_bytes()).is_some())
    }

    /// A member changes a path; setting it to the same item is no change.
    fn set(&mut self, who: usize, path: &str, kind: ItemKind, edited: u64) {
        let member = &mut self.members[who];
        let none = IndexItem::none();
        let item = member.index.items.get(path.as_bytes()).unwrap_or(&none);
        if item.kind == kind {
            return;
        }
        if !item.kind.has_content_of(&kind) {
            self.replaced.insert((path.into(), item.content));
            if let Some(root) = item.kind.root() {
                self.written.insert(root, true);
            }
        }
        if let Some(root) = kind.root() {
            self.written.entry(root).or_insert(false);
        }
        member.set_of(path, kind, edited, self.now);
    }

    fn hear(&mut self, who: usize, from: usize) {
        if who != from {
            let other = self.members[from].clone();
            self.members[who].hear(&other);
        }
    }

    fn is_settled(&self) -> bool {
        self.members.iter().all(|member| member.index.items == self.members[0].index.items)
    }

    /// All members exchange in this order, until nothing changes.
    fn settle(mut self, order: &[(usize, usize)]) -> Result<Self, String> {
        for _ in 0..6 {
            order.iter().for_each(|(who, from)| self.hear(*who, *from));
            if self.is_settled() {
                return self.judged();
            }
        }
        Err(format!("they never agree: {:?}", self.members.iter().map(|m| &m.index.items)))
    }

    /// Two members take over what the other had.
    fn exchanged(mut self) -> Result<Self, String> {
        let [one, other] = [self.members[0].clone(), self.members[1].clone()];
        self.members[0].hear(&other);
        self.members[1].hear(&one);
        if self.is_settled() { self.judged() } else { Err("they do not agree at once".into()) }
    }

    /// Checks the result. A content that no member replaced or removed must exist. A change that a member replaced or
    /// removed after seeing it must not.
    fn judged(self) -> Result<Self, String> {
        let items = &self.members[0].index.items;
        let there: HashSet<Hash> = items.values().filter_map(|item| item.kind.root()).collect();
        if let Some((root, _)) = self.written.iter().find(|(root, r)| !**r && !there.contains(root))
        {
            return Err(format!("{root} is lost: {items:?}"));
        }
        for (path, item) in items.iter().filter(|(_, item)| !item.kind.is_gone()) {
            if self.replaced.contains(&(path.clone(), item.content)) {
                return Err(format!("{:?} came back: {items:?}", String::from_utf8_lossy(path)));
            }
        }
        Ok(self)
    }

    fn items(&self) -> &BTreeMap<Vec<u8>, IndexItem> {
        &self.members[0].index.items
    }
}

/// Number of histories of one kind.
fn count(default: u64) -> u64 {
    std::env::var("XYLEM_MERGES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// All interleavings of two members and four steps, or an even sample. They end alike whichever member takes over
/// first.
#[test]
fn two_members_agree_after_any_four_steps() {
    let choices = 2 * (STEPS.len() as u64 - 1);
    let all = choices.pow(4);
    let count = count(12_000).min(all);
    for n in 0..count {
        let number = n * all / count;
        let mut world = World::new(2);
        let digits = (0..4).map(|at| number / choices.pow(at) % choices);
        let steps: Vec<(usize, Step)> = digits
            .map(|d| (usize::from(d % 2 == 1), STEPS[usize::try_from(d / 2).unwrap()]))
            .collect();
        steps.iter().for_each(|(who, step)| world.take(*who, *step));
        let ends = [
            world.clone().settle(&[(0, 1), (1, 0)]),
            world.clone().settle(&[(1, 0), (0, 1)]),
            world.exchanged(),
        ];
        let [one, other, both] =
            ends.map(|end| end.unwrap_or_else(|why| panic!("{steps:?}: {why}")));
        assert_eq!(one.items(), other.items(), "{steps:?}");
        assert_eq!(one.items(), both.items(), "{steps:?}");
    }
}

/// Three members in any order: they agree, and nothing is lost or comes back.
#[test]
fn three_members_agree_in_sampled_histories() {
    // xorshift64*, from the same seed each time.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let drawn = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(drawn).unwrap() % below
    };
    for _ in 0..count(4_000) {
        let mut world = World::new(3);
        let steps: Vec<(usize, Step)> = (0..3 + random(8))
            .map(|_| match random(3) {
                0 => (random(3), Step::Hear(1 + random(2))),
                _ => (random(3), STEPS[random(STEPS.len())]),
            })
            .collect();
        steps.iter().for_each(|(who, step)| world.take(*who, *step));
        let mut order = vec![(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)];
        for at in (1..order.len()).rev() {
            order.swap(at, random(at + 1));
        }
        if let Err(why) = world.settle(&order) {
            panic!("{steps:?}, then {order:?}: {why}");
        }
    }
}
