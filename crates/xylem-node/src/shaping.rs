//! What a run wants of its encrypted links, and what it reports about their shaping: the level that a
//! peer agreed to.
//!
//! The shaping itself is `xylem-link`'s.

use xylem_forward::FaceId;
use xylem_link::{Config, Level, PostQuantum, Shaping};

use crate::event::Event;
use xylem_engine::Engine;
use xylem_library::reachable::FaceAddress;

/// So that a relay's header before a datagram still makes a datagram of UDP over IPv4: 65,507 bytes.
const MAX_DATAGRAM: usize = 65_480;

/// What a user says of the encrypted links of one run.
#[derive(Clone, Default, Debug)]
pub struct LinkOptions {
    /// What sizes and times show.
    pub shaping: Shaping,
    /// Whether links rest on ML-KEM-768 too: where the peer does that, always, or never.
    pub post_quantum: PostQuantum,
}

impl LinkOptions {
    pub(crate) fn config(&self) -> Config {
        let Self { shaping, post_quantum } = self.clone();
        Config { shaping, post_quantum, max_datagram: MAX_DATAGRAM, ..Config::default() }
    }
}

/// Reports which level is in force on the link of a face that has come up, if one is, or was wanted.
pub(crate) fn report(
    engine: &Engine,
    face: FaceId,
    wanted: Level,
    peer: &FaceAddress,
    on_event: &mut dyn FnMut(Event),
) {
    if let Some(level) = engine.link_stats(face).map(|stats| stats.shaping)
        && level.max(wanted) > Level::Off
    {
        on_event(Event::Shaped { peer: peer.clone(), level, wanted });
    }
}
