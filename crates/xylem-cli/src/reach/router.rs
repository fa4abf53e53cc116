//! [`Router`]: asks this machine's router for a port, to see whether it would map one (`xylem-discovery`).

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use xylem_discovery::{MapEvent, PortMap, PortMapOptions, Wake, default_gateway};
use xylem_engine::Engine;
use xylem_reach::kind::is_global;

use xylem_node::routed;

/// Lifetime of a mapping that is not renewed, as after a crash.
const LIFE: Duration = Duration::from_secs(2 * 3600);

/// A request to the router, and its result.
pub(super) struct Router {
    map: PortMap,
    /// The external address of the mapping.
    pub(super) mapped: Option<xylem_discovery::RouterMapping>,
    /// Why there is no mapping.
    pub(super) failed: Option<String>,
}

impl Router {
    /// Asks for the port at which links come in on all interfaces. `None` if there is no such port, or this machine is
    /// not behind a router of a private IPv4 network.
    pub(super) fn ask(engine: &mut Engine, bound: &[SocketAddr]) -> Option<Self> {
        let everywhere = bound.iter().find(|at| at.is_ipv4() && at.ip().is_unspecified())?;
        let port = NonZeroU16::new(everywhere.port())?;
        let private = |ip: &IpAddr| !is_global(*ip) && !ip.is_loopback();
        let own = routed().into_iter().filter(private).find_map(|ip| match ip {
            IpAddr::V4(own) => Some(own),
            IpAddr::V6(_) => None,
        })?;
        let waker = engine.waker().ok()?;
        let wake: Wake = Arc::new(move || {
            let _ = waker.wake();
        });
        let options = PortMapOptions { gateway: default_gateway(), own, port, life: LIFE };
        let map = PortMap::start(options, wake).ok()?;
        Some(Self { map, mapped: None, failed: None })
    }

    /// Takes the router's events; returns whether something has changed.
    pub(super) fn poll(&mut self) -> bool {
        let mut changed = false;
        while let Some(event) = self.map.poll() {
            changed = true;
            (self.mapped, self.failed) = match event {
                MapEvent::Mapped(mapped) => (Some(mapped), None),
                MapEvent::Lost => (None, None),
                MapEvent::Failed(why) => (None, Some(why.to_string())),
            };
        }
        changed
    }
}
