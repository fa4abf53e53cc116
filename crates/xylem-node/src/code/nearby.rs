//! Codes on the LAN: [`CodeAnnouncement`] announces one there, [`CodeSearch`] finds the peer that shows one
//! (docs/spec/reach.md, "LAN").

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use xylem_discovery::Lan;
use xylem_peers::reachable::may_be_dialled;
use xylem_reach::names::LanTag;

use crate::discovery::on_link;

/// Interval between looks for answers. [`PATIENCE`]: after this long without an answer the search is hopeless.
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(3);
/// Most addresses to dial. It limits what strangers' answers can cause.
const MAX_DIALLED: usize = 16;

/// Announces a code, until dropped.
pub(super) struct CodeAnnouncement {
    _lan: Lan,
}

impl CodeAnnouncement {
    /// Announces the code of a link that listens at this port. `None` if the LAN cannot be used.
    pub(super) fn new(number: u32, port: u16) -> Option<Self> {
        let mut lan = start()?;
        lan.announce(LanTag::of_code(number), port).ok()?;
        Some(Self { _lan: lan })
    }
}

/// Searches for the peer that shows a code.
pub(super) struct CodeSearch {
    lan: Lan,
    began: Duration,
    next: Duration,
    found: Vec<SocketAddr>,
}

impl CodeSearch {
    pub(super) fn new(number: u32, now: Duration) -> Option<Self> {
        let mut lan = start()?;
        lan.ask(LanTag::of_code(number)).ok()?;
        Some(Self { lan, began: now, next: now, found: Vec::new() })
    }

    pub(super) fn poll_timeout(&self) -> Duration {
        self.next
    }

    /// Whether a peer may still answer.
    pub(super) fn is_hopeful(&self, now: Duration) -> bool {
        now < self.began + PATIENCE
    }

    /// New addresses to dial, all of them on this machine's networks.
    pub(super) fn poll(&mut self, now: Duration) -> Vec<SocketAddr> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + LOOK;
        let mut fresh = Vec::new();
        while let Some(found) = self.lan.poll() {
            for address in found.addresses {
                // Otherwise a stranger's answer would make us send elsewhere.
                let wanted = on_link(address.ip()) && may_be_dialled(&address, false);
                if wanted && self.found.len() < MAX_DIALLED && !self.found.contains(&address) {
                    self.found.push(address);
                    fresh.push(address);
                }
            }
        }
        fresh
    }
}

fn start() -> Option<Lan> {
    let started = Lan::start(xylem_base::random().ok()?, Arc::new(|| {}));
    started
        .inspect_err(|error| tracing::debug!(%error, "the LAN is not searched for the code"))
        .ok()
}
