//! [`LanSearch`]: asks the LAN for a ticket's sharer while no peer has answered at its addresses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use xylem_discovery::Lan;
use xylem_object::Ticket;
use xylem_object::ticket::Address;
use xylem_peers::reachable::{PeerAddress, may_be_dialled};
use xylem_reach::names::LanTag;

use super::on_link;
use xylem_engine::wall_clock;

/// Time before the LAN is asked. If a ticket's addresses answer sooner, there is no traffic on the LAN.
const ASK_AFTER: Duration = Duration::from_millis(100);
/// Interval between looks for answers.
const LOOK: Duration = Duration::from_millis(20);
/// A sharer on the LAN answers within this time.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
/// Most addresses to dial. It limits what strangers' answers can cause.
const MAX_DIALLED: usize = 16;

/// A search for a ticket's sharer on the LAN.
pub(crate) struct LanSearch {
    /// The ticket's link key, if it has one.
    key: Option<[u8; 32]>,
    tags: [LanTag; 3],
    lan: Option<Lan>,
    next: Duration,
    began: Duration,
    dialled: Vec<SocketAddr>,
}

impl LanSearch {
    /// For a fetch that begins now. `None` if the ticket names only addresses of this machine.
    pub(crate) fn new(ticket: &Ticket, now: Duration) -> Option<Self> {
        let is_own = |address: &Address| match address {
            Address::Ip(at) => at.ip().is_loopback(),
            Address::Host(..) => false,
        };
        if ticket.addresses.iter().all(is_own) {
            return None;
        }
        let seconds = wall_clock().seconds();
        let tags = LanTag::around(&ticket.root, &ticket.publisher, seconds);
        Some(Self {
            key: ticket.link_key,
            tags,
            lan: None,
            next: now + ASK_AFTER,
            began: now,
            dialled: Vec::new(),
        })
    }

    /// Whether a sharer may still answer.
    pub(crate) fn is_hopeful(&self, now: Duration) -> bool {
        now < self.began + ANSWERED_WITHIN
    }

    /// When [`LanSearch::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Duration {
        self.next
    }

    /// Asks the LAN when that is due. Returns peers to dial as if the ticket named them.
    pub(crate) fn handle_timeout(&mut self, now: Duration) -> Vec<PeerAddress> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + LOOK;
        if self.lan.is_none() {
            self.lan = self.ask();
            if self.lan.is_none() {
                self.next = now + Duration::from_secs(5);
            }
        }
        let mut fresh = Vec::new();
        while let Some(found) = self.lan.as_mut().and_then(Lan::poll) {
            for address in found.addresses {
                // Otherwise a stranger's answer would make us send elsewhere.
                let wanted = on_link(address.ip()) && may_be_dialled(&address, false);
                if wanted && self.dialled.len() < MAX_DIALLED && !self.dialled.contains(&address) {
                    self.dialled.push(address);
                    fresh.push(PeerAddress::Link { address, key: self.key });
                }
            }
        }
        fresh
    }

    fn ask(&self) -> Option<Lan> {
        let mut lan = Lan::start(xylem_base::random().ok()?, Arc::new(|| {})).ok()?;
        tracing::debug!("asking the LAN");
        self.tags.iter().for_each(|tag| drop(lan.ask(*tag)));
        Some(lan)
    }
}
