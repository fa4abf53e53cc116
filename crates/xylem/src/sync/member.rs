//! [`Member`]: one thread that looks at the folder when it has changed, tells the others, and takes over what they have.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use xylem_library::folder::{
    FULL_MESH, Folder, Home, Invitation, Log, Membership, ObstacleKind, Past, RulesNews, Statement,
    WaitingRules, Watched,
};
use xylem_library::publications::PublicationId;
use xylem_library::{Blame, Error, LibraryEvent, Selection, SkipReason, Stop, os_bytes};
use xylem_node::{Event, OneShare, ServiceHandle, wall_clock};
use xylem_object::{PublisherId, PublisherKey, Ticket};
use xylem_packet::{Component, Name};

use super::asking::{Asking, SERVED};
use super::fetching;
use super::keeping::{News, SyncEvent, SyncOptions, unwatched};
use super::staged::Staged;

mod hearing;
mod showing;
mod taking;

use hearing::Unkept;
use taking::Taking;

/// The folder is looked at when nothing has changed for so long,
const QUIET: Duration = Duration::from_millis(50);
/// or after so long in any case.
const BUSY: Duration = Duration::from_secs(1);

/// When a folder is looked at that has changed now: each change puts it off, but not for ever.
fn looks_at(first: &mut Option<Instant>, now: Instant) -> Instant {
    (now + QUIET).min(*first.get_or_insert(now) + BUSY)
}
/// Pause before what failed is tried again; longer each time.
const AGAIN: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// What members have said is written down so often, and at the end.
const KEEP: Duration = Duration::from_secs(5);
/// How far ahead of our clock a change may be: the later one wins a conflict, so that a time in the far future would always.
const MAX_AHEAD_MS: u64 = 24 * 60 * 60 * 1000;
/// Conflicts that are named one by one.
const MAX_NAMED: usize = 1000;
/// Paths that are newly left out and named one by one, after each look.
const MAX_SKIPPED: usize = 10;
/// Pieces of news that are heard before something is done.
const MAX_HEARD: usize = 1000;

/// See the module's text.
pub(super) struct Member<'a> {
    options: &'a SyncOptions,
    path: PathBuf,
    home: Home,
    folder: Folder,
    key: PublisherKey,
    link_key: [u8; 32],
    /// All that we have ever said.
    log: Log,
    stop: &'a Stop,
    serving: Option<ServiceHandle>,
    asking: Asking,
    /// What has come and is not in its place yet.
    staged: Staged,
    taking: Taking,
    others: BTreeMap<PublisherId, Other>,
    up: HashSet<PublisherId>,
    roles: Membership,
    /// Shows what a schema says of us.
    shown: Vec<u8>,
    /// Files that keep changing and are not to be sent now, and when to look whether one is.
    held: Arc<BTreeSet<Vec<u8>>>,
    due: Option<Instant>,
    /// When what members have said is to be written down.
    keep: Option<Instant>,
    /// Members to whom there was a link, the first one first.
    met: Vec<PublisherId>,
    unkept: Unkept,
    /// Why others refuse our links.
    refused: Option<String>,
    /// When the folder is to be looked at, and how often that has failed.
    look: Option<Instant>,
    /// The first change that nobody has looked at.
    changed: Option<Instant>,
    /// It is known that something has changed; else it is only looked whether something has.
    surely: bool,
    failures: u32,
    /// How long the last look took.
    look_took: Duration,
    /// Something was heard or done since it was last asked whether all have the same.
    moved: bool,
    last: Last,
    showing: showing::Shown,
}

/// What was said last.
#[derive(Default)]
struct Last {
    /// Root of the content, state of the index, number of the roles.
    of: Option<(xylem_hash::Hash, xylem_hash::Hash, u64)>,
    /// State of the index where what was held is as it was, and what was held.
    as_held: Option<xylem_hash::Hash>,
    held: Arc<BTreeSet<Vec<u8>>>,
    /// What was wrong with the rules, and which of them wait to be accepted.
    wrong: Vec<String>,
    waiting: Vec<WaitingRules>,
    /// What is no part of the folder, such as a pipe, and was told.
    passed_over: BTreeSet<PathBuf>,
    /// What is served: now, and before for those who are still at it.
    now: Option<[PublicationId; 2]>,
    /// Contents of the folder, the oldest first; and the index of the newest of these.
    before: VecDeque<PublicationId>,
    index_before: Option<PublicationId>,
    told_ready: bool,
    in_step: Option<(xylem_hash::Hash, u64, u64)>,
    read_only: bool,
}

