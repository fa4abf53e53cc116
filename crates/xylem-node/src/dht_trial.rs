//! [`try_dht`]: takes the steps of a code and of a public share in the mainline DHT, and reports what each has shown
//! (docs/spec/reach.md, "A trial of the DHT").

use std::net::SocketAddr;
use std::time::Duration;

use xylem_base::{Blame, Failure, NoRandomness, Stop};
use xylem_dht::{
    AnnouncedPorts, DhtEvent, DhtId, LookupEnd, LookupId, LookupKind, ObservedAddress, is_symmetric,
};
use xylem_engine::{Engine, EngineError, EngineEvent, Meeting, Program};
use xylem_reach::volunteer::{VolunteerChoice, VolunteerSearch};

use crate::meeting::{CodeDht, DhtEntry};

/// Time for all steps.
const GIVE_UP: Duration = Duration::from_secs(20);
/// Time for volunteers that are listed to answer.
const ANSWERS: Duration = Duration::from_secs(3);
/// Nodes that have to report an address, as one may lie.
const ENOUGH: usize = 2;

/// What a step has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DhtStep {
    /// This engine listens for programs of this machine alone, so that the DHT can lead no peer here.
    OnlyHere,
    /// The network was entered, and nodes were asked for the way to a key.
    Nodes {
        /// Nodes that have answered; 0: none, and there are no further steps.
        answered: usize,
    },
    /// Nodes were asked to list this machine under a random key.
    Listed {
        /// Nodes that did.
        stored: usize,
    },
    /// The key was looked up again.
    Found {
        /// Addresses that are listed under it.
        at: Vec<SocketAddr>,
        /// Whether one of them is this machine's, as nodes see it.
        is_own: Itself,
    },
    /// Nodes see this machine at an address.
    Seen {
        /// The address.
        at: SocketAddr,
        /// How many see it.
        nodes: usize,
    },
    /// What the ports that they see show.
    Ports(SeenPorts),
    /// Relays for strangers were looked up.
    Volunteers {
        /// Addresses that are listed.
        listed: usize,
        /// How many of those that were asked have answered.
        answered: usize,
    },
    /// The time was over before the last step.
    Unfinished,
}

/// Whether a trial has found this machine in the DHT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Itself {
    /// One listed address is the one that nodes see.
    Found,
    /// None is.
    Missing,
}

/// What nodes of the DHT see of this machine's IPv4 ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenPorts {
    /// One: a NAT, if there is one, keeps it for all peers.
    One,
    /// Another one for each node.
    Many,
    /// Too few nodes have reported any.
    Unknown,
}

/// Why a trial could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DhtTrialError {
    /// Failures of sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system has no randomness.
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

impl Failure for DhtTrialError {
    fn blame(&self) -> Blame {
        match self {
            Self::Engine(e) => e.blame(),
            Self::Random(e) => e.blame(),
        }
    }
}

/// Takes the steps by the engine's own sockets for links. Ends within 20 s, with [`DhtStep::Unfinished`] if steps are missing then. Nothing but a random key is announced, which no peer
/// looks for.
///
/// # Errors
/// Those of sockets and of the system's randomness.
pub fn try_dht(
    engine: &mut Engine,
    how: &CodeDht,
    stop: &Stop,
    tell: &mut dyn FnMut(DhtStep),
) -> Result<Itself, DhtTrialError> {
    let entry = DhtEntry::new(engine, Meeting::Code, how);
    if !entry.is_open(engine) {
        tell(DhtStep::OnlyHere);
        return Ok(Itself::Missing);
    }
    let mut trial = DhtTrial {
        key: DhtId(xylem_base::random()?),
        choice: VolunteerChoice::of_code(u32::from_be_bytes(xylem_base::random()?)),
        seed: xylem_base::random()?,
        until: engine.now().saturating_add(GIVE_UP),
        entry,
        stage: TrialStage::Entering,
        listed: Vec::new(),
        volunteers: 0,
        found: Itself::Missing,
        tell,
    };
    engine.run(&mut trial, stop)?;
    let found = trial.found;
    trial.entry.leave(engine);
    Ok(found)
}

/// The step that is in progress.
#[derive(Clone, Copy)]
enum TrialStage {
    Entering,
    Announcing(LookupId),
    Finding(LookupId),
    Volunteers(LookupId),
    Asking { until: Duration },
    Over,
}

impl TrialStage {
    /// What is reported if the time is over at this stage, after this many nodes have answered.
    fn unfinished(self, answered: usize) -> Vec<DhtStep> {
        match self {
            // Before that nothing was reported.
            Self::Entering | Self::Announcing(_) => match answered {
                0 => vec![DhtStep::Nodes { answered }],
                _ => vec![DhtStep::Nodes { answered }, DhtStep::Unfinished],
            },
            Self::Finding(_) | Self::Volunteers(_) | Self::Asking { .. } => {
                vec![DhtStep::Unfinished]
            }
            Self::Over => Vec::new(),
        }
    }
}

struct DhtTrial<'a> {
    entry: DhtEntry,
    key: DhtId,
    choice: VolunteerChoice,
    seed: [u8; 32],
    until: Duration,
    stage: TrialStage,
    /// Addresses under the key.
    listed: Vec<SocketAddr>,
    /// Addresses of volunteers.
    volunteers: usize,
    found: Itself,
    tell: &'a mut dyn FnMut(DhtStep),
}

