//! What other members have and we have not.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use xylem_library::folder::{Plan, Statement, Stored, copy_of};
use xylem_library::{Blame, Error, Only, Stop, os_path};
use xylem_node::wall_clock;
use xylem_object::{PublisherId, Ticket};

use super::{MAX_AHEAD_MS, MAX_NAMED, Member, SyncEvent, fetching, pause, warning};

/// Before the name of a member where it is fetched to, in what is ours of the folder.
const STAGED: &str = "incoming";

fn staged(member: &PublisherId) -> String {
    format!("{STAGED}-{}", member.key_id())
}

impl Member<'_> {
    /// Takes over what a member has and we have not.
    pub(super) fn take_over(
        &mut self,
        member: &PublisherId,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<(), Error> {
        let Some(other) = self.others.get(member) else { return Ok(()) };
        if other.said.state == self.folder.state() {
            self.settled(member, true);
            return Ok(());
        }
        let said = other.said.clone();
        let stop = self.stop.part();
        let waits = |who: &PublisherId, newest| {
            self.others.get(who).is_some_and(|other| {
                self.can_ask(other) && (!other.done || newest > other.said.number)
            })
        };
        let readers =
            self.others.keys().filter(|who| !self.roles.may_write(who)).copied().collect();
        self.asking.begin(*member, said.number, (waits, readers), &stop);
        let merged = self.merge(&said, &stop, tell);
        self.asking.end(matches!(merged, Ok(true)));
        match merged {
            Ok(whole) => {
                self.settled(member, whole);
                // Others hear of it from us, too; and what stood in the way is looked at.
                self.look = Some(Instant::now());
            }
            Err(e) if e.blame == Blame::Interrupted => {}
            Err(e) => {
                tracing::debug!(%e, name = said.name, "nothing was taken over");
                self.settled(member, false);
                let Some(other) = self.others.get_mut(member) else { return Ok(()) };
                let why = e.to_string();
                // Ways that fail now so and now otherwise are one piece of news; what it says wrongly is another each time.
                let is_new = other.told.is_empty() || (e.blame == Blame::Data && other.told != why);
                if other.failures > 3 && is_new {
                    tell(warning(format!("{} is not followed: {why}; trying again", said.name)));
                    other.told = why;
                }
            }
        }
        Ok(())
    }

    fn settled(&mut self, member: &PublisherId, whole: bool) {
        self.moved = true;
        let Some(other) = self.others.get_mut(member) else { return };
        other.done = whole;
        other.again = (!whole).then(|| Instant::now() + pause(other.failures));
        other.failures = if whole { 0 } else { other.failures + 1 };
        if whole {
            other.told.clear();
            self.drop_staged();
        }
    }

    /// Removes what has come of members of whom nothing is wanted any more, or who are none.
    fn drop_staged(&self) {
        let wanted = self.others.iter().filter(|(_, other)| !other.done);
        let wanted: Vec<String> = wanted.map(|(member, _)| staged(member)).collect();
        for entry in fs::read_dir(self.folder.own("")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // Until it is whole there is a dot before it, and more behind.
            let name = name.strip_prefix('.').unwrap_or(&name);
            if name.starts_with(STAGED) && !wanted.iter().any(|w| name.starts_with(w)) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    fn merge(
        &mut self,
        said: &Statement,
        stop: &Stop,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<bool, Error> {
        let at = self.folder.own(&format!("of-{}", said.member.key_id()));
        let (theirs, content) = fetching::index((self.options, &self.asking), said, &at, stop)?;
        loop {
            let plan = self.folder.plan(&theirs)?;
            if plan.is_empty() {
                return Ok(true);
            }
            let rest = plan.rest;
            let whole = self.merge_portion(said, plan, (&theirs, &content), stop, tell)?;
            if !whole || !rest || stop.raised() {
                return Ok(whole && !rest);
            }
        }
    }

    fn merge_portion(
        &mut self,
        said: &Statement,
        plan: Plan,
        (theirs, content): (&Stored, &Ticket),
        stop: &Stop,
        tell: &mut dyn FnMut(SyncEvent),
    ) -> Result<bool, Error> {
        if plan.newest() > wall_clock().milliseconds().saturating_add(MAX_AHEAD_MS) {
            return Err(fetching::odd(said, "it has changes of a time more than a day ahead"));
        }
        // A place for each: what has come of one stays while another is asked.
        let staged = self.folder.own(&staged(&said.member));
        let _ = fs::remove_dir_all(&staged);
        let wanted = plan.wanted(theirs)?;
        if !wanted.is_empty() {
            let paths = Arc::new(wanted.values().cloned().collect());
            let roots = Arc::new(wanted.iter().map(|(root, at)| (at.clone(), *root)).collect());
            let copies = Arc::new(self.folder.copies(&wanted)?);
            let only = Only { paths, roots, copies };
            fetching::content(
                (self.options, &self.asking),
                content.clone(),
                only,
                (&self.path, &staged),
                stop,
            )?;
        }
        let (put, gone) = (plan.put.len() as u64, plan.gone.len() as u64);
        let conflicts = plan.met.iter().take(MAX_NAMED).map(|path| os_path(path)).collect();
        let places = plan.put.iter().map(|place| &place.path);
        let copies = plan.aside.iter().map(|(to, _)| to).chain(places);
        let copies = copies.filter_map(|path| Some((os_path(path), copy_of(path)?.to_owned())));
        let copies = copies.take(MAX_NAMED).collect();
        let whole = self.folder.apply(plan, &staged, &wanted, wall_clock().milliseconds())?;
        let _ = fs::remove_dir_all(&staged);
        if put + gone > 0 {
            let (name, kept) = (said.name.clone(), self.folder.removed());
            tell(SyncEvent::Took { name, put, gone, kept, conflicts, copies });
        }
        Ok(whole)
    }
}
