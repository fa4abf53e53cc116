//! [`PortMap`]: has the router forward a UDP port of this machine, by PCP (RFC 6887), NAT-PMP (RFC 6886) or UPnP,
//! through `crab_nat` and `igd-next`. It tries all three at once, and uses the first in this order that answers. It
//! renews the mapping as long as the handle lives.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crab_nat::{
    InternetProtocol, PortMapping, PortMappingOptions, PortMappingType, TimeoutConfig, natpmp, pcp,
};
use igd_next::{
    AddAnyPortError, AddPortError, Gateway, GetExternalIpError, PortMappingProtocol, SearchError,
    SearchOptions,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, spawn_blocking};

use crate::{DiscoveryError, MapEvent, PortMapOptions, Protocol, RouterMapping, Wake};

/// Timeouts of three requests, 1.4 s in all: the router is nearby.
const PATIENCE: TimeoutConfig = TimeoutConfig {
    initial_timeout: Duration::from_millis(200),
    max_retries: 2,
    max_retry_timeout: None,
};
/// Time limit of UPnP's search for a router.
const SEARCH: Duration = Duration::from_secs(3);
/// Longest time between renewals, which come at half of the mapping's lifetime: a restarted router has forgotten the
/// mapping.
const RENEW: Duration = Duration::from_secs(10 * 60);
/// Pause before a router that refused is asked again.
const RETRY: Duration = Duration::from_secs(10 * 60);
/// Time that dropping a handle waits for the mapping's removal.
const REMOVAL: Duration = Duration::from_secs(1);
/// Description in a router's list of UPnP mappings.
const DESCRIPTION: &str = "xylem";

