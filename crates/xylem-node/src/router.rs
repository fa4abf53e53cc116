//! [`Router`]: the port that this machine's router maps for links, if it does (`xylem-discovery` asks it).

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use xylem_discovery::{MapEvent, PortMap, PortMapOptions, Wake, default_gateway};
use xylem_engine::Engine;
use xylem_reach::kind::is_global;

use crate::addresses::routed;

/// How long a mapping lasts that nobody renews, as after a crash.
const LIFE: Duration = Duration::from_secs(2 * 3600);

/// What becomes of one question to the router.
pub(crate) struct Router {
    map: PortMap,
    /// Where packets from outside are to be sent.
    pub(crate) mapped: Option<xylem_discovery::Mapped>,
    /// Why there is nothing.
    pub(crate) failed: Option<String>,
    woken: Receiver<()>,
}

impl Router {
    /// Asks for the port at which links come in on all interfaces; `None` where there is none such, or this machine
    /// is not behind a private IPv4 network's router.
    pub(crate) fn ask(engine: &mut Engine, bound: &[SocketAddr]) -> Option<Self> {
        let everywhere = bound.iter().find(|at| at.is_ipv4() && at.ip().is_unspecified())?;
        let port = NonZeroU16::new(everywhere.port())?;
        let private = |ip: &IpAddr| !is_global(*ip) && !ip.is_loopback();
        let own = routed().into_iter().filter(private).find_map(|ip| match ip {
            IpAddr::V4(own) => Some(own),
            IpAddr::V6(_) => None,
        })?;
        let (tell, woken) = mpsc::sync_channel(1);
        let waker = engine.waker().ok()?;
        let wake: Wake = Arc::new(move || {
            let _ = tell.try_send(());
            let _ = waker.wake();
        });
        let options = PortMapOptions { gateway: default_gateway(), own, port, life: LIFE };
        let map = PortMap::start(options, wake).ok()?;
        Some(Self { map, mapped: None, failed: None, woken })
    }

    /// Waits for its first answer, so long at most.
    pub(crate) fn wait(&mut self, most: Duration) {
        let end = Instant::now() + most;
        while self.mapped.is_none() && self.failed.is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if self.woken.recv_timeout(left).is_err() {
                return;
            }
            self.poll();
        }
    }

    /// Takes what came: whether something has changed.
    pub(crate) fn poll(&mut self) -> bool {
        let mut changed = false;
        while let Some(event) = self.map.poll() {
            changed = true;
            (self.mapped, self.failed) = match event {
                MapEvent::Mapped(mapped) => (Some(mapped), None),
                MapEvent::Lost => (None, None),
                MapEvent::Failed(why) => (None, Some(why)),
            };
        }
        changed
    }
}
