//! Applies what other members have and we have not.
//!
//! Each file is independent. A file that cannot be fetched, has no room or has to wait is left out of the plan, with a
//! note ([`xylem_folder::Obstacles`]). The rest is fetched and put in place, a portion at a time, the smallest
//! files first. Verified content is kept by its root, so that it serves any version of the folder that contains it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xylem_base::{Blame, Failure, Stop, os_path};
use xylem_files::{Existing, Only, Output, SaveOptions};
use xylem_folder::{Applied, MemberStatement, Obstacle, ObstacleKind, Plan, StoredIndex};
use xylem_hash::Hash;
use xylem_node::wall_clock;
use xylem_object::{PublisherId, Ticket};

use super::{
    MAX_AHEAD_MS, MAX_NAMED, OtherMember, SyncEvent, SyncMember, fetching, pause, warning,
};
use crate::error::SyncError;
use crate::staged::remove_tree;

/// Prefix of the name, in our own directory of the folder, under which content of a member arrives.
const FETCHED: &str = "incoming";
/// Prefix of the name of a member's index there.
const INDEX_OF: &str = "of-";
/// Target duration of a portion, so that fetched content is applied soon.
const PORTION_TIME: Duration = Duration::from_secs(5);
/// Bytes of the first portion.
const FIRST_PORTION: u64 = 64 << 20;
/// Bytes of the smallest portion.
const SMALLEST_PORTION: u64 = 1 << 20;
/// After this long, or as long as the last scan took, the folder is scanned before more is applied.
const TURN: Duration = Duration::from_secs(5);
/// Bytes of the disk that stay free for our own data, beside two indexes.
const RESERVE: u64 = 128 << 10;
/// If a member removes more files at once than this, or more than half of a folder that is not small, the removals wait
/// until our user accepts them.
const MANY_REMOVALS: usize = 1_000;
const SMALL_FOLDER: usize = 20;
/// Names of new files that an event lists.
const MAX_TOLD: usize = 5;
/// Kinds of obstacles that concern another member's version of a path.
const MEMBER_OBSTACLES: [ObstacleKind; 5] = [
    ObstacleKind::NotFetched,
    ObstacleKind::NoRoom,
    ObstacleKind::NotPlaced,
    ObstacleKind::Refused,
    ObstacleKind::Removal,
];

/// State that lasts from one turn to the next.
pub(super) struct ApplyState {
    /// Bytes of the next portion.
    budget: u64,
    /// Paths with an obstacle, by the member whose version is not applied, with the number of that member's statement.
    noted: BTreeMap<PublisherId, (u64, BTreeSet<Vec<u8>>)>,
    /// Removals that our user has accepted.
    accepted: HashSet<Vec<u8>>,
}

impl Default for ApplyState {
    fn default() -> Self {
        Self { budget: FIRST_PORTION, noted: BTreeMap::new(), accepted: HashSet::new() }
    }
}

impl ApplyState {
    /// Adapts the size of the next portion to the time that this one took.
    fn adapt(&mut self, took: Duration) {
        if took < PORTION_TIME / 2 {
            self.budget = self.budget.saturating_mul(2);
        } else if took > PORTION_TIME * 2 {
            self.budget = (self.budget / 2).max(SMALLEST_PORTION);
        }
    }
}

/// The result of a portion.
struct Portion {
    /// Whether anything new is in its place.
    moved: bool,
    /// Whether nothing of it has to be done again.
    whole: bool,
    /// Why the fetch ended before all was there.
    failed: Option<SyncError>,
}

