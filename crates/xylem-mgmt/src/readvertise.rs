//! [`Readvertise`]: announces registrations of local programs to a routing daemon of this machine.
//!
//! The daemon (NLSR, NDNd's `dv`) registers `/localhost/nlsr` and accepts rib/register and rib/unregister under it.
//! Announced are prefixes with a route of the origins `app` and `client`. Routes of the daemon itself have another
//! origin, so there is no loop. Prefixes of this machine or link alone (`/localhost`, `/localhop`) are not announced. A
//! command without confirmation is sent again, a confirmed one once an hour, and all of them when the daemon comes
//! back.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use xylem_packet::{Component, Data, Interest, Name, NameRef};
use xylem_trust::{CommandStamp, Signer};

use crate::{ControlParameters, Rib, client, types};

/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause before a refused or unanswered command is sent again; it doubles each time.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, and the interval at which confirmed commands are sent again (NFD).
const REFRESH: Duration = Duration::from_secs(3600);
/// Maximum number of commands that wait for an answer.
const MAX_PENDING_COMMANDS: usize = 32;

/// A prefix, as the value of a Name.
type Prefix = Box<[u8]>;

/// Wanted and known state of the daemon.
#[derive(Debug, Default)]
pub(crate) struct Readvertise {
    /// Whether the daemon has registered its prefix.
    daemon_is_present: bool,
    prefixes: BTreeMap<Prefix, AdvertisedPrefix>,
    due: BTreeSet<(Duration, Prefix)>,
    /// The commands that wait for an answer.
    asked: HashMap<Name, Prefix>,
    /// Counter that makes each command unique.
    command_counter: u64,
}

#[derive(Debug, Default)]
struct AdvertisedPrefix {
    /// The wanted cost; `None` to take it back.
    wanted_cost: Option<u64>,
    /// The last cost that the daemon may have received.
    sent_cost: Option<u64>,
    /// Whether the daemon has confirmed it.
    is_confirmed: bool,
    /// The command that waits for an answer, and the cost in it.
    pending_command: Option<(Name, Option<u64>)>,
    due: Option<Duration>,
    pause: Duration,
}

/// The prefix of the daemon's commands.
fn daemon() -> Name {
    Name::new().child(Component::generic(b"localhost")).child(Component::generic(b"nlsr"))
}

impl Readvertise {
    /// Reports that routes of these prefixes have come or gone.
    pub(crate) fn routes_changed(&mut self, now: Duration, changed: BTreeSet<Prefix>, rib: &Rib) {
        let daemon = daemon();
        for key in changed {
            let Ok(prefix) = NameRef::from_value(&key) else { continue };
            if prefix == daemon.as_ref() {
                self.set_daemon_present(now, !rib.routes(prefix).is_empty());
                continue;
            }
            let first = prefix.get(0);
            let here = [b"localhost".as_slice(), b"localhop"].map(Component::generic);
            if first.is_some_and(|first| here.contains(&first)) {
                continue;
            }
            let theirs = rib
                .routes(prefix)
                .iter()
                .filter(|r| [types::ORIGIN_APP, types::ORIGIN_CLIENT].contains(&r.origin));
            let wanted = theirs.map(|route| route.cost).min();
            if wanted.is_none() && !self.prefixes.contains_key(&key) {
                continue;
            }
            let entry = self.prefixes.entry(key.clone()).or_default();
            entry.wanted_cost = wanted;
            entry.pause = RETRY_PAUSE;
            if entry.pending_command.is_none() {
                self.schedule_next(now, &key);
            }
        }
    }

    /// Reports that the daemon has come or gone; its state is then unknown.
    fn set_daemon_present(&mut self, now: Duration, there: bool) {
        if there == self.daemon_is_present {
            return;
        }
        self.daemon_is_present = there;
        self.asked.clear();
        self.due.clear();
        self.prefixes.retain(|_, entry| entry.wanted_cost.is_some());
        for (key, entry) in &mut self.prefixes {
            (entry.sent_cost, entry.is_confirmed) = (None, false);
            (entry.pending_command, entry.pause) = (None, RETRY_PAUSE);
            entry.due = there.then_some(now);
            if there {
                self.due.insert((now, key.clone()));
            }
        }
    }

    /// Without a pending command for a prefix, schedules the next one if it is needed.
    fn schedule_next(&mut self, now: Duration, key: &Prefix) {
        let Some(entry) = self.prefixes.get(key) else { return };
        let is_known = entry.is_confirmed && entry.wanted_cost == entry.sent_cost;
        match (entry.wanted_cost, entry.sent_cost) {
            (None, None) => {
                self.wait(key, None);
                self.prefixes.remove(key);
            }
            _ if !self.daemon_is_present => {}
            _ if is_known => self.wait(key, Some(now.saturating_add(REFRESH))),
            _ => self.wait(key, Some(now)),
        }
    }

