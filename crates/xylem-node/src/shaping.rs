//! Options for a run's encrypted links, and the report of the shaping level that a peer agreed to.
//!
//! `xylem-link` does the shaping itself.

use xylem_forward::FaceId;
use xylem_link::{Level, LinkConfig, PostQuantum, Shaping};
use xylem_peers::reachable::FaceAddress;

use crate::event::Event;
use xylem_engine::Engine;

/// Largest link datagram in bytes. With a relay's header before it, it still fits a UDP datagram over IPv4: 65,507
/// bytes.
const MAX_DATAGRAM: usize = 65_480;

/// Options for the encrypted links of one run.
#[derive(Clone, Default, Debug)]
pub struct LinkOptions {
    /// How far the sizes and times of datagrams are shaped.
    pub shaping: Shaping,
    /// Whether links also use ML-KEM-768: if the peer supports it, always, or never.
    pub post_quantum: PostQuantum,
    /// Local UDP port of the links that a fetch dials, if it is free: one that NATs already let pass.
    pub port: Option<u16>,
}

impl LinkOptions {
    pub(crate) fn config(&self) -> LinkConfig {
        let Self { shaping, post_quantum, port: _ } = self.clone();
        LinkConfig { shaping, post_quantum, max_datagram: MAX_DATAGRAM, ..LinkConfig::default() }
    }
}

/// Reports the shaping level of the link of a face that has come up, if a level is in force or was requested.
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
