//! Registers a prefix with NDN forwarders by signed `rib/register` commands of the NFD management protocol, again after
//! each reconnection.
//!
//! Its packets go through the engine's forwarder like any others.

use std::time::Duration;

use xylem_base::{Blame, Failure, NoRandomness};
use xylem_forward::FaceId;
use xylem_mgmt::{CommandScope, ControlParameters, Persistency, client};
use xylem_object::PublisherKey;
use xylem_packet::{Data, EncodeError, Interest, Name};
use xylem_peers::reachable::{FaceAddress, PeerAddress};
use xylem_trust::CommandStamp;

use xylem_engine::{Engine, EngineError, now_ms};

/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause before a refused registration is tried again.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// Interval at which registrations over datagrams are repeated, as a restart of the forwarder goes unnoticed there.
const REFRESH_EVERY: Duration = Duration::from_secs(60);

/// Why a prefix cannot be registered anywhere.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The prefix does not fit into a command.
    #[error("{prefix} cannot be registered: {why}")]
    Command {
        /// The prefix.
        prefix: Name,
        /// Reason.
        why: EncodeError,
    },
    /// Failures of sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

impl Failure for RegisterError {
    fn blame(&self) -> Blame {
        match self {
            Self::Command { .. } => Blame::Usage,
            Self::Engine(e) => e.blame(),
            Self::Randomness(e) => e.blame(),
        }
    }
}

/// A report of a [`Registrar`].
pub enum RegistrationNews {
    /// A forwarder accepted the prefix: from now on there is a route.
    Taken {
        /// The forwarder.
        forwarder: FaceAddress,
        /// The prefix.
        prefix: Name,
    },
    /// It did not, for this reason; the registration is tried again.
    Failed(String),
}

/// The state of one forwarder.
struct Via {
    face: FaceId,
    peer: PeerAddress,
    state: ViaState,
    /// The latest warning about it. Each is given once.
    last_reported: Option<String>,
    registered: bool,
}

enum ViaState {
    /// Its face is down.
    Away,
    /// Waits since `at` for an answer to this command.
    Asked { command: Vec<u8>, at: Duration },
    /// Nothing to do before `until`.
    Rest { until: Option<Duration> },
}

/// Registers one prefix with all given forwarders.
pub struct Registrar {
    prefix: Name,
    /// Signs the commands: forwarders with trust anchors accept no digest.
    key: PublisherKey,
    via: Vec<Via>,
}

