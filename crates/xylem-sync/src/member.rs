//! [`SyncMember`]: one thread that scans the folder after changes, announces its state, and applies what other members
//! have.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use xylem_base::{Blame, Failure, Stop, os_bytes};
use xylem_files::{LibraryEvent, SkipReason, walk::Selection};
use xylem_folder::{
    AdoptedState, FULL_MESH, Invitation, MemberLog, MemberStatement, Membership, ObstacleKind,
    Past, RulesNews, SyncFolder, SyncHome, WaitingRules, Watched,
};
use xylem_node::{Event, OneShare, ServiceHandle, wall_clock};
use xylem_object::{PublisherId, PublisherKey, Ticket};
use xylem_packet::{Component, Name};
use xylem_publish::publications::PublicationId;

use crate::asking::{FetchTurns, SERVED};
use crate::error::SyncError;
use crate::fetching;
use crate::keeping::{SyncEvent, SyncNews, SyncOptions};
use crate::staged::Staged;

mod hearing;
mod links;
mod scans;
mod showing;
mod taking;

use hearing::UnsavedState;
use links::MemberLinks;
use scans::{BUSY, ScanSchedule};
use taking::ApplyState;

/// First pause before a failed operation is tried again; it doubles each time.
const AGAIN: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often the members' statements are written to the disk; they are also written at the end.
const KEEP: Duration = Duration::from_secs(5);
/// How far ahead of our clock a change may be. The later change wins a conflict, so one in the far future would always
/// win.
const MAX_AHEAD_MS: u64 = 24 * 60 * 60 * 1000;
/// Conflicts that an event lists at most.
const MAX_NAMED: usize = 1000;
/// Paths newly left out that are reported one by one after each scan.
const MAX_SKIPPED: usize = 10;
/// Messages that are handled in a row before other work is done.
const MAX_HEARD: usize = 1000;

/// See the module's documentation.
pub(crate) struct SyncMember<'a> {
    options: &'a SyncOptions,
    path: PathBuf,
    home: SyncHome,
    folder: SyncFolder,
    key: PublisherKey,
    link_key: [u8; 32],
    /// The history of all our statements.
    log: MemberLog,
    stop: &'a Stop,
    serving: Option<ServiceHandle>,
    asking: FetchTurns,
    /// Content that has arrived and is not in its place yet.
    staged: Staged,
    taking: ApplyState,
    others: BTreeMap<PublisherId, OtherMember>,
    links: MemberLinks,
    roles: Membership,
    /// Our certificates, for groups with a schema.
    shown: Vec<u8>,
    /// Files that change constantly and are held back for now.
    held: Arc<BTreeSet<Vec<u8>>>,
    scans: ScanSchedule,
    unkept: UnsavedState,
    /// Whether anything has happened since the last check whether all members have the same state.
    moved: bool,
    last: LastReported,
    showing: showing::PublishedStatus,
}

/// What was announced or reported last.
#[derive(Default)]
struct LastReported {
    /// Root of the content, state of the index, number of the audience.
    of: Option<(xylem_hash::Hash, xylem_hash::Hash, u64)>,
    /// State of the index without the changes of files that were held; `held` lists these.
    as_held: Option<xylem_hash::Hash>,
    held: Arc<BTreeSet<Vec<u8>>>,
    /// Mistakes in the rules; `waiting` lists the rules that wait to be accepted.
    wrong: Vec<String>,
    waiting: Vec<WaitingRules>,
    /// Paths that belong to no folder in step, such as pipes, and were reported.
    passed_over: BTreeSet<PathBuf>,
    /// What is served now: content and index. Older ones are served for members that still fetch them.
    now: Option<[PublicationId; 2]>,
    /// Older contents of the folder, the oldest first; `index_before` is the index of the newest of these.
    before: VecDeque<PublicationId>,
    index_before: Option<PublicationId>,
    /// The last statement that was signed in this run, and the largest number of a statement or an adopted state.
    signed: Option<MemberStatement>,
    number: u64,
    told_ready: bool,
    in_step: Option<(xylem_hash::Hash, u64, u64)>,
    read_only: bool,
}