impl DhtTrial<'_> {
    /// Begins the next step; ends if the client takes no lookup.
    fn look_up(
        &mut self,
        engine: &mut Engine,
        kind: LookupKind,
        stage: fn(LookupId) -> TrialStage,
    ) {
        self.stage = self.entry.look_up(engine, kind).map_or(TrialStage::Over, stage);
    }

    fn announce(&mut self, engine: &mut Engine) {
        let kind = LookupKind::Announce(self.key, AnnouncedPorts::IMPLIED);
        self.look_up(engine, kind, TrialStage::Announcing);
    }

    fn handle_dht(&mut self, engine: &mut Engine, event: DhtEvent) {
        match (event, self.stage) {
            (DhtEvent::Done(id, end), TrialStage::Announcing(asked)) if id == asked => {
                self.announced(engine, &end);
            }
            (DhtEvent::Peers(id, peers), TrialStage::Finding(asked)) if id == asked => {
                self.listed.extend(peers.new);
            }
            (DhtEvent::Done(id, _), TrialStage::Finding(asked)) if id == asked => {
                self.looked_up(engine);
            }
            (DhtEvent::Peers(id, peers), TrialStage::Volunteers(asked)) if id == asked => {
                self.volunteers = self.volunteers.saturating_add(peers.new.len());
                let now = engine.now();
                if let Some(search) = engine.volunteer_search(self.entry.of()) {
                    peers.new.iter().for_each(|at| search.add(now, *at));
                }
            }
            (DhtEvent::Done(id, _), TrialStage::Volunteers(asked)) if id == asked => {
                let wait = if self.volunteers == 0 { Duration::ZERO } else { ANSWERS };
                self.stage = TrialStage::Asking { until: engine.now().saturating_add(wait) };
            }
            _ => {}
        }
    }

    fn announced(&mut self, engine: &mut Engine, end: &LookupEnd) {
        if end.answered == 0 && self.entry.more() {
            // Nodes of an earlier run are gone: the well-known ones are next.
            self.stage = TrialStage::Entering;
            return;
        }
        (self.tell)(DhtStep::Nodes { answered: end.answered });
        if end.answered == 0 {
            self.stage = TrialStage::Over;
            return;
        }
        (self.tell)(DhtStep::Listed { stored: end.stored });
        self.look_up(engine, LookupKind::Peers(self.key), TrialStage::Finding);
    }

    fn looked_up(&mut self, engine: &mut Engine) {
        let of = self.entry.of();
        let v4 = engine.dht(of).map(|dht| dht.observed_v4()).unwrap_or_default();
        let v6 = engine.dht(of).map(|dht| dht.observed_v6()).unwrap_or_default();
        let seen: Vec<ObservedAddress> = v4.iter().chain(&v6).copied().collect();
        let symmetric = is_symmetric(&v4);
        // A symmetric NAT gave each node that lists this machine a port of its own.
        let is_own = |at: &SocketAddr| match symmetric {
            Some(true) => seen.iter().any(|seen| seen.at.ip() == at.ip()),
            _ => seen.iter().any(|seen| seen.at == *at),
        };
        if self.listed.iter().any(is_own) {
            self.found = Itself::Found;
        }
        let at = std::mem::take(&mut self.listed);
        (self.tell)(DhtStep::Found { at, is_own: self.found });
        for ObservedAddress { at, nodes } in seen.into_iter().filter(|seen| seen.nodes >= ENOUGH) {
            (self.tell)(DhtStep::Seen { at, nodes });
        }
        (self.tell)(DhtStep::Ports(match symmetric {
            Some(true) => SeenPorts::Many,
            Some(false) => SeenPorts::One,
            None => SeenPorts::Unknown,
        }));
        let search = VolunteerSearch::new(&self.choice, self.entry.is_near(), &self.seed);
        engine.search_volunteers(of, search);
        let target = DhtId(self.choice.listed_under);
        self.look_up(engine, LookupKind::Peers(target), TrialStage::Volunteers);
    }

    fn asked(&mut self, engine: &mut Engine, until: Duration) {
        let now = engine.now();
        let search = engine.volunteer_search(self.entry.of());
        let chosen = search.and_then(|search| search.chosen(now));
        if chosen.is_none() && now < until {
            return;
        }
        let answered = chosen.map_or(0, |chosen| chosen.len());
        (self.tell)(DhtStep::Volunteers { listed: self.volunteers, answered });
        self.stage = TrialStage::Over;
    }
}

impl Program for DhtTrial<'_> {
    type Error = EngineError;

    fn handle(&mut self, _engine: &mut Engine, _event: EngineEvent) -> Result<(), EngineError> {
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), EngineError> {
        if matches!(self.stage, TrialStage::Entering) && self.entry.poll(engine) {
            self.announce(engine);
        }
        while let Some(event) = self.entry.poll_event(engine) {
            self.handle_dht(engine, event);
        }
        if let TrialStage::Asking { until } = self.stage {
            self.asked(engine, until);
        }
        if now >= self.until {
            let steps = self.stage.unfinished(self.entry.answers(engine));
            steps.into_iter().for_each(&mut *self.tell);
            self.stage = TrialStage::Over;
        }
        Ok(())
    }

    fn is_done(&mut self, _engine: &Engine, stopped: bool) -> bool {
        stopped || matches!(self.stage, TrialStage::Over)
    }

    fn poll_timeout(&mut self, _now: Duration) -> Option<Duration> {
        match self.stage {
            TrialStage::Asking { until } => Some(until.min(self.until)),
            _ => Some(self.until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_that_runs_out_of_time_reports_the_nodes_and_that_steps_are_missing() {
        let asking = TrialStage::Asking { until: Duration::ZERO };
        for (stage, answered, steps) in [
            (TrialStage::Entering, 0, &[DhtStep::Nodes { answered: 0 }][..]),
            (TrialStage::Entering, 3, &[DhtStep::Nodes { answered: 3 }, DhtStep::Unfinished]),
            (asking, 3, &[DhtStep::Unfinished]),
            (TrialStage::Over, 3, &[]),
        ] {
            assert_eq!(stage.unfinished(answered), steps);
        }
    }
}