struct Other {
    said: Statement,
    bytes: Vec<u8>,
    /// All of what it said was taken over.
    done: bool,
    again: Option<Instant>,
    failures: u32,
    /// Why it is not followed, as it was told last.
    told: String,
}

fn pause(failures: u32) -> Duration {
    (AGAIN * 2_u32.saturating_pow(failures.min(16))).min(LONGEST_PAUSE)
}

impl<'a> Member<'a> {
    pub(super) fn new(
        options: &'a SyncOptions,
        path: PathBuf,
        home: Home,
        folder: Folder,
        key: PublisherKey,
        link_key: [u8; 32],
        stop: &'a Stop,
    ) -> Result<Self, Error> {
        let (roles, founder) = (home.roles()?.unwrap_or_default(), home.invitation.group.founder);
        let roles = Membership::new(founder, roles, wall_clock().milliseconds());
        let (log, shown) = (Log::open(&home.history_file())?, home.shown()?);
        let met = home.met();
        let staged = Staged::at(folder.own("staged"));
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
            asking: Asking::default(),
            staged,
            taking: Taking::default(),
            others: BTreeMap::new(),
            up: HashSet::new(),
            roles,
            shown,
            held: Arc::default(),
            due: None,
            keep: None,
            met,
            unkept: Unkept::default(),
            refused: None,
            look: None,
            changed: None,
            surely: false,
            failures: 0,
            look_took: Duration::ZERO,
            moved: false,
            last: Last::default(),
            showing: showing::Shown::default(),
        })
    }

    /// Is to hear what members say, at once.
    pub(super) fn asking(&self) -> Asking {
        self.asking.clone()
    }

    /// Goes on until serving ends.
    pub(super) fn run(
        &mut self,
        news: &Receiver<News>,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), Error> {
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
                    // All that is said already is heard before anything is done about it.
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

    /// When there is something to do.
    fn next_due(&self) -> Option<Instant> {
        self.serving.as_ref()?;
        let others = self.others.values().filter(|other| self.wants(other));
        // The end comes as news, as what others say does; what is shown is shown this often.
        let shown = Instant::now() + showing::EVERY;
        if self.showing.paused {
            return Some(shown);
        }
        let soon = Instant::now() + Duration::from_millis(100);
        let again = others.map(|other| other.again.unwrap_or(soon));
        Some(again.chain(self.look).chain(self.due).fold(shown, Instant::min))
    }

    fn hear(
        &mut self,
        said: News,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<Option<Result<(), Error>>, Error> {
        self.moved = true;
        match said {
            News::Ready(handle, port) => {
                self.unkept.port = port;
                self.keep_or_later(tell);
                self.serving = Some(*handle);
                self.look = Some(Instant::now());
            }
            News::Changed(unheard) => {
                let changed = unheard.lock().unwrap_or_else(PoisonError::into_inner).take();
                self.hear_home(tell);
                if self.home.takes_accepted_removals()? {
                    self.removals_accepted();
                }
                if let Some(changed) = changed.filter(|changed| self.needs_look(changed)) {
                    self.surely |= matches!(changed, Watched::Paths(_));
                    self.look = Some(looks_at(&mut self.changed, Instant::now()));
                }
            }
            News::Watch(source) => {
                return Err(unwatched(&self.path, &source));
            }
            News::Mesh(said) => self.hear_mesh(said, tell)?,
            News::Serving(event) if is_seen(&event) => {}
            News::Serving(event) => tell(SyncEvent::Other(event)),
            News::Ended(done) => return Ok(Some(done.map_err(Error::from))),
        }
        Ok(None)
    }

    /// Whether something has changed that is part of what is shared now.
    fn needs_look(&self, changed: &Watched) -> bool {
        let Watched::Paths(paths) = changed else { return true };
        paths.iter().any(|path| match path.strip_prefix(&self.path) {
            Ok(below) => !self.folder.passes_over(&os_bytes(below.as_os_str())),
            // What is kept of the group.
            Err(_) => true,
        })
    }

    /// Whether somebody has something that we may not have, and can be asked.
    fn wants(&self, other: &Other) -> bool {
        !other.done && self.can_ask(other)
    }

    fn can_ask(&self, other: &Other) -> bool {
        self.up.contains(&other.said.member) && self.roles.may_write(&other.said.member)
    }

    /// Whether there are links to some of the members alone, so that who has none is not away.
    fn is_large(&self) -> bool {
        self.others.len() > FULL_MESH
    }

    fn work(&mut self, tell: &mut dyn FnMut(SyncEvent)) -> Result<(), Error> {
        self.show(tell);
        let Some(serving) = self.serving.clone() else { return Ok(()) };
        let now = Instant::now();
        if self.roles.expire(wall_clock().milliseconds()) {
            self.drop_others(tell);
        }
        if self.keep.is_some_and(|at| at <= now) {
            self.keep_or_later(tell);
        }
        if self.showing.paused {
            return Ok(());
        }
        if self.due.is_some_and(|at| at <= now) {
            let before = self.held.clone();
            self.hold();
            if !before.is_subset(&self.held) {
                (self.look, self.surely) = (Some(now), true);
            }
        }
        if self.look.is_some_and(|at| at <= now) {
            (self.look, self.changed, self.moved) = (None, None, true);
            self.look_again(&serving, tell)?;
            self.look_took = now.elapsed();
        }
        // Nothing is taken over before we know what is here. What has changed since is found out where it matters.
        if self.last.of.is_none() {
            return Ok(());
        }
        let due = |other: &&PublisherId| {
            let other = &self.others[*other];
            self.wants(other) && other.again.is_none_or(|again| again <= now)
        };
        let mut due: Vec<PublisherId> = self.others.keys().filter(due).copied().collect();
        // Who has kept others waiting is the last.
        due.sort_by_key(|member| self.asking.cut(member));
        for member in due {
            if self.stop.raised() {
                return Ok(());
            }
            self.take_over(&member, tell)?;
            self.surely = true;
            // Looks and what is taken over take turns: neither waits until the other has nothing to do.
            if self.look.is_some_and(|at| at <= Instant::now()) {
                break;
            }
        }
        // At rest that is not worth a look at all that there is.
        if std::mem::take(&mut self.moved) {
            self.tell_in_step(tell);
            self.show(tell);
        }
        Ok(())
    }

    /// Looks at the folder, and says what has changed. What can't be read now is looked at again.
    fn look_again(
        &mut self,
        serving: &ServiceHandle,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), Error> {
        match self.publish(serving, tell) {
            Ok(()) => self.failures = 0,
            // The folder or the store is not what it was: nothing is done any more.
            Err(e) if self.is_fatal(&e) => return Err(e),
            // A file that is being written for a while, say: however often, that ends nothing.
            Err(e) => {
                tracing::debug!(%e, "the folder is looked at again");
                self.look = Some(Instant::now() + pause(self.failures));
                self.failures += 1;
                // Somebody has to mend that.
                let told_at = if e.blame == Blame::Usage { 1 } else { 4 };
                if self.failures == told_at {
                    tell(warning(e.to_string()));
                }
            }
        }
        Ok(())
    }

    fn is_fatal(&self, e: &Error) -> bool {
        e.blame == Blame::Interrupted || self.folder.check_there().is_err()
    }

    fn publish(
        &mut self,
        serving: &ServiceHandle,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), Error> {
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
        let changed = std::mem::take(&mut self.surely) && self.last.of.is_some();
        let held = self.held.clone();
        let selection = Selection { exclude, changed, in_step: true, held, ..Selection::default() };
        let how = self.one_share("folder", selection);
        let (content, shared) = serving.share(&self.path, how, self.stop, quiet)?;
        let (ticket, root) = self.ticket(shared)?;
        let (store, now) = (&self.options.store, wall_clock().milliseconds());
        self.folder.take_stock(store, &root, &ticket.to_bytes(), now)?;
        self.note_skipped(skipped, tell);
        if self.folder.takes_uncovered() {
            for other in self.others.values_mut() {
                (other.done, other.again) = (false, None);
            }
        }
        let of = (root, self.folder.state(), self.roles.audience());
        if self.only_held_differs(of.2) {
            serving.unshare(content);
            return Ok(());
        }
        if self.last.of == Some(of) {
            // Who asks by the root is led to what was shared last.
            let old = self.last.now.as_mut().map(|[old, _]| std::mem::replace(old, content));
            old.into_iter().for_each(|old| serving.unshare(old));
            return Ok(());
        }
        self.say(serving, content, of, tell)
    }

    /// One of what a member shares, under a name that nobody knows who is no member any more.
    fn one_share(&self, what: &str, selection: Selection) -> OneShare {
        let hidden = self.home.invitation.group.hidden_name(&self.key, self.roles.audience());
        let id = self.key.public().key_id().to_string();
        let name: Name = ["xylem", &id, &hidden, what]
            .map(|part| Component::generic(part.as_bytes()))
            .into_iter()
            .collect();
        let lan = self.options.beside.lan;
        OneShare { name: Some(name), selection, lan, ..OneShare::default() }
    }

    /// Says that the folder has this content and this state now.
    fn say(
        &mut self,
        serving: &ServiceHandle,
        content: PublicationId,
        of: (xylem_hash::Hash, xylem_hash::Hash, u64),
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), Error> {
        let path = self.folder.tell()?;
        let selection = Selection { for_members: true, ..Selection::default() };
        let how = self.one_share("index", selection);
        let (index, shared) = serving.share(&path, how, self.stop, &mut |_| {})?;
        let (index_ticket, _) = self.ticket(shared)?;
        let group = &self.home.invitation.group;
        let founder = group.founder == self.key.public();
        let said = Statement {
            member: self.key.public(),
            link_key: self.link_key,
            number: wall_clock().milliseconds().max(self.log.newest() + 1),
            name: self.options.name.clone(),
            state: of.1,
            index: index_ticket.clone(),
            roles: Some(self.roles.roles()).filter(|roles| founder && roles.number > 0).cloned(),
            shown: self.shown.clone(),
            past: Past::none(),
        };
        let said = said.sign(group, &self.key, &mut self.log)?;
        serving.say(said, Some(self.roles.roles().clone()));
        let same_audience = self.last.of.is_some_and(|(.., audience)| audience == of.2);
        self.last.of = Some(of);
        self.last.as_held = Some(self.folder.state_as_held());
        self.last.held = self.held.clone();
        if let Some([content, index]) = self.last.now.replace([content, index]) {
            self.last.before.push_back(content);
            self.last.index_before.replace(index).into_iter().for_each(|id| serving.unshare(id));
        }
        // What was told to others than those who are told from now on is not served any longer.
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
            let (name, key) = (self.options.name.clone(), self.key.public().to_string());
            tell(SyncEvent::Ready { invitation, name, key });
        }
        Ok(())
    }

    /// Finds out which files keep changing and are not to be sent now.
    fn hold(&mut self) {
        let now_ms = wall_clock().milliseconds();
        self.held = self.folder.hold(now_ms);
        let wait = |due: u64| Instant::now() + Duration::from_millis(due.saturating_sub(now_ms));
        self.due = self.folder.held_until().map(wait);
    }

    /// Whether nothing but files that are held is other than what was said last: then nobody need hear of it yet.
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

    /// Notes what was left out of what is shared, each by itself, and says what is new of that.
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
                // No part of any folder in step: nothing is missing anywhere.
                SkipReason::NotAFile | SkipReason::UnfinishedFetch | SkipReason::Ours => {
                    self.last.passed_over.insert(path.clone());
                    if !told.contains(&path) {
                        news.push((path, why));
                    }
                    continue;
                }
                SkipReason::Changing(_) => {
                    self.folder.is_unstable(&below, text, now_ms);
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
            tell(warning(format!("{more} other paths can't be shared, either")));
        }
    }

    fn ticket(&self, shared: Event) -> Result<(Ticket, xylem_hash::Hash), Error> {
        match shared {
            Event::Shared { ticket, root, .. } => {
                Ok((Ticket { link_key: Some(self.link_key), ..*ticket }, root))
            }
            _ => Err(Error { blame: Blame::Local, message: "nothing was shared".to_owned() }),
        }
    }

    /// Says so when all who are there have the same.
    fn tell_in_step(&mut self, tell: &mut dyn FnMut(SyncEvent)) {
        let there = |other: &&Other| self.can_ask(other);
        let state = self.folder.state_as_held();
        let there: Vec<&Other> = self.others.values().filter(there).collect();
        let all = self.look.is_none() && there.iter().all(|other| other.said.state == state);
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

/// That a file is not what it was when it was shared, says who serves it: a folder that changes is looked at in any case.
fn is_seen(event: &Event) -> bool {
    let Event::Library(LibraryEvent::Skipped { why, .. }) = event else { return false };
    matches!(why, SkipReason::Changed(_))
}

pub(super) fn warning(what: String) -> SyncEvent {
    SyncEvent::Other(Event::Library(LibraryEvent::Warning { what }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_never_rests_is_looked_at_all_the_same() {
        let began = Instant::now();
        let mut first = None;
        let mut looks = looks_at(&mut first, began);
        assert_eq!(looks, began + QUIET);
        for i in 1..1_000 {
            let now = began + i * QUIET / 2;
            if looks <= now {
                break;
            }
            looks = looks_at(&mut first, now);
        }
        assert_eq!(looks, began + BUSY);
    }

    /// Each is replaced and removed by ourselves, too.
    #[test]
    fn of_what_is_served_only_what_is_wrong_is_said() {
        let skipped = |why| Event::Library(LibraryEvent::Skipped { path: PathBuf::from("a"), why });
        assert!(is_seen(&skipped(SkipReason::Changed("changed".into()))));
        assert!(!is_seen(&skipped(SkipReason::Unreadable("a bad disk".into()))));
    }
}