impl Registrar {
    /// Makes a permanent face to each forwarder.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(
        engine: &mut Engine,
        prefix: Name,
        peers: &[PeerAddress],
        key: PublisherKey,
    ) -> Result<Self, RegisterError> {
        let mut via = Vec::new();
        for peer in peers {
            let face = engine
                .dial(peer, Persistency::Permanent)
                .map_err(|why| EngineError::Dial { at: peer.into(), why })?;
            let state = ViaState::Away;
            via.push(Via {
                face,
                peer: peer.clone(),
                state,
                last_reported: None,
                registered: false,
            });
        }
        Ok(Self { prefix, key, via })
    }

    /// The prefix.
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    /// When [`Registrar::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let due = |via: &Via| match via.state {
            ViaState::Away => None,
            ViaState::Asked { at, .. } => Some(at + PATIENCE),
            ViaState::Rest { until } => until,
        };
        self.via.iter().filter_map(due).min()
    }

    /// Handles a face that came up. If it is a forwarder's, sends the registration.
    pub fn came_up(&mut self, engine: &mut Engine, face: FaceId) -> Result<(), RegisterError> {
        match self.via.iter_mut().find(|via| via.face == face) {
            Some(via) => send_registration(engine, &self.prefix, &self.key, via),
            None => Ok(()),
        }
    }

    /// Handles a face that is down or never came up.
    pub fn went_down(
        &mut self,
        face: FaceId,
        why: &str,
        on_event: &mut dyn FnMut(RegistrationNews),
    ) {
        if let Some(via) = self.via.iter_mut().find(|via| via.face == face) {
            via.state = ViaState::Away;
            via.warn(&format!("cannot be reached ({why})"), on_event);
        }
    }

    /// Sends commands again if an answer is overdue or a registration has to be refreshed.
    pub fn handle_timeout(
        &mut self,
        engine: &mut Engine,
        on_event: &mut dyn FnMut(RegistrationNews),
    ) -> Result<(), RegisterError> {
        let now = engine.now();
        for via in &mut self.via {
            match via.state {
                ViaState::Asked { at, .. } if at + PATIENCE <= now => {
                    via.warn("no answer to the registration", on_event);
                    send_registration(engine, &self.prefix, &self.key, via)?;
                }
                ViaState::Rest { until: Some(until) } if until <= now => {
                    send_registration(engine, &self.prefix, &self.key, via)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Handles a Data sent to this program.
    pub fn answered(
        &mut self,
        now: Duration,
        data: &Data<'_>,
        on_event: &mut dyn FnMut(RegistrationNews),
    ) {
        for via in &mut self.via {
            let ViaState::Asked { command, .. } = &via.state else { continue };
            // Our own bytes, so this succeeds.
            let Ok(interest) = Interest::decode(command) else { continue };
            if interest.name() != data.name() {
                continue;
            }
            let refused = match client::response(&interest, data) {
                Ok(response) if response.code == 200 => None,
                Ok(response) => Some(format!("{} {}", response.code, response.text)),
                Err(e) => Some(e.to_string()),
            };
            match refused {
                None => {
                    let refresh =
                        matches!(via.peer, PeerAddress::Udp(_)).then(|| now + REFRESH_EVERY);
                    via.state = ViaState::Rest { until: refresh };
                    via.last_reported = None;
                    if !std::mem::replace(&mut via.registered, true) {
                        let (forwarder, prefix) = ((&via.peer).into(), self.prefix.clone());
                        on_event(RegistrationNews::Taken { forwarder, prefix });
                    }
                }
                Some(why) => {
                    via.state = ViaState::Rest { until: Some(now + REFUSED_PAUSE) };
                    via.warn(&format!("registration refused: {why}"), on_event);
                }
            }
        }
    }

    /// Handles a command of ours that a forwarder returned.
    pub fn refused(
        &mut self,
        now: Duration,
        interest: &Interest<'_>,
        on_event: &mut dyn FnMut(RegistrationNews),
    ) {
        for via in &mut self.via {
            let ViaState::Asked { command, .. } = &via.state else { continue };
            if Interest::decode(command).is_ok_and(|own| own.name() == interest.name()) {
                via.state = ViaState::Rest { until: Some(now + REFUSED_PAUSE) };
                via.warn("it accepts no registrations (Nack)", on_event);
            }
        }
    }
}

impl Via {
    fn warn(&mut self, why: &str, on_event: &mut dyn FnMut(RegistrationNews)) {
        let what = format!("{}: {why}; trying again", self.peer);
        tracing::debug!(face = %self.face, why, "registration has failed");
        self.registered = false;
        if self.last_reported.as_ref() != Some(&what) {
            on_event(RegistrationNews::Failed(what.clone()));
            self.last_reported = Some(what);
        }
    }
}

/// Sends the command, signed by the publisher. From local programs forwarders accept this like a digest. Forwarders
/// with trust anchors accept nothing else.
fn send_registration(
    engine: &mut Engine,
    prefix: &Name,
    key: &PublisherKey,
    via: &mut Via,
) -> Result<(), RegisterError> {
    let scope = CommandScope::of(&via.peer.face_uri());
    let parameters = ControlParameters { name: Some(prefix.clone()), ..Default::default() };
    let stamp = CommandStamp::new(xylem_base::random()?, now_ms());
    let nonce = xylem_base::random()?;
    let command =
        client::command(scope, "rib", "register", &parameters, key.signer(), stamp, nonce)
            .map_err(|why| RegisterError::Command { prefix: prefix.clone(), why })?;
    engine.ask(via.face, &command);
    via.state = ViaState::Asked { command, at: engine.now() };
    Ok(())
}
