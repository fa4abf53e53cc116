//! Codes on the LAN: [`Shown`] says there who shows one, [`Asked`] finds them (docs/spec/reach.md, "LAN").

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use xylem_discovery::Lan;
use xylem_library::keys;
use xylem_library::reachable::may_be_dialled;
use xylem_reach::names::LanTag;

use crate::discovery::on_link;

/// How often answers are looked for, and how long nobody needs to have answered.
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(3);
/// Addresses that are dialled at most: what strangers answer ends there.
const MAX_DIALLED: usize = 16;

/// Announces a code; dropped, it is taken back.
pub(super) struct Shown {
    _lan: Lan,
}

impl Shown {
    /// Of a link that listens at this port. `None` where there is no such network.
    pub(super) fn new(number: u32, port: u16) -> Option<Self> {
        let mut lan = start()?;
        lan.announce(LanTag::of_code(number), port).ok()?;
        Some(Self { _lan: lan })
    }
}

/// Asks for who shows a code.
pub(super) struct Asked {
    lan: Lan,
    began: Duration,
    next: Duration,
    found: Vec<SocketAddr>,
}

impl Asked {
    pub(super) fn new(number: u32, now: Duration) -> Option<Self> {
        let mut lan = start()?;
        lan.ask(LanTag::of_code(number)).ok()?;
        Some(Self { lan, began: now, next: now, found: Vec::new() })
    }

    pub(super) fn poll_timeout(&self) -> Duration {
        self.next
    }

    /// Whether somebody may still answer.
    pub(super) fn is_hopeful(&self, now: Duration) -> bool {
        now < self.began + PATIENCE
    }

    /// Addresses on networks of this machine that nobody was dialled at.
    pub(super) fn poll(&mut self, now: Duration) -> Vec<SocketAddr> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + LOOK;
        let mut fresh = Vec::new();
        while let Some(found) = self.lan.poll() {
            for address in found.addresses {
                // A stranger's answer would have us send elsewhere.
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
    let started = Lan::start(keys::random().ok()?, Arc::new(|| {}));
    started.inspect_err(|error| tracing::debug!(%error, "no LAN")).ok()
}