struct OtherMember {
    said: MemberStatement,
    bytes: Vec<u8>,
    /// Whether its last statement was applied completely.
    done: bool,
    again: Option<Instant>,
    failures: u32,
    /// Why it is not followed, as last reported.
    told: String,
}

impl OtherMember {
    /// Whether its pause is over. Nothing is fetched from a member with our `state`, so that needs no pause.
    fn is_due(&self, state: xylem_hash::Hash, now: Instant) -> bool {
        self.said.state == state || self.again.is_none_or(|again| again <= now)
    }
}

fn pause(failures: u32) -> Duration {
    (AGAIN * 2_u32.saturating_pow(failures.min(16))).min(LONGEST_PAUSE)
}

impl<'a> SyncMember<'a> {
    pub(crate) fn new(
        options: &'a SyncOptions,
        path: PathBuf,
        home: SyncHome,
        folder: SyncFolder,
        key: PublisherKey,
        link_key: [u8; 32],
        stop: &'a Stop,
    ) -> Result<Self, SyncError> {
        let (roles, founder) = (home.roles()?.unwrap_or_default(), home.invitation.group.founder);
        let roles = Membership::new(founder, roles, wall_clock().milliseconds());
        let (log, shown) = (MemberLog::open(&home.history_file())?, home.presentation()?);
        let links = MemberLinks::new(home.linked_members());
        let staged = Staged::at(folder.medium(), folder.own("staged"));
        Ok(Self {
            options,
            path,
            home,
            folder,
            key,
            link_key,
            log,
            stop,
            serving: None,
            asking: FetchTurns::default(),
            staged,
            taking: ApplyState::default(),
            others: BTreeMap::new(),
            links,
            roles,
            shown,
            held: Arc::default(),
            scans: ScanSchedule::default(),
            unkept: UnsavedState::default(),
            moved: false,
            last: LastReported::default(),
            showing: showing::PublishedStatus::default(),
        })
    }

    /// The state of the present fetch, for the thread that receives the members' statements.
    pub(crate) fn asking(&self) -> FetchTurns {
        self.asking.clone()
    }

