//! [`Lan`]: presence on the local network, by mDNS and DNS-SD (RFC 6762, RFC 6763), through `mdns-sd`.
//!
//! A [`LanTag`] gives the name of a service; only peers that know the tag can query it. An announcement is an instance
//! of that service. Its instance and host names are random in each run. (It is not a subtype of one service: `mdns-sd`
//! 0.21 does not accept answers for a subtype, and no peer is to learn of others' presence.)

use std::collections::HashMap;
use std::net::{SocketAddr, SocketAddrV6};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use mdns_sd::{ScopedIp, ServiceDaemon, ServiceEvent, ServiceInfo};
use xylem_reach::names::LanTag;

use crate::{DiscoveryError, Wake};

/// Most tags announced at once. [`MAX_ASKED`]: most tags queried at once.
const MAX_ANNOUNCED: usize = 64;
const MAX_ASKED: usize = 16;
/// Most instances considered for one query. [`MAX_ADDRESSES`]: most addresses of one instance.
const MAX_INSTANCES: usize = 32;
const MAX_ADDRESSES: usize = 8;
/// Most answers that wait.
const MAX_WAITING: usize = 256;
/// Time that dropping a handle waits for the goodbye to be sent.
const GOODBYE: Duration = Duration::from_millis(500);

/// A peer's announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanFound {
    /// The tag of the query.
    pub tag: LanTag,
    /// The announced addresses: 8 at most, link-local ones with the interface. They may lie outside this machine's
    /// networks.
    pub addresses: Vec<SocketAddr>,
}

/// A handle to mDNS. Dropping it withdraws its announcements.
pub struct Lan {
    daemon: ServiceDaemon,
    announced: HashMap<LanTag, String>,
    asked: Vec<LanTag>,
    /// Random for each run, and part of each instance name, so that no two machines use the same name.
    run: String,
    found: (SyncSender<LanFound>, Receiver<LanFound>),
    wake: Wake,
}

impl Lan {
    /// Opens the sockets of mDNS. `seed` is random; instance names derive from it.
    ///
    /// # Errors
    /// [`DiscoveryError::Lan`].
    pub fn start(seed: [u8; 8], wake: Wake) -> Result<Self, DiscoveryError> {
        let daemon = ServiceDaemon::new().map_err(failed)?;
        let run = format!("{:016x}", u64::from_be_bytes(seed));
        let (announced, asked) = (HashMap::new(), Vec::new());
        Ok(Self { daemon, announced, asked, run, found: sync_channel(MAX_WAITING), wake })
    }

    /// Announces to peers that query `tag` that a link listens at this UDP port of all addresses of this machine.
    ///
    /// # Errors
    /// [`DiscoveryError::Busy`] for the 65th; [`DiscoveryError::Lan`].
    pub fn announce(&mut self, tag: LanTag, port: u16) -> Result<(), DiscoveryError> {
        if self.announced.contains_key(&tag) {
            return Ok(());
        }
        if self.announced.len() >= MAX_ANNOUNCED {
            return Err(DiscoveryError::Busy);
        }
        let instance = format!("{}-{}", self.run, self.announced.len());
        let host = format!("{}.local.", self.run);
        let none: &[(&str, &str)] = &[];
        let info = ServiceInfo::new(&tag.service(), &instance, &host, "", port, none);
        let mut info = info.map_err(failed)?.enable_addr_auto();
        // Random names cannot collide, so no probe is needed.
        info.set_requires_probe(false);
        let name = info.get_fullname().to_owned();
        self.daemon.register(info).map_err(failed)?;
        self.announced.insert(tag, name);
        Ok(())
    }

    /// Withdraws the announcement of `tag`.
    pub fn withdraw(&mut self, tag: LanTag) {
        if let Some(name) = self.announced.remove(&tag) {
            // If the daemon has ended, so has the announcement.
            let _ = self.daemon.unregister(&name);
        }
    }

    /// Queries `tag`, until the handle is dropped.
    ///
    /// # Errors
    /// [`DiscoveryError::Busy`] for the 17th; [`DiscoveryError::Lan`], [`DiscoveryError::Thread`].
    pub fn ask(&mut self, tag: LanTag) -> Result<(), DiscoveryError> {
        if self.asked.contains(&tag) {
            return Ok(());
        }
        if self.asked.len() >= MAX_ASKED {
            return Err(DiscoveryError::Busy);
        }
        let events = self.daemon.browse(&tag.service()).map_err(failed)?;
        self.asked.push(tag);
        let (into, wake) = (self.found.0.clone(), self.wake.clone());
        // The thread ends with the daemon.
        let pass_on = move || {
            let mut instances = 0;
            while let Ok(event) = events.recv() {
                let ServiceEvent::ServiceResolved(who) = event else { continue };
                instances += 1;
                if instances > MAX_INSTANCES {
                    break;
                }
                let addresses = addresses(who.get_addresses(), who.get_port());
                if !addresses.is_empty() && into.try_send(LanFound { tag, addresses }).is_ok() {
                    wake();
                }
            }
        };
        thread::Builder::new().name("xylem-lan".to_owned()).spawn(pass_on)?;
        Ok(())
    }

    /// The next answer, if there is one.
    pub fn poll(&mut self) -> Option<LanFound> {
        self.found.1.try_recv().ok()
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        for (_, name) in self.announced.drain() {
            // The daemon processes commands in order: when it answers the last one, all goodbyes have been sent.
            let _ = self.daemon.unregister(&name);
        }
        let ended = self.daemon.shutdown();
        let _ = ended.map(|ended| ended.recv_timeout(GOODBYE));
    }
}

fn addresses<'a>(all: impl IntoIterator<Item = &'a ScopedIp>, port: u16) -> Vec<SocketAddr> {
    let at = |ip: &ScopedIp| match ip {
        // A link-local address is valid only on the interface that it came over.
        ScopedIp::V6(v6) if v6.addr().is_unicast_link_local() => {
            let on = v6.scope_id().index;
            (on != 0).then(|| SocketAddrV6::new(*v6.addr(), port, 0, on).into())
        }
        ip => Some(SocketAddr::new(ip.to_ip_addr(), port)),
    };
    let mut addresses: Vec<_> = all.into_iter().filter_map(at).collect();
    addresses.sort_unstable();
    addresses.truncate(MAX_ADDRESSES);
    if port == 0 { Vec::new() } else { addresses }
}

fn failed(error: mdns_sd::Error) -> DiscoveryError {
    DiscoveryError::Lan(error.to_string())
}
