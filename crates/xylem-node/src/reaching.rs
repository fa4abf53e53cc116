//! Relays that an engine uses, and the addresses it announces to peers there (docs/spec/reach.md).

use std::net::SocketAddr;

use xylem_engine::{Engine, RelayNotice, RelayUse, advertised};
use xylem_peers::reachable::{HostLookupError, PeerAddress, Relay, RelayWays};
use xylem_reach::kind::RelayReport;
use xylem_reach::relay::{ConnectTarget, VouchedName};

use crate::code::RelayDialError;
use crate::event::Event;
use xylem_engine::{look_up, ways_to};

/// A relay through which peers are dialled.
///
/// # Errors
/// The reason why the relay's host resolves to no address.
pub fn to_dial(relay: &Relay) -> Result<RelayUse, HostLookupError> {
    let RelayWays { udp, tcp } = relay.ways(&look_up)?;
    let udp = udp.iter().filter_map(PeerAddress::link_address).flat_map(ways_to).collect();
    let (key, names) = (relay.at.key, Vec::new());
    let token = relay.token.clone();
    Ok(RelayUse { key, udp, tcp, listens: false, names, wants_code: false, token })
}

/// The peer that has this key, or else matches `or`, reached through a relay. `None` if the relay has no address.
pub(crate) fn through(
    relay: &RelayUse,
    key: Option<[u8; 32]>,
    or: ConnectTarget,
) -> Option<PeerAddress> {
    let tcp = || relay.tcp.iter().find_map(PeerAddress::link_address);
    let at = relay.udp.first().copied().or_else(tcp)?;
    let target = key.map_or(or, ConnectTarget::Key);
    Some(PeerAddress::Relayed { relay: relay.key, at, target, key })
}

/// A peer reached at this address, used to introduce other peers that have reached it.
pub(crate) fn introducer(key: [u8; 32], at: SocketAddr) -> RelayUse {
    let (udp, tcp, names) = (vec![at], Vec::new(), Vec::new());
    RelayUse { key, udp, tcp, listens: false, names, wants_code: false, token: None }
}

/// Registers with relays, so that other peers can find this end there by its key or by one of `names`. With `code` the
/// first relay also assigns a number for a code.
pub(crate) fn register(
    engine: &mut Engine,
    relays: &[Relay],
    names: &[VouchedName],
    code: bool,
    on_event: &mut dyn FnMut(Event),
) {
    for (i, relay) in relays.iter().enumerate() {
        let ways = to_dial(relay).map(|ways| RelayUse { wants_code: code && i == 0, ..ways });
        if let Err(why) = listen_at(engine, ways, names) {
            on_event(Event::warning(format!("relay {relay} is not used: {why}")));
        }
    }
}

/// Registers with a relay whose host was looked up.
///
/// # Errors
/// The reason why the relay cannot be used.
pub(crate) fn listen_at(
    engine: &mut Engine,
    ways: Result<RelayUse, HostLookupError>,
    names: &[VouchedName],
) -> Result<(), RelayDialError> {
    engine.use_relay(RelayUse { listens: true, names: names.to_vec(), ..ways? })?;
    Ok(())
}

/// Announces further addresses of this end to peers at relays: those of its interfaces and those in `announced`.
pub(crate) fn announce_own_addresses(
    engine: &mut Engine,
    announced: impl Iterator<Item = SocketAddr>,
) {
    let mut own: Vec<SocketAddr> = announced.collect();
    own.extend(advertised(&engine.link_addresses()));
    engine.set_own_addresses(own);
}

/// A relay's report, reduced to how this end can be reached.
pub fn news(what: &RelayNotice) -> RelayReport {
    match *what {
        RelayNotice::Registered { over_tcp, .. } => RelayReport::Registered { over_tcp },
        RelayNotice::Observed { address, by_second } => {
            RelayReport::Observed { address, by_second }
        }
        RelayNotice::Failed { .. } => RelayReport::Failed,
    }
}