    /// Runs until serving ends.
    pub(crate) fn run(
        &mut self,
        news: &Receiver<SyncNews>,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), SyncError> {
        loop {
            let said = match self.next_due() {
                None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => {
                    news.recv_timeout(at.saturating_duration_since(Instant::now()).min(BUSY))
                }
            };
            match said {
                Ok(said) => {
                    if let Some(ended) = self.hear(said, tell)? {
                        return ended;
                    }
                    // Handle all waiting messages before doing other work.
                    for said in news.try_iter().take(MAX_HEARD) {
                        if let Some(ended) = self.hear(said, tell)? {
                            return ended;
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.stop.raised() {
                return Ok(());
            }
            self.work(tell)?;
        }
    }

    /// When the next work is due.
    fn next_due(&self) -> Option<Instant> {
        self.serving.as_ref()?;
        let others = self.others.values().filter(|other| self.wants(other));
        // Shutdown and statements arrive as messages. The status is published at this interval.
        let shown = Instant::now() + showing::EVERY;
        if self.showing.paused {
            return Some(shown);
        }
        let soon = Instant::now() + Duration::from_millis(100);
        let again = others.map(|other| other.again.unwrap_or(soon));
        Some(again.chain(self.scans.next_due()).fold(shown, Instant::min))
    }

    fn hear(
        &mut self,
        said: SyncNews,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<Option<Result<(), SyncError>>, SyncError> {
        self.moved = true;
        match said {
            SyncNews::Ready(handle, port) => {
                self.unkept.port = port;
                self.save_members_or_retry(tell);
                self.serving = Some(*handle);
                self.scans.at_once(Instant::now());
            }
            SyncNews::Changed(unheard) => {
                let changed = unheard.lock().unwrap_or_else(PoisonError::into_inner).take();
                self.reload_roles(tell);
                if self.home.takes_accepted_removals()? {
                    self.removals_accepted();
                }
                if let Some(changed) = changed.filter(|changed| self.needs_look(changed)) {
                    let known = matches!(changed, Watched::Paths(_));
                    self.scans.on_change(Instant::now(), known);
                }
            }
            SyncNews::Watch(source) => {
                return Err(SyncError::Unwatched { path: self.path.clone(), error: source });
            }
            SyncNews::Mesh(said) => self.hear_mesh(said, tell)?,
            SyncNews::Serving(event) if needs_no_report(&event) => {}
            SyncNews::Serving(event) => tell(SyncEvent::Other(event)),
            SyncNews::Ended(done) => return Ok(Some(done.map_err(SyncError::from))),
        }
        Ok(None)
    }

    /// Whether a change concerns anything that is shared now.
    fn needs_look(&self, changed: &Watched) -> bool {
        let Watched::Paths(paths) = changed else { return true };
        paths.iter().any(|path| match path.strip_prefix(&self.path) {
            Ok(below) => !self.folder.needs_no_scan(&os_bytes(below.as_os_str())),
            // A file of the group's state.
            Err(_) => true,
        })
    }

    /// Whether a member can be asked and may have something that we lack.
    fn wants(&self, other: &OtherMember) -> bool {
        !other.done && self.can_ask(other)
    }

    fn can_ask(&self, other: &OtherMember) -> bool {
        self.links.is_up(&other.said.member) && self.roles.may_write(&other.said.member)
    }

    /// Whether the group is so large that each member has links to some others only. Then a member without a link is
    /// not away.
    fn is_large(&self) -> bool {
        self.others.len() > FULL_MESH
    }

    fn work(&mut self, tell: &mut dyn FnMut(SyncEvent)) -> Result<(), SyncError> {
        self.show(tell);
        let Some(serving) = self.serving.clone() else { return Ok(()) };
        let now = Instant::now();
        if self.roles.expire(wall_clock().milliseconds()) {
            self.drop_former_members(tell);
        }
        if self.unkept.is_due(now) {
            self.save_members_or_retry(tell);
        }
        if self.showing.paused {
            return Ok(());
        }
        if self.scans.held_is_due(now) {
            let before = self.held.clone();
            self.hold();
            if !before.is_subset(&self.held) {
                self.scans.note_change();
                self.scans.at_once(now);
            }
        }
        self.scans.handle_timeout(now);
        if self.scans.is_due(now) {
            self.scans.begin();
            self.moved = true;
            self.scan(&serving, tell)?;
            self.scans.took(now.elapsed());
        }
        // Apply nothing before the first scan. Later changes are noticed where they matter.
        if self.last.of.is_none() {
            return Ok(());
        }
        let due = |other: &&PublisherId| {
            let other = &self.others[*other];
            self.wants(other) && other.is_due(self.folder.state(), now)
        };
        let mut due: Vec<PublisherId> = self.others.keys().filter(due).copied().collect();
        // Ask slow members last.
        due.sort_by_key(|member| self.asking.early_ends(member));
        for member in due {
            if self.stop.raised() {
                return Ok(());
            }
            self.take_over(&member, tell)?;
            self.scans.note_change();
            // Scans alternate with applying, so that neither waits until the other has nothing to do.
            if self.scans.is_due(Instant::now()) {
                break;
            }
        }
        // This check passes over all paths, so skip it at rest.
        if std::mem::take(&mut self.moved) {
            // What is wanted no more may also have been of a member that has gone, or has no link any more.
            self.drop_staged();
            self.report_in_step(tell);
            self.show(tell);
        }
        Ok(())
    }

    /// Scans the folder and announces changes. Files that cannot be read now are scanned again.
    fn scan(
        &mut self,
        serving: &ServiceHandle,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), SyncError> {
        match self.publish(serving, tell) {
            Ok(()) => self.scans.succeeded(),
            // The folder or the store is not the same any more: do nothing.
            Err(e) if self.is_fatal(&e) => return Err(e),
            // For example, a file that is being written. Such errors never end the run.
            Err(e) => {
                tracing::debug!(%e, "the scan failed and is retried");
                let failures = self.scans.failed();
                // A usage error needs the user, so report it at once.
                let told_at = if e.blame() == Blame::Usage { 1 } else { 4 };
                if failures == told_at {
                    tell(warning(e.to_string()));
                }
            }
        }
        Ok(())
    }

    fn is_fatal(&self, e: &SyncError) -> bool {
        e.blame() == Blame::Interrupted || self.folder.check_there().is_err()
    }

    fn publish(
        &mut self,
        serving: &ServiceHandle,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), SyncError> {
        let rules = self.folder.read_rules()?;
        self.tell_rules(rules, tell);
        self.hold();
        let mut skipped = BTreeMap::new();
        let quiet = &mut |event: Event| {
            if let Event::Library(LibraryEvent::Skipped { path, why }) = event {
                skipped.insert(path, why);
            }
        };
        let exclude = self.folder.rules().map(<[String]>::to_vec);
        let changed = self.scans.take_known_change() && self.last.of.is_some();
        let held = self.held.clone();
        let selection =
            Selection { exclude, changed, in_step: true, omitted: held, ..Selection::default() };
        let how = self.one_share("folder", selection);
        let (content, shared) = serving.share(&self.path, how, self.stop, quiet)?;
        let (ticket, root) = self.ticket(shared)?;
        let (store, now) = (&self.options.store, wall_clock().milliseconds());
        self.folder.raise_numbers(self.log.newest());
        self.folder.record_scan(store, &root, &ticket.to_bytes(), now)?;
        self.note_skipped(skipped, tell);
        let wait = |due: u64| Instant::now() + Duration::from_millis(due.saturating_sub(now));
        self.scans.set_attributes_due(self.folder.attributes_due_ms().map(wait));
        if self.folder.take_uncovered() {
            for other in self.others.values_mut() {
                (other.done, other.again) = (false, None);
            }
        }
        let of = (root, self.folder.state(), self.roles.name_epoch());
        if self.only_held_differs(of.2) {
            serving.unshare(content);
            return Ok(());
        }
        if self.last.of == Some(of) {
            // A fetch by the root gets the content that was shared last.
            let old = self.last.now.as_mut().map(|[old, _]| std::mem::replace(old, content));
            old.into_iter().for_each(|old| serving.unshare(old));
            return Ok(());
        }
        self.announce(serving, content, of, tell)
    }

    /// Terms of a share under a name that former members cannot guess.
    fn one_share(&self, what: &str, selection: Selection) -> OneShare {
        let hidden = self.home.invitation.group.hidden_name(&self.key, self.roles.name_epoch());
        let id = self.key.public().key_id().to_string();
        let name: Name = ["xylem", &id, &hidden, what]
            .map(|part| Component::generic(part.as_bytes()))
            .into_iter()
            .collect();
        let lan = self.options.beside.lan;
        OneShare { name: Some(name), selection, lan, ..OneShare::default() }
    }

    /// Announces that the folder has this content and this state now.
    fn announce(
        &mut self,
        serving: &ServiceHandle,
        content: PublicationId,
        of: (xylem_hash::Hash, xylem_hash::Hash, u64),
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), SyncError> {
        let path = self.folder.publish_index()?;
        let selection = Selection { for_members: true, ..Selection::default() };
        let how = self.one_share("index", selection);
        let (index, shared) = serving.share(&path, how, self.stop, &mut |_| {})?;
        let (index_ticket, _) = self.ticket(shared)?;
        let group = &self.home.invitation.group;
        let founder = group.founder == self.key.public();
        let said = MemberStatement {
            member: self.key.public(),
            link_key: self.link_key,
            number: wall_clock().milliseconds().max(self.last.number.max(self.log.newest()) + 1),
            name: self.options.name.clone().unwrap_or_default(),
            state: of.1,
            index: index_ticket.clone(),
            roles: Some(self.roles.roles()).filter(|roles| founder && roles.number > 0).cloned(),
            shown: self.shown.clone(),
            past: Past::none(),
        };
        let number = said.number;
        if let Some(adopted) = self.adopted(&said) {
            serving.send_adopted(adopted);
        } else {
            let signed = said.sign(group, &self.key, &mut self.log)?;
            serving.send_statement(signed, Some(self.roles.roles().clone()));
            self.last.signed = Some(said);
        }
        self.last.number = number;
        let same_audience = self.last.of.is_some_and(|(.., audience)| audience == of.2);
        self.last.of = Some(of);
        self.last.as_held = Some(self.folder.state_as_held());
        self.last.held = self.held.clone();
        if let Some([content, index]) = self.last.now.replace([content, index]) {
            self.last.before.push_back(content);
            self.last.index_before.replace(index).into_iter().for_each(|id| serving.unshare(id));
        }
        // If the audience has changed, stop serving what was announced to the former one.
        let stays = if same_audience { SERVED - 1 } else { 1 };
        let old = self.last.before.len().saturating_sub(stays);
        self.last.before.drain(..old).for_each(|id| serving.unshare(id));
        if !std::mem::replace(&mut self.last.told_ready, true) {
            let member = Ticket {
                root: xylem_hash::Hash::from_bytes([0; 32]),
                name: None,
                size: None,
                kind: None,
                ..index_ticket
            };
            let schema = self.roles.roles().schema.is_some();
            let invitation = Invitation { group: group.clone(), member, schema };
            let (name, key) =
                (self.options.name.clone().unwrap_or_default(), self.key.public().to_string());
            tell(SyncEvent::Ready { invitation, name, key });
        }
        Ok(())
    }

    /// What to send in place of this statement: in a large group, a member that has only taken over what another has
    /// announced sends it to its neighbours alone. Otherwise each change would cause as many statements, which all members
    /// pass on, as there are members.
    fn adopted(&self, said: &MemberStatement) -> Option<AdoptedState> {
        let before = self.last.signed.as_ref()?;
        let index = Ticket { root: said.index.root, size: said.index.size, ..before.index.clone() };
        let (number, state) = (said.number, said.state);
        let only_state_differs =
            MemberStatement { number, state, index, ..before.clone() } == *said;
        let is_known = self.others.values().any(|other| other.said.state == state);
        (self.is_large() && only_state_differs && is_known).then(|| AdoptedState {
            number,
            state,
            index: said.index.clone(),
        })
    }

    /// Finds the files that change constantly and are held back for now.
    fn hold(&mut self) {
        let now_ms = wall_clock().milliseconds();
        self.held = self.folder.hold(now_ms);
        let wait = |due: u64| Instant::now() + Duration::from_millis(due.saturating_sub(now_ms));
        self.scans.set_held_due(self.folder.held_until().map(wait));
    }

    /// Whether only held files differ from the last announcement. Then nothing is announced yet.
    fn only_held_differs(&self, audience: u64) -> bool {
        let same = self.last.of.is_some_and(|(_, _, before)| before == audience)
            && self.last.as_held == Some(self.folder.state_as_held());
        same && !self.held.is_empty() && self.last.held.is_subset(&self.held)
    }

    fn tell_rules(&mut self, rules: RulesNews, tell: &mut dyn FnMut(SyncEvent)) {
        if self.last.wrong != rules.wrong {
            rules.wrong.iter().for_each(|wrong| tell(warning(wrong.clone())));
            self.last.wrong = rules.wrong;
        }
        if self.last.waiting != rules.waiting {
            if !rules.waiting.is_empty() {
                let files = rules.waiting.iter().map(|file| file.path.clone()).collect();
                tell(SyncEvent::RulesWait { files });
            }
            self.last.waiting = rules.waiting;
        }
    }

    /// Notes each path that was left out of the share, and reports new ones.
    fn note_skipped(
        &mut self,
        skipped: BTreeMap<PathBuf, SkipReason>,
        tell: &mut dyn FnMut(SyncEvent),
    ) {
        let (now_ms, mut noted, mut news) =
            (wall_clock().milliseconds(), BTreeSet::new(), Vec::new());
        let told = std::mem::take(&mut self.last.passed_over);
        for (path, why) in skipped {
            let below = path.strip_prefix(&self.path).unwrap_or(&path);
            let (below, text) = (os_bytes(below.as_os_str()), why.to_string());
            let kind = match &why {
                SkipReason::KeptInStep => continue,
                // These belong to no folder in step, so nothing is missing.
                SkipReason::NotAFile | SkipReason::UnfinishedFetch | SkipReason::Ours => {
                    self.last.passed_over.insert(path.clone());
                    if !told.contains(&path) {
                        news.push((path, why));
                    }
                    continue;
                }
                SkipReason::Changing(_) => {
                    self.folder.hold_unstable(&below, text, now_ms);
                    noted.insert(below);
                    continue;
                }
                SkipReason::NotListed(_) => ObstacleKind::Name,
                _ => ObstacleKind::Unreadable,
            };
            if self.folder.obstacles.note(&below, kind, text, now_ms) {
                news.push((path, why));
            }
            noted.insert(below);
        }
        let kinds = [ObstacleKind::Busy, ObstacleKind::Name, ObstacleKind::Unreadable];
        let held = &self.held;
        self.folder.obstacles.retain(&kinds, |path| noted.contains(path) || held.contains(path));
        let more = news.len().saturating_sub(MAX_SKIPPED);
        for (path, why) in news.into_iter().take(MAX_SKIPPED) {
            tell(SyncEvent::Other(Event::Library(LibraryEvent::Skipped { path, why })));
        }
        if more > 0 {
            tell(warning(format!("{more} more paths can't be shared")));
        }
    }

    fn ticket(&self, shared: Event) -> Result<(Ticket, xylem_hash::Hash), SyncError> {
        match shared {
            Event::Shared { ticket, root, .. } => {
                Ok((Ticket { link_key: Some(self.link_key), ..*ticket }, root))
            }
            _ => Err(SyncError::NothingShared),
        }
    }

    /// Report "in step" when all connected members have the same state.
    fn report_in_step(&mut self, tell: &mut dyn FnMut(SyncEvent)) {
        let there = |other: &&OtherMember| self.can_ask(other);
        let state = self.folder.state_as_held();
        let there: Vec<&OtherMember> = self.others.values().filter(there).collect();
        let all = !self.scans.is_planned() && there.iter().all(|other| other.said.state == state);
        let (members, but) = (there.len() as u64, self.folder.obstacles.count());
        let now = Some((state, members, but));
        if there.is_empty() {
            self.last.in_step = None;
        } else if all && self.last.in_step != now {
            self.last.in_step = now;
            tell(SyncEvent::InStep { state: state.to_string(), members, but });
        }
    }
}

/// Whether an event needs no report: serving has noticed that a file changed, and a scan will find the change.
fn needs_no_report(event: &Event) -> bool {
    let Event::Library(LibraryEvent::Skipped { why, .. }) = event else { return false };
    matches!(why, SkipReason::Changed(_))
}

pub(crate) fn warning(what: String) -> SyncEvent {
    SyncEvent::Other(Event::Library(LibraryEvent::Warning { what }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was staged for it stays until it is settled.
    #[test]
    fn a_member_with_our_state_is_settled_without_a_pause() {
        let key = PublisherKey::from_bytes(&[1; 32]).public();
        let index = Ticket {
            publisher: key,
            root: xylem_hash::hash(b"index"),
            name: None,
            link_key: None,
            size: None,
            kind: None,
            addresses: Vec::new(),
            relays: Vec::new(),
        };
        let [ours, theirs] = [b"a", b"b"].map(|text| xylem_hash::hash(text));
        let said = MemberStatement {
            member: key,
            link_key: [1; 32],
            number: 1,
            name: "bob".to_owned(),
            state: theirs,
            index,
            roles: None,
            shown: Vec::new(),
            past: Past::none(),
        };
        let now = Instant::now();
        let again = Some(now + LONGEST_PAUSE);
        let bob = OtherMember {
            said,
            bytes: Vec::new(),
            done: false,
            again,
            failures: 9,
            told: String::new(),
        };
        assert!(!bob.is_due(ours, now) && bob.is_due(ours, now + LONGEST_PAUSE));
        assert!(bob.is_due(theirs, now));
    }

    /// Our own replacements and removals also change served files.
    #[test]
    fn only_errors_of_served_files_are_reported() {
        let skipped = |why| Event::Library(LibraryEvent::Skipped { path: PathBuf::from("a"), why });
        assert!(needs_no_report(&skipped(SkipReason::Changed("changed".into()))));
        assert!(!needs_no_report(&skipped(SkipReason::Unreadable("a bad disk".into()))));
    }
}