/// Why no router maps a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortMapError {
    /// There is no router to ask.
    #[error("no router was found")]
    NoRouter,
    /// A router maps the port, but to an address that it cannot have on its external side.
    #[error("{0}: the router returned no valid address")]
    Address(Protocol),
    /// No mapping by PCP.
    #[error("PCP: {0}")]
    Pcp(#[source] pcp::Failure),
    /// No mapping by NAT-PMP, though the router answered by it.
    #[error("NAT-PMP: {0}")]
    NatPmp(#[source] natpmp::Failure),
    /// No mapping by UPnP, which is tried last.
    #[error("{before}; UPnP: {why}")]
    Upnp {
        /// The error of the protocols before it.
        before: Box<Self>,
        /// Its own.
        #[source]
        why: UpnpError,
    },
    /// A request's thread has ended.
    #[error(transparent)]
    Thread(#[from] JoinError),
}

/// Why no router maps a port by UPnP.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpnpError {
    /// No router answers.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Another host than the known router answers.
    #[error("the host that answered is not the router")]
    OtherHost,
    /// The router does not report its external address.
    #[error(transparent)]
    AskAddress(#[from] GetExternalIpError),
    /// The address that it reports cannot be an external one.
    #[error("the router has no external address")]
    NoAddress,
    /// It refuses the mapping.
    #[error(transparent)]
    Add(#[from] AddPortError),
    /// The port is mapped for another host, and it maps no other.
    #[error(transparent)]
    AddAny(#[from] AddAnyPortError),
}

/// A handle to a port mapping. Dropping it removes the mapping.
pub struct PortMap {
    /// Dropped to end the thread.
    stop: Option<SyncSender<()>>,
    /// Whether there is a mapping to be removed.
    holds: Arc<AtomicBool>,
    ended: Receiver<()>,
    events: Receiver<MapEvent>,
}

impl PortMap {
    /// Starts a thread that asks the router.
    ///
    /// # Errors
    /// [`DiscoveryError::Thread`].
    pub fn start(options: PortMapOptions, wake: Wake) -> Result<Self, DiscoveryError> {
        let (stop, stopped) = sync_channel(1);
        let (end, ended) = sync_channel(1);
        let (tell, events) = sync_channel(16);
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let holds = Arc::new(AtomicBool::new(false));
        let held = holds.clone();
        let work = move || {
            let mapper = Mapper { options, held, tell, wake };
            mapper.run(&runtime, &stopped);
            // Do not wait for a search in progress.
            runtime.shutdown_background();
            let _ = end.send(());
        };
        thread::Builder::new().name("xylem-portmap".to_owned()).spawn(work)?;
        Ok(Self { stop: Some(stop), holds, ended, events })
    }

    /// The next event, if there is one.
    pub fn poll(&mut self) -> Option<MapEvent> {
        self.events.try_recv().ok()
    }
}

impl Drop for PortMap {
    fn drop(&mut self) {
        self.stop = None;
        // Do not wait while the router is still being asked: a mapping made now expires by itself.
        if self.holds.load(Ordering::Acquire) {
            let _ = self.ended.recv_timeout(REMOVAL);
        }
    }
}

/// The state of the thread.
struct Mapper {
    options: PortMapOptions,
    held: Arc<AtomicBool>,
    tell: SyncSender<MapEvent>,
    wake: Wake,
}

/// A mapping that exists.
enum ActiveMapping {
    Nat(PortMapping, RouterMapping),
    Upnp(Gateway, RouterMapping),
}

impl ActiveMapping {
    fn mapped(&self) -> RouterMapping {
        match self {
            Self::Nat(_, mapped) | Self::Upnp(_, mapped) => *mapped,
        }
    }
}

impl Mapper {
    fn run(&self, runtime: &Runtime, stopped: &Receiver<()>) {
        let mut mapping: Option<ActiveMapping> = None;
        loop {
            let was = mapping.as_ref().map(ActiveMapping::mapped);
            let renewed = mapping.take().and_then(|old| runtime.block_on(self.renew(old)));
            let now = match renewed {
                Some(renewed) => Ok(renewed),
                None => runtime.block_on(self.request()),
            };
            self.held.store(now.is_ok(), Ordering::Release);
            let wait = match now {
                Ok(made) => {
                    let (mapped, life) = (made.mapped(), self.life(&made));
                    if was != Some(mapped) {
                        self.emit(MapEvent::Mapped(mapped));
                    }
                    mapping = Some(made);
                    (life / 2).clamp(Duration::from_secs(1), RENEW)
                }
                Err(why) => {
                    self.emit(if was.is_some() { MapEvent::Lost } else { MapEvent::Failed(why) });
                    RETRY
                }
            };
            if !matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
                break;
            }
        }
        if let Some(mapping) = mapping {
            runtime.block_on(remove(mapping));
        }
    }

    fn emit(&self, event: MapEvent) {
        if self.tell.try_send(event).is_ok() {
            (self.wake)();
        }
    }

    /// The mapping's lifetime.
    fn life(&self, mapping: &ActiveMapping) -> Duration {
        match mapping {
            ActiveMapping::Nat(made, _) => Duration::from_secs(made.lifetime().into()),
            ActiveMapping::Upnp(..) => self.options.life,
        }
    }

    /// Asks by all three protocols at once. PCP maps with its first request; the others first report that they are
    /// there, so that only one maps.
    async fn request(&self) -> Result<ActiveMapping, PortMapError> {
        let PortMapOptions { gateway, own, port, .. } = self.options;
        let search = spawn_blocking(move || search(gateway, own));
        let mut why = PortMapError::NoRouter;
        if let Some(gateway) = gateway {
            let with = self.wanted(port);
            let address = tokio::spawn(natpmp::external_address(gateway.into(), Some(PATIENCE)));
            let base =
                pcp::BaseMapRequest::new(gateway.into(), own.into(), InternetProtocol::Udp, port);
            match pcp::port_mapping(base, None, None, with).await {
                Ok(made) => {
                    address.abort();
                    match nat(made, None) {
                        Some(mapping) => return Ok(mapping),
                        None => why = PortMapError::Address(Protocol::Pcp),
                    }
                }
                Err(e) => why = PortMapError::Pcp(e),
            }
            if let Ok(Ok(address)) = address.await {
                let made = natpmp::port_mapping(gateway.into(), InternetProtocol::Udp, port, with);
                match made.await.map(|made| nat(made, Some(address))) {
                    Ok(Some(mapping)) => return Ok(mapping),
                    Ok(None) => why = PortMapError::Address(Protocol::NatPmp),
                    Err(e) => why = PortMapError::NatPmp(e),
                }
            }
        }
        let router = match search.await? {
            Ok(router) => router,
            Err(e) => return Err(PortMapError::Upnp { before: why.into(), why: e }),
        };
        let life = self.options.life;
        let made = spawn_blocking(move || map_by_upnp(router, own, port, life)).await?;
        made.map_err(|e| PortMapError::Upnp { before: why.into(), why: e })
    }

    fn wanted(&self, external: NonZeroU16) -> PortMappingOptions {
        PortMappingOptions {
            external_port: Some(external),
            lifetime_seconds: Some(u32::try_from(self.options.life.as_secs()).unwrap_or(u32::MAX)),
            timeout_config: Some(PATIENCE),
        }
    }

    /// Renews a mapping; `None` if that fails.
    async fn renew(&self, mapping: ActiveMapping) -> Option<ActiveMapping> {
        let PortMapOptions { own, port, life, .. } = self.options;
        match mapping {
            ActiveMapping::Nat(mut made, mapped) => {
                // Renewal requests the granted lifetime. That is too short if the router had shortened it.
                made.renew().await.ok()?;
                let known = (mapped.by == Protocol::NatPmp).then_some(made.gateway());
                let address = match known {
                    None => None,
                    Some(gateway) => {
                        Some(natpmp::external_address(gateway, Some(PATIENCE)).await.ok()?)
                    }
                };
                nat(made, address)
            }
            ActiveMapping::Upnp(router, _) => {
                spawn_blocking(move || map_by_upnp(router, own, port, life)).await.ok()?.ok()
            }
        }
    }
}

/// The mapping made by PCP, or by NAT-PMP with the external `address` that it reported.
fn nat(made: PortMapping, address: Option<Ipv4Addr>) -> Option<ActiveMapping> {
    let (ip, by) = match made.mapping_type() {
        PortMappingType::Pcp { external_ip, .. } => (external_ip.to_canonical(), Protocol::Pcp),
        PortMappingType::NatPmp => (IpAddr::from(address?), Protocol::NatPmp),
    };
    let external = SocketAddrV4::new(outside(ip)?, made.external_port().get());
    Some(ActiveMapping::Nat(made, RouterMapping { external, by }))
}

/// The address, if a router may have it on its external side.
fn outside(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V4(ip) = ip else { return None };
    let none = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_broadcast();
    (!none && !ip.is_link_local()).then_some(ip)
}

/// The router that answers by UPnP: the known gateway if there is one, else the first on the LAN to answer.
fn search(gateway: Option<Ipv4Addr>, own: Ipv4Addr) -> Result<Gateway, UpnpError> {
    let at = |broadcast: Option<SocketAddr>| {
        let mut options = SearchOptions::default();
        options.bind_addr = SocketAddr::from((own, 0));
        options.timeout = Some(SEARCH);
        options.single_search_timeout = Some(SEARCH);
        options.broadcast_address = broadcast.unwrap_or(options.broadcast_address);
        igd_next::search_gateway(options)
    };
    let Some(gateway) = gateway else { return Ok(at(None)?) };
    let is_it = |found: &Gateway| found.addr.ip() == IpAddr::from(gateway);
    match at(None).ok().filter(is_it) {
        Some(found) => Ok(found),
        None => match at(Some(SocketAddr::from((gateway, 1900))))? {
            found if is_it(&found) => Ok(found),
            _ => Err(UpnpError::OtherHost),
        },
    }
}

fn map_by_upnp(
    router: Gateway,
    own: Ipv4Addr,
    port: NonZeroU16,
    life: Duration,
) -> Result<ActiveMapping, UpnpError> {
    let (udp, inside) = (PortMappingProtocol::UDP, SocketAddr::from((own, port.get())));
    let life = u32::try_from(life.as_secs()).unwrap_or(u32::MAX);
    let ip = outside(router.get_external_ip()?).ok_or(UpnpError::NoAddress)?;
    let mapped = match router.add_port(udp, port.get(), inside, life, DESCRIPTION) {
        Ok(()) => port.get(),
        // Some routers map permanently or not at all. Such a mapping is removed at the end too.
        Err(AddPortError::OnlyPermanentLeasesSupported) => {
            router.add_port(udp, port.get(), inside, 0, DESCRIPTION)?;
            port.get()
        }
        Err(AddPortError::PortInUse) => router.add_any_port(udp, inside, life, DESCRIPTION)?,
        Err(e) => return Err(e.into()),
    };
    let external = SocketAddrV4::new(ip, mapped);
    Ok(ActiveMapping::Upnp(router, RouterMapping { external, by: Protocol::Upnp }))
}

/// Removes a mapping. A router that does not answer forgets it by itself.
async fn remove(mapping: ActiveMapping) {
    match mapping {
        ActiveMapping::Nat(made, _) => drop(made.try_drop().await),
        ActiveMapping::Upnp(router, RouterMapping { external, .. }) => {
            let port = external.port();
            let removed =
                spawn_blocking(move || router.remove_port(PortMappingProtocol::UDP, port));
            drop(removed.await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lying_router_yields_no_invalid_address() {
        for none in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "169.254.0.1", "::1"] {
            assert_eq!(outside(none.parse().unwrap()), None, "{none}");
        }
        assert!(outside("203.0.113.5".parse().unwrap()).is_some());
        assert!(outside("100.64.0.1".parse().unwrap()).is_some(), "a NAT above it");
    }
}