    fn wait(&mut self, key: &Prefix, due: Option<Duration>) {
        let Some(entry) = self.prefixes.get_mut(key) else { return };
        if let Some(before) = core::mem::replace(&mut entry.due, due) {
            self.due.remove(&(before, key.clone()));
        }
        if let Some(due) = due {
            self.due.insert((due, key.clone()));
        }
    }

    /// When to call [`Self::transmit`].
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        if self.asked.len() < MAX_PENDING_COMMANDS {
            return self.due.first().map(|(due, _)| *due);
        }
        self.asked.values().filter_map(|key| self.prefixes.get(key)?.due).min()
    }

    /// Appends the commands that are due, and gives up those without an answer.
    pub(crate) fn transmit(
        &mut self,
        now: Duration,
        now_ms: u64,
        signer: &Signer,
        out: &mut Vec<Vec<u8>>,
    ) {
        let is_late = |key: &&Prefix| {
            self.prefixes.get(*key).and_then(|entry| entry.due).is_none_or(|due| due <= now)
        };
        let late: Vec<Prefix> = self.asked.values().filter(is_late).cloned().collect();
        self.asked.retain(|_, key| !late.contains(key));
        for key in &late {
            self.schedule_retry(now, key);
        }
        while self.asked.len() < MAX_PENDING_COMMANDS
            && let Some((due, key)) = self.due.first().filter(|(due, _)| *due <= now).cloned()
        {
            let Some(entry) = self.prefixes.get_mut(&key) else {
                self.due.remove(&(due, key));
                continue;
            };
            let (verb, cost) = match entry.wanted_cost {
                Some(cost) => ("register", Some(cost)),
                None => ("unregister", None),
            };
            let wanted = entry.wanted_cost;
            let Ok(prefix) = NameRef::from_value(&key) else { break };
            let parameters = ControlParameters {
                name: Some(prefix.to_name()),
                cost,
                ..ControlParameters::default()
            };
            self.command_counter = self.command_counter.wrapping_add(1);
            let stamp = CommandStamp::new(self.command_counter.to_be_bytes(), now_ms);
            let nonce = (self.command_counter as u32).to_be_bytes();
            let command = client::readvertise(verb, &parameters, signer, stamp, nonce);
            let name = command.as_ref().ok().and_then(|wire| {
                Interest::decode(wire).ok().map(|interest| interest.name().to_name())
            });
            let (Ok(wire), Some(name)) = (command, name) else {
                // The prefix is too long for a command.
                self.wait(&key, None);
                continue;
            };
            // The daemon may receive it even if its answer is lost.
            entry.sent_cost = wanted.or(entry.sent_cost);
            entry.is_confirmed = false;
            entry.pending_command = Some((name.clone(), wanted));
            self.asked.insert(name, key.clone());
            self.wait(&key, Some(now.saturating_add(PATIENCE)));
            out.push(wire);
        }
    }

    /// Schedules a retry of a failed command.
    fn schedule_retry(&mut self, now: Duration, key: &Prefix) {
        let Some(entry) = self.prefixes.get_mut(key) else { return };
        entry.pending_command = None;
        let pause = entry.pause;
        entry.pause = pause.saturating_mul(2).min(REFRESH);
        self.wait(key, Some(now.saturating_add(pause)));
    }

    /// Handles an answer, if it is one of the daemon's.
    pub(crate) fn handle_answer(&mut self, now: Duration, data: &Data<'_>) {
        let Some(key) = self.asked.remove(&data.name().to_name()) else { return };
        let Some(entry) = self.prefixes.get_mut(&key) else { return };
        let Some((_, about)) = entry.pending_command.take() else { return };
        let done = crate::ControlResponse::decode(data.content()).is_ok_and(|r| r.code == 200);
        if done {
            (entry.sent_cost, entry.is_confirmed, entry.pause) = (about, true, RETRY_PAUSE);
            self.schedule_next(now, &key);
        } else {
            self.schedule_retry(now, &key);
        }
    }

    /// Handles a command that came back: there is no route to a daemon.
    pub(crate) fn handle_returned(&mut self, now: Duration, interest: &Interest<'_>) {
        let Some(key) = self.asked.remove(&interest.name().to_name()) else { return };
        self.schedule_retry(now, &key);
    }
}
