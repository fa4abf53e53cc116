//! [`ShareReach`]: how other peers reach the share, as far as that is known, and its report.

use std::net::SocketAddr;
use std::time::Duration;

use xylem_engine::RelayNotice;
use xylem_reach::kind::{ReachMonitor, ReachWay, Reachability};

use crate::event::Event;
use crate::reaching;

/// The text for a machine to which no address leads from elsewhere, but the DHT.
pub const BY_DHT: &str = "from elsewhere through the DHT, where the NATs on both sides let it; else name a relay (--relay)";

/// What lists a share in the DHT.
#[derive(Clone, Copy)]
pub(super) struct ListingState {
    /// Whether getters with a code find it there; `None` without a code.
    pub(super) code: Option<bool>,
    /// Whether getters with a ticket find it there, now or later.
    pub(super) may_list_tickets: bool,
    /// Whether they do now.
    pub(super) lists_tickets: bool,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct ShareReach {
    monitor: Option<ReachMonitor>,
    /// The last report, if addresses alone lead no peer from elsewhere here and the DHT may.
    near: Option<Reachability>,
    /// Whether tickets name the router's mapped address. Otherwise no peer uses it.
    names_mapped: bool,
}

impl ShareReach {
    /// Sets whether tickets name the router's mapped address.
    pub(super) fn name_mapped(&mut self, names: bool) {
        self.names_mapped = names;
    }

    /// Begins to watch, in place of what was watched before.
    pub(super) fn watch(&mut self, monitor: ReachMonitor, mapped: Option<SocketAddr>) {
        self.monitor = Some(monitor);
        self.mapped(mapped);
    }

    /// Takes the address that the router forwards.
    pub(super) fn mapped(&mut self, mapped: Option<SocketAddr>) {
        let mapped = mapped.filter(|_| self.names_mapped);
        if let Some(monitor) = &mut self.monitor {
            monitor.mapped(mapped);
        }
    }

    /// Other relays are used from now on.
    pub(super) fn use_relays(&mut self, keys: &[[u8; 32]]) {
        if let Some(monitor) = &mut self.monitor {
            monitor.use_relays(keys);
        }
    }

    /// Takes a relay's report.
    pub(super) fn on_relay(
        &mut self,
        now: Duration,
        relay: [u8; 32],
        at: SocketAddr,
        what: &RelayNotice,
    ) {
        if let Some(monitor) = &mut self.monitor {
            monitor.on_relay_report(now, relay, at, reaching::news(what));
        }
    }

    /// Takes a link that has come from there without a relay.
    pub(super) fn on_direct_link(&mut self, from: SocketAddr) {
        if let Some(monitor) = &mut self.monitor {
            monitor.on_direct_link(from);
        }
    }

    /// The report, when it has changed.
    pub(super) fn poll(&mut self, now: Duration, dht: ListingState) -> Option<Event> {
        let changed = self.monitor.as_mut().and_then(|monitor| monitor.poll(now));
        // The report from before the DHT listed the share is corrected.
        let reach = changed.or(self.near.take_if(|_| dht.lists_tickets))?;
        let is_near = matches!(reach.way, ReachWay::Lan | ReachWay::Here);
        let may_change = is_near && dht.may_list_tickets && !dht.lists_tickets;
        self.near = may_change.then_some(reach);
        Some(said_of(reach, dht.code, dht.lists_tickets))
    }

    /// When [`Self::poll`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.monitor.as_ref().and_then(ReachMonitor::poll_timeout)
    }
}

/// The event for how other peers reach this machine. The DHT leads takers of a code here as well (`code`: whether it does
/// already), and those with a ticket if it lists the share (`by_ticket`).
fn said_of(reach: Reachability, code: Option<bool>, by_ticket: bool) -> Event {
    let near = matches!(reach.way, ReachWay::Lan | ReachWay::Here);
    let mut event = Event::from(reach);
    let Event::Reach(status) = &mut event else { return event };
    if near && by_ticket {
        status.says = BY_DHT.to_owned();
    } else if let (Some(listed), true) = (code, near) {
        let by_code = if listed { "; by the code from elsewhere too, through the DHT" } else { "" };
        status.says = format!("by the ticket {}{by_code}", status.says);
    }
    event
}
