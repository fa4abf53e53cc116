//! [`Lan`]: presence on the local network, by mDNS and DNS-SD (RFC 6762, RFC 6763), through `mdns-sd`.
//!
//! What is announced is an instance, with a name made up for each run, of the service that a [`LanTag`] gives: who
//! asks for that service knows the tag. Its host's name is made up too. (Not a subtype of one service: `mdns-sd` 0.21
//! does not take the answer to a question for one, and nobody is to learn who else is there.)

use std::collections::HashMap;
use std::net::{SocketAddr, SocketAddrV6};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use mdns_sd::{ScopedIp, ServiceDaemon, ServiceEvent, ServiceInfo};
use xylem_reach::names::LanTag;

use crate::{DiscoveryError, Wake};

/// Tags that are announced at once, and tags that are asked for at once.
const MAX_ANNOUNCED: usize = 64;
const MAX_ASKED: usize = 16;
/// Instances that answer one question, and addresses of one instance, that are looked at.
const MAX_INSTANCES: usize = 32;
const MAX_ADDRESSES: usize = 8;
/// Answers that wait to be taken.
const MAX_WAITING: usize = 256;
/// How long the end of a handle waits until its goodbye is sent.
const GOODBYE: Duration = Duration::from_millis(500);

/// Somebody who says to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanFound {
    /// What was asked for.
    pub tag: LanTag,
    /// Where it says to be: 8 at most, link-local ones with the interface. Whether they lie on a network of this machine is not looked at.
    pub addresses: Vec<SocketAddr>,
}

/// See the module's documentation. Dropped, it says goodbye for what it announced.
pub struct Lan {
    daemon: ServiceDaemon,
    announced: HashMap<LanTag, String>,
    asked: Vec<LanTag>,
    /// Made up for this run; a part of what is announced, so that two machines never have one name.
    run: String,
    found: (SyncSender<LanFound>, Receiver<LanFound>),
    wake: Wake,
}

impl Lan {
    /// Opens the sockets of mDNS. `seed` is random: names are made of it.
    ///
    /// # Errors
    /// [`DiscoveryError::Lan`].
    pub fn start(seed: [u8; 8], wake: Wake) -> Result<Self, DiscoveryError> {
        let daemon = ServiceDaemon::new().map_err(failed)?;
        let run = format!("{:016x}", u64::from_be_bytes(seed));
        let (announced, asked) = (HashMap::new(), Vec::new());
        Ok(Self { daemon, announced, asked, run, found: sync_channel(MAX_WAITING), wake })
    }

    /// Says to who asks for `tag` that a link listens at this UDP port of all addresses of this machine.
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
        // Names that are made up are nobody else's.
        info.set_requires_probe(false);
        let name = info.get_fullname().to_owned();
        self.daemon.register(info).map_err(failed)?;
        self.announced.insert(tag, name);
        Ok(())
    }

    /// Takes back what was announced under `tag`.
    pub fn withdraw(&mut self, tag: LanTag) {
        if let Some(name) = self.announced.remove(&tag) {
            // A daemon that is gone announces nothing either.
            let _ = self.daemon.unregister(&name);
        }
    }

    /// Asks who announces `tag`, and goes on asking until the handle is dropped.
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
        // It ends with the daemon.
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

    /// Somebody who answered.
    pub fn poll(&mut self) -> Option<LanFound> {
        self.found.1.try_recv().ok()
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        for (_, name) in self.announced.drain() {
            // Commands are obeyed in order: the last one's answer comes when all has been said.
            let _ = self.daemon.unregister(&name);
        }
        let ended = self.daemon.shutdown();
        let _ = ended.map(|ended| ended.recv_timeout(GOODBYE));
    }
}

fn addresses<'a>(all: impl IntoIterator<Item = &'a ScopedIp>, port: u16) -> Vec<SocketAddr> {
    let at = |ip: &ScopedIp| match ip {
        // It means something on the interface alone that it came over.
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
