//! Which relays an engine uses, and what peers there are told (docs/spec/reach.md).

use std::net::SocketAddr;

use xylem_engine::{Engine, RelayNews, RelayUse, advertised};
use xylem_library::reachable::{Peer, Relay, RelayWays};
use xylem_reach::kind::News;
use xylem_reach::relay::{Name, Target};

use crate::event::Event;
use xylem_engine::{look_up, ways_to};

/// A relay that peers are dialled through.
///
/// # Errors
/// Why its host has no address.
pub fn to_dial(relay: &Relay) -> Result<RelayUse, String> {
    let RelayWays { udp, tcp } = relay.ways(&look_up)?;
    let udp = udp.iter().filter_map(Peer::link_address).flat_map(ways_to).collect();
    let (key, names) = (relay.at.key, Vec::new());
    Ok(RelayUse { key, udp, tcp, listens: false, names, wants_code: false })
}

/// Whoever has this key, or else whom the publisher vouches for, through a relay.
pub(crate) fn through(relay: &RelayUse, key: Option<[u8; 32]>, or: Target) -> Option<Peer> {
    let tcp = || relay.tcp.iter().find_map(Peer::link_address);
    let at = relay.udp.first().copied().or_else(tcp)?;
    let target = key.map_or(or, Target::Key);
    Some(Peer::Relayed { relay: relay.key, at, target, key })
}

/// Somebody who was reached there, and introduces others who have reached it.
pub(crate) fn introducer(key: [u8; 32], at: SocketAddr) -> RelayUse {
    let (udp, tcp, names) = (vec![at], Vec::new(), Vec::new());
    RelayUse { key, udp, tcp, listens: false, names, wants_code: false }
}

/// Registers with relays, so that others may ask for this end there by its key or one of the `names`; with `code` the first
/// one is to give a number too.
pub(crate) fn register(
    engine: &mut Engine,
    relays: &[Relay],
    names: &[Name],
    code: bool,
    on_event: &mut dyn FnMut(Event),
) {
    for (i, relay) in relays.iter().enumerate() {
        let used = to_dial(relay).and_then(|uses| {
            let (names, wants_code) = (names.to_vec(), code && i == 0);
            let uses = RelayUse { listens: true, names, wants_code, ..uses };
            engine.use_relay(uses).map_err(|e| e.to_string())
        });
        if let Err(why) = used {
            on_event(Event::warning(format!("relay {relay} is not used: {why}")));
        }
    }
}

/// Peers at relays are told where this end may be reached besides: at its interfaces and where `announced`.
pub(crate) fn tell_own_addresses(engine: &mut Engine, announced: impl Iterator<Item = SocketAddr>) {
    let mut own: Vec<SocketAddr> = announced.collect();
    own.extend(advertised(&engine.link_addresses()));
    engine.set_own_addresses(own);
}

/// What a relay has told, as far as it says how this end is reached.
pub fn news(what: &RelayNews) -> News {
    match *what {
        RelayNews::Registered { over_tcp, .. } => News::Registered { over_tcp },
        RelayNews::Observed { address, by_second } => News::Observed { address, by_second },
        RelayNews::Failed { .. } => News::Failed,
    }
}
