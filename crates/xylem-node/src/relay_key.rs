//! [`key_of_relay`]: asks a relay that was named without its key which key it has (docs/spec/reach.md, "Relays without keys").
//!
//! It dials the relay at all its addresses as any peer whose key is unknown, and takes the key that the first one proves.
//! Nothing else is sent over that link. The key then holds for the whole run, as one that was named.

use std::net::SocketAddr;
use std::time::Duration;

use xylem_base::NoRandomness;
use xylem_base::Stop;
use xylem_engine::{Engine, EngineError, EngineEvent, Program, look_up};
use xylem_forward::{Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_link::{Endpoint, LinkConfig, StaticKey};
use xylem_mgmt::{Carrier, Persistency};
use xylem_object::ticket::Address;
use xylem_peers::reachable::{HostLookupError, PeerAddress};

/// How long a relay may take to answer.
const GIVE_UP: Duration = Duration::from_secs(4);
/// How long UDP may be silent before TCP is tried too.
const UDP_FIRST: Duration = Duration::from_millis(700);
/// TCP port that is tried besides the relay's own.
const WEB_PORT: u16 = 443;

/// Why a relay could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum KeyQuestionError {
    /// Its host name leads to no address.
    #[error(transparent)]
    Host(#[from] HostLookupError),
    /// Failures of sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system has no randomness.
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

/// The key that the relay at this address proves; `None`: it has not answered in four seconds.
///
/// # Errors
/// Those of name lookup, of sockets, and of the system's randomness.
pub fn key_of_relay(at: &Address) -> Result<Option<[u8; 32]>, KeyQuestionError> {
    let (at, name) = match at {
        Address::Ip(address) => (vec![*address], None),
        Address::Host(name, port) => (look_up(name.as_str(), *port)?, Some(name.as_str())),
    };
    let config = LinkConfig { accept_incoming: false, ..LinkConfig::default() };
    let own = StaticKey::generate(xylem_base::random()?);
    let endpoint = Endpoint::new(config, own, xylem_base::random()?);
    let seed = ForwarderSeed::from_random(xylem_base::random()?);
    let mut engine = Engine::new(endpoint, Forwarder::new(ForwarderConfig::end_host(), seed))?;
    let udp = at.iter().map(|address| PeerAddress::Link { address: *address, key: None });
    let carried = |address: SocketAddr, port| PeerAddress::Carried {
        carrier: Carrier::SecureWebSocket,
        address: SocketAddr::new(address.ip(), port),
        name: name.map(str::to_owned),
        key: None,
    };
    let tcp = at.iter().flat_map(|address| {
        let mut ports = vec![WEB_PORT, address.port()];
        ports.dedup();
        ports.into_iter().map(move |port| carried(*address, port))
    });
    let began = engine.now();
    let mut question = KeyQuestion {
        later: tcp.collect(),
        tcp_at: began.saturating_add(UDP_FIRST),
        until: began.saturating_add(GIVE_UP),
        key: None,
    };
    for peer in udp {
        question.dial(&mut engine, &peer);
    }
    engine.run(&mut question, &Stop::new())?;
    engine.close();
    Ok(question.key)
}

/// The dials whose first answer counts.
struct KeyQuestion {
    /// Dialled after [`UDP_FIRST`].
    later: Vec<PeerAddress>,
    tcp_at: Duration,
    until: Duration,
    key: Option<[u8; 32]>,
}

impl KeyQuestion {
    fn dial(&self, engine: &mut Engine, peer: &PeerAddress) {
        // One of several addresses may be of a family that this machine does not have.
        if let Err(e) = engine.dial(peer, Persistency::Persistent) {
            tracing::debug!(%peer, %e, "cannot dial a relay");
        }
    }
}

impl Program for KeyQuestion {
    type Error = EngineError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), EngineError> {
        if let EngineEvent::FaceUp { face, .. } = event {
            self.key = self.key.or_else(|| engine.link_peer(face).map(|key| key.0));
        }
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), EngineError> {
        if now >= self.tcp_at {
            for peer in std::mem::take(&mut self.later) {
                self.dial(engine, &peer);
            }
        }
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        stopped || self.key.is_some() || engine.now() >= self.until
    }

    fn poll_timeout(&mut self, _now: Duration) -> Option<Duration> {
        let tcp = Some(self.tcp_at).filter(|_| !self.later.is_empty());
        tcp.into_iter().chain([self.until]).min()
    }
}