impl SyncMember<'_> {
    /// Applies what a member has and we have not.
    pub(super) fn take_over(
        &mut self,
        member: &PublisherId,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), SyncError> {
        let Some(other) = self.others.get(member) else { return Ok(()) };
        if other.said.state == self.folder.state() {
            self.forget_obstacles(member);
            self.settled(member, ApplyOutcome::All);
            return Ok(());
        }
        let said = other.said.clone();
        let stop = self.stop.part();
        let waits = |who: &PublisherId, newest| {
            self.others.get(who).is_some_and(|other| {
                self.can_ask(other) && (!other.done || newest > other.said.number)
            })
        };
        // Nothing is fetched from readers, nor, in a large group, from members without a link.
        let is_far = |who: &PublisherId| self.is_large() && !self.links.is_up(who);
        let readers = self.others.keys().filter(|who| !self.roles.may_write(who) || is_far(who));
        let readers = readers.copied().collect();
        self.asking.begin(*member, said.number, waits, readers, &stop);
        let merged = self.merge(&said, &stop, tell);
        self.asking.end(matches!(merged, Ok(ApplyOutcome::All)));
        match merged {
            Ok(ApplyOutcome::Portion) => self.scans.at_once(Instant::now()),
            Ok(took) => {
                self.settled(member, took);
                // Scan, so that other members learn of it from us and obstacles are checked again.
                self.scans.at_once(Instant::now());
            }
            Err(e) if e.blame() == Blame::Interrupted => {}
            Err(e) => self.report_failed_turn(member, &said, &e, tell),
        }
        Ok(())
    }

    fn report_failed_turn(
        &mut self,
        member: &PublisherId,
        said: &MemberStatement,
        e: &SyncError,
        tell: &mut dyn FnMut(SyncEvent),
    ) {
        tracing::debug!(%e, name = said.name, "not all changes of a member were applied");
        self.settled(member, ApplyOutcome::Some);
        let Some(other) = self.others.get_mut(member) else { return };
        let why = e.to_string();
        // Failures of the network that vary are reported once. Each different error in a member's data is reported.
        let is_new = other.told.is_empty() || (e.blame() == Blame::Data && other.told != why);
        if other.failures > 3 && is_new {
            tell(warning(format!(
                "cannot apply the changes of {}: {why}; trying again",
                said.name
            )));
            other.told = why;
        }
    }

    fn settled(&mut self, member: &PublisherId, took: ApplyOutcome) {
        let whole = took == ApplyOutcome::All;
        self.moved = true;
        let Some(other) = self.others.get_mut(member) else { return };
        other.done = whole;
        other.again = (!whole).then(|| Instant::now() + pause(other.failures));
        other.failures = if whole { 0 } else { other.failures + 1 };
        if whole {
            other.told.clear();
        }
    }

    /// Removes staged content once nothing is wanted from any member. Nothing is ever wanted from a reader.
    pub(super) fn drop_staged(&mut self) {
        // In a large group nothing is wanted from members without a link.
        let is_wanted = |(member, other): (&PublisherId, &OtherMember)| {
            !other.done && self.roles.may_write(member) && (!self.is_large() || self.can_ask(other))
        };
        if self.others.iter().any(is_wanted) {
            return;
        }
        self.staged.keep_only(&HashSet::new());
        self.taking.accepted.clear();
        let (medium, own) = (self.folder.medium(), self.folder.own(""));
        for entry in medium.list_dir(&own).unwrap_or_default() {
            let (name, path) = (entry.name.to_string_lossy(), own.join(&entry.name));
            // Unfinished files have a dot before the name, and more behind it. This thread writes none of them now.
            let unfinished = name.strip_prefix('.').filter(|name| name.starts_with(INDEX_OF));
            if name.strip_prefix('.').unwrap_or(&name).starts_with(FETCHED) {
                let _ = remove_tree(&**medium, &path);
            } else if unfinished.is_some() || (name.starts_with("index-") && name.ends_with(".new"))
            {
                let _ = medium.remove_file(&path);
            }
        }
    }

    /// Takes note that our user has accepted the waiting removals.
    pub(super) fn removals_accepted(&mut self) {
        let waits = |(path, obstacle): (&[u8], &Obstacle)| {
            (obstacle.kind == ObstacleKind::Removal).then(|| path.to_vec())
        };
        let paths: Vec<Vec<u8>> = self.folder.obstacles.iter().filter_map(waits).collect();
        for path in &paths {
            self.folder.obstacles.clear(path);
        }
        self.taking.accepted.extend(paths);
        self.others.values_mut().for_each(|other| other.again = None);
    }

    fn merge(
        &mut self,
        said: &MemberStatement,
        stop: &Stop,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<ApplyOutcome, SyncError> {
        let at = self.folder.own(&format!("{INDEX_OF}{}", said.member.key_id()));
        let (theirs, content) = fetching::index(self.options, &self.asking, said, &at, stop)?;
        let began = Instant::now();
        let mut moved = false;
        loop {
            self.folder.set_read_only(!self.roles.may_write(&self.key.public()));
            let mut plan = self.folder.plan(&theirs)?;
            let left_out = self.hold_back(said, &mut plan, tell)?;
            if plan.is_empty() {
                return Ok(if left_out { ApplyOutcome::Some } else { ApplyOutcome::All });
            }
            let began_portion = Instant::now();
            let portion = self.merge_portion(said, plan, &theirs, &content, stop, tell)?;
            moved |= portion.moved;
            match portion.failed {
                Some(e) if stop.raised() && moved => {
                    tracing::debug!(%e, "the turn ended before all was fetched");
                    return Ok(ApplyOutcome::Portion);
                }
                Some(e) => return Err(e),
                None => self.taking.adapt(began_portion.elapsed()),
            }
            if !portion.moved {
                return Ok(if portion.whole && !left_out {
                    ApplyOutcome::All
                } else {
                    ApplyOutcome::Some
                });
            }
            // Local changes made meanwhile are settled after a scan.
            if !portion.whole || stop.raised() || began.elapsed() > TURN.max(self.scans.last_took())
            {
                return Ok(ApplyOutcome::Portion);
            }
        }
    }

    /// Leaves out of a plan what must not be done now, and notes why; returns whether anything was left out.
    fn hold_back(
        &mut self,
        said: &MemberStatement,
        plan: &mut Plan,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<bool, SyncError> {
        let now = wall_clock().milliseconds();
        self.retain_obstacles(said, plan);
        let latest = now.saturating_add(MAX_AHEAD_MS);
        let mut refused = Vec::new();
        let mut left = plan.leave_out(|path, item| {
            let ahead = item.newest() > latest;
            if ahead {
                refused.push(path.to_vec());
            }
            ahead
        });
        let why = format!("{}'s version is dated more than a day ahead of this clock", said.name);
        let mut told = false;
        for path in refused {
            let is_new = self.note(said, &path, ObstacleKind::Refused, why.clone(), now);
            if is_new && !std::mem::replace(&mut told, true) {
                tell(warning(format!("{}: {why}", os_path(&path).display())));
            }
        }
        left += plan.leave_out(|path, _| self.folder.obstacles.waits(path, now));
        left += self.hold_removals(said, plan, now, tell)?;
        left += self.leave_out_what_does_not_fit(said, plan, now)?;
        let (staged, copies) = (&mut self.staged, self.folder.copies(&contents(plan))?);
        let here: HashSet<Hash> =
            contents(plan).into_keys().filter(|root| staged.has(root)).collect();
        plan.take_portion(self.taking.budget, |root| {
            here.contains(root) || copies.contains_key(root)
        });
        Ok(left > 0 || plan.rest)
    }

    /// Drops this member's obstacles that are not in its plan any more. A path that could not be fetched is tried at
    /// once if the member has made a newer statement.
    fn retain_obstacles(&mut self, said: &MemberStatement, plan: &Plan) {
        let Some((number, noted)) = self.taking.noted.get_mut(&said.member) else { return };
        let planned: HashSet<&[u8]> =
            plan.put.iter().chain(&plan.removed).map(|place| place.path.as_slice()).collect();
        let refused = plan.refused.iter().map(|(path, _)| path.as_slice());
        let planned: HashSet<&[u8]> = planned.into_iter().chain(refused).collect();
        let more = std::mem::replace(number, said.number) < said.number;
        let obstacles = &mut self.folder.obstacles;
        noted.retain(|path| {
            let kind = obstacles.get(path).map(|obstacle| obstacle.kind);
            let is_of_it = kind.is_some_and(|kind| MEMBER_OBSTACLES.contains(&kind));
            let again = more && kind == Some(ObstacleKind::NotFetched);
            let stays = is_of_it && planned.contains(path.as_slice()) && !again;
            if is_of_it && !stays {
                obstacles.clear(path);
            }
            stays
        });
    }

    /// Drops the obstacles of a member that has nothing that we lack.
    fn forget_obstacles(&mut self, member: &PublisherId) {
        for path in self.taking.noted.remove(member).into_iter().flat_map(|(_, noted)| noted) {
            let is_of_it = |obstacle: &Obstacle| MEMBER_OBSTACLES.contains(&obstacle.kind);
            if self.folder.obstacles.get(&path).is_some_and(is_of_it) {
                self.folder.obstacles.clear(&path);
            }
        }
    }

    /// Notes why a path of a member is not applied; returns whether the note is new.
    fn note(
        &mut self,
        said: &MemberStatement,
        path: &[u8],
        kind: ObstacleKind,
        why: String,
        now_ms: u64,
    ) -> bool {
        let is_new = self.folder.obstacles.note(path, kind, why, now_ms);
        let noted = self.taking.noted.entry(said.member).or_insert((said.number, BTreeSet::new()));
        noted.1.insert(path.to_vec());
        is_new
    }

    /// Holds back the removals of a member that removes most of a folder at once: its user may not want that.
    fn hold_removals(
        &mut self,
        said: &MemberStatement,
        plan: &mut Plan,
        now_ms: u64,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<usize, SyncError> {
        let mut removals = plan.removals();
        removals.retain(|path| !self.taking.accepted.contains(path));
        if removals.len() <= SMALL_FOLDER / 2 {
            return Ok(0);
        }
        let files = self.folder.count_files()?;
        let half = files >= SMALL_FOLDER && removals.len() > files / 2;
        if !half && removals.len() <= MANY_REMOVALS {
            return Ok(0);
        }
        let why = format!(
            "{} removed {} of {files} files at once; they stay here until `xylem sync DIR --accept-removals`",
            said.name,
            removals.len()
        );
        let held = plan.leave_out(|path, item| item.kind.is_gone() && removals.contains(path));
        let is_first = !removals.iter().any(|path| self.folder.obstacles.get(path).is_some());
        if is_first {
            tell(warning(why.clone()));
        }
        for path in removals {
            self.note(said, &path, ObstacleKind::Removal, why.clone(), now_ms);
        }
        Ok(held)
    }

    /// Leaves out contents that do not fit on the disk, the largest first.
    fn leave_out_what_does_not_fit(
        &mut self,
        said: &MemberStatement,
        plan: &mut Plan,
        now_ms: u64,
    ) -> Result<usize, SyncError> {
        let wanted = contents(plan);
        if wanted.is_empty() {
            return Ok(0);
        }
        let free = |member: &Self| member.folder.room().map(|room| room.saturating_sub(RESERVE));
        let needs: u64 = plan.contents().values().map(|(size, _)| size).sum();
        if free(self).is_none_or(|free| needs <= free) {
            return Ok(0);
        }
        // Drop content that is not wanted any more first.
        self.staged.keep_only(&wanted.into_keys().collect());
        let Some(mut free) = free(self) else { return Ok(0) };
        let contents = plan.contents().into_iter();
        let mut sizes: Vec<(u64, Hash, Vec<u8>)> =
            contents.map(|(root, (size, path))| (size, root, path)).collect();
        sizes.sort_unstable_by(|a, b| (a.0, &a.2).cmp(&(b.0, &b.2)));
        let mut out = HashSet::new();
        for (size, root, path) in sizes {
            if self.staged.has(&root) {
                continue;
            }
            match free.checked_sub(size) {
                Some(left) => free = left,
                None => {
                    let why = format!("it needs {size} bytes, and {free} are free on this disk");
                    self.note(said, &path, ObstacleKind::NoRoom, why, now_ms);
                    out.insert(root);
                }
            }
        }
        Ok(plan.leave_out_contents(&out))
    }

    fn merge_portion(
        &mut self,
        said: &MemberStatement,
        mut plan: Plan,
        theirs: &StoredIndex,
        content: &Ticket,
        stop: &Stop,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<Portion, SyncError> {
        let now = wall_clock().milliseconds();
        let wanted = plan.wanted(theirs)?;
        let failed = self.stage_contents(said, &wanted, content, now, stop, tell)?;
        let mut missing = HashSet::new();
        for root in contents(&plan).into_keys() {
            if !self.staged.has(&root) {
                missing.insert(root);
            }
        }
        plan.leave_out_contents(&missing);
        let known = !plan.noted.is_empty();
        let staged = wanted.into_keys().map(|root| (root, root.to_string().into_bytes())).collect();
        let applied = self.folder.apply(plan, self.staged.dir(), &staged, now)?;
        let Applied { put, paths, removed: gone, conflicts, copies, noted, complete: whole } =
            applied;
        let paths = paths.iter().take(MAX_TOLD).map(|path| os_path(path)).collect();
        if !noted.is_empty() {
            let all = self.taking.noted.entry(said.member);
            all.or_insert((said.number, BTreeSet::new())).1.extend(noted);
        }
        let conflicts = conflicts.iter().take(MAX_NAMED).map(|path| os_path(path)).collect();
        let copies = copies.into_iter().take(MAX_NAMED);
        let copies = copies.map(|(path, whose)| (os_path(&path), whose)).collect();
        if put + gone > 0 {
            let (name, kept) = (said.name.clone(), self.folder.kept_count());
            tell(SyncEvent::Took { name, put, gone, kept, paths, conflicts, copies });
        }
        let moved = known || put + gone > 0;
        Ok(Portion { moved, whole: whole && missing.is_empty(), failed })
    }

    /// Brings these contents into [staged](Self::staged), as far as possible; returns the error that ended the fetch,
    /// if there was one.
    fn stage_contents(
        &mut self,
        said: &MemberStatement,
        wanted: &HashMap<Hash, Vec<u8>>,
        content: &Ticket,
        now_ms: u64,
        stop: &Stop,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<Option<SyncError>, SyncError> {
        let copies = self.folder.copies(wanted)?;
        let mut missing: HashMap<Hash, Vec<u8>> = HashMap::new();
        for (root, path) in wanted {
            let is_here = self.staged.has(root)
                || copies
                    .get(root)
                    .is_some_and(|from| self.staged.copy(from, root).unwrap_or_default());
            if !is_here {
                missing.insert(*root, path.clone());
            }
        }
        if missing.is_empty() {
            return Ok(None);
        }
        let only = Only {
            paths: Arc::new(missing.values().cloned().collect()),
            roots: Arc::new(missing.iter().map(|(root, at)| (at.clone(), *root)).collect()),
            copies: Arc::default(),
            parts: Arc::new(self.staged.parts(&missing)),
        };
        // One directory for each member, so that what has come from one stays while another is asked.
        let at = self.folder.own(&format!("{FETCHED}-{}", said.member.key_id()));
        remove_tree(&**self.folder.medium(), &at).map_err(SyncError::disk(&at))?;
        let save = SaveOptions {
            like: vec![self.path.clone()],
            only: Some(only.clone()),
            ..SaveOptions::to(Output::At(at.clone()), Existing::Refuse)
        };
        self.options.board.fetches(&said.name, &only);
        let fetched =
            fetching::content(self.options, &self.asking, content.clone(), save, stop, tell);
        self.options.board.fetched();
        match fetched {
            Ok(left) => {
                self.staged.take(&at, &missing).map_err(SyncError::disk(&at))?;
                let why =
                    format!("{} has changed it since; the next version will be fetched", said.name);
                for path in &left {
                    self.note(said, path, ObstacleKind::NotFetched, why.clone(), now_ms);
                }
                Ok(None)
            }
            Err(e) => {
                let part = xylem_sink::staging_path(&at);
                self.staged.keep(&part, &missing).map_err(SyncError::disk(&part))?;
                // A fetch of another version of the folder starts with the content that was kept.
                let _ = xylem_sink::abandon_fetch(&self.options.store, content.root, &at);
                Ok(Some(e))
            }
        }
    }
}

/// How far a turn got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ApplyOutcome {
    /// Nothing is missing.
    All,
    /// All that is available now was applied; the rest is tried again after a pause.
    Some,
    /// A part was applied, and more is available at once.
    Portion,
}

/// The contents that a plan needs, each with a path where it goes.
fn contents(plan: &Plan) -> HashMap<Hash, Vec<u8>> {
    plan.contents().into_iter().map(|(root, (_, path))| (root, path)).collect()
}
