//! [`run_node`]: the daemon, a forwarder with faces of every kind.
//!
//! A [`NodeConfig`] and, while it runs, NFD management commands control it. It forwards packets between its faces. It
//! neither publishes nor fetches, except packets for a repository.

mod config;
mod control;
mod counts;
mod error;
mod host;
mod relay;
mod repo;
mod volunteer;

pub use config::{MULTICAST_GROUP, MULTICAST_GROUP_V6, NodeConfig, NodeRole, NodeRoute};
pub use control::{RelayAnswer, RelayControl, RelayOrder};
pub use error::{AnchorFlaw, ClientListError, NodeError};
pub use relay::RelayOptions;
pub use repo::RepoOptions;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use xylem_base::{Stop, disk};
use xylem_cache::DiskCache;
use xylem_forward::{FaceId, Forwarder, ForwarderSeed, ForwardingStrategy};
use xylem_keys::certificate;
use xylem_link::{Endpoint, Level, StaticKey};
use xylem_mailbox::MailStore;
use xylem_mgmt::{CommandTrust, FaceUri, Management, ManagementConfig, Persistency};
use xylem_packet::{Component, Interest, Name};
use xylem_peers::reachable::{FaceAddress, PeerAddress, PeerUri};
use xylem_peers::{command_times, relay_clients};
use xylem_store::create_dirs;
use xylem_trust::{Certificate, ReplayGuard, TrustStore};

use crate::event::Event;
use crate::mail::{MailServer, while_delivering};
use crate::meeting::CodeDht;
use crate::shaping;
use crate::waking::wake_of;
use counts::CountReport;
use host::ManagedEngine;
use repo::NodeRepo;
use volunteer::VolunteerListing;
use xylem_engine::now_ms;
use xylem_engine::resolve;
use xylem_engine::{Engine, EngineEvent, FaceLimits, Program};
use xylem_engine::{EngineError, certificate as tls_certificate};

/// Forwards until `stop` is raised.
///
/// # Errors
/// See [`NodeError`].
pub fn run_node(
    config: NodeConfig,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), NodeError> {
    let mut node = NodeSetup::new(config, on_event)?;
    node.listen(on_event)?;
    node.relay(on_event)?;
    node.join_multicast(on_event)?;
    node.join_ethernet(on_event)?;
    node.connect(on_event)?;
    // Commands may dial, too.
    node.engine.prepare_secure_dials();
    let mail = MailStore::open_existing(&node.config.store)?;
    let volunteer = node.volunteer(on_event);
    let NodeSetup { config, mut engine, management, started_ms, mail_server, repo } = node;
    while_delivering(mail.as_ref(), &[], |events, _| {
        let wanted_level = config.links.shaping.level;
        let mut forwarding = NodeProgram {
            management,
            started_ms,
            store: &config.store,
            unix_sockets: &config.unix_sockets,
            mail_server,
            wanted_level,
            relay: config
                .relay
                .as_ref()
                .map(|options| (options.report, relay::RelayCountReport::default())),
            orders: config.relay.as_ref().map(|options| {
                relay::RelayOrders::new(options.control.clone(), config.role == NodeRole::Relay)
            }),
            clients: relay::SavedClients::default(),
            counting: config.count_every.map(CountReport::every),
            listing: volunteer,
            repo,
            events,
            on_event,
        };
        engine.run(&mut forwarding, stop)?;
        forwarding.listing.iter().for_each(|listing| listing.leave(&mut engine));
        engine.close();
        if forwarding.relay.is_some() {
            relay_clients::forget(&config.store);
        }
        Ok(())
    })
}

struct NodeSetup {
    config: NodeConfig,
    engine: Engine,
    management: Management,
    started_ms: u64,
    /// Receives mail.
    mail_server: MailServer,
    repo: Option<NodeRepo>,
}

impl NodeSetup {
    fn new(config: NodeConfig, on_event: &mut dyn FnMut(Event)) -> Result<Self, NodeError> {
        let keys = config.store.join("keys");
        create_dirs(&*disk(), &keys).map_err(NodeError::Directory)?;
        let link_key = StaticKey::from_bytes(xylem_keys::load_or_create(&keys.join("link"))?);
        let accept_open = config.accept_open;
        // Detects a restarted node within seconds, and dials it anew.
        let keep_alive = Some(Duration::from_secs(3));
        let link_config =
            xylem_link::LinkConfig { accept_open, keep_alive, ..config.links.config() };
        let endpoint = Endpoint::new(link_config, link_key, xylem_base::random()?);

        let mut forwarding = xylem_forward::ForwarderConfig::default();
        forwarding.pit_capacity = config.pit_capacity;
        forwarding.max_routes = config.max_routes;
        forwarding.cs_capacity_bytes = config.cs_bytes;
        forwarding.cs_capacity_packets = config.cs_packets;
        forwarding.unsolicited = config.unsolicited;
        forwarding.default_hop_limit = config.default_hop_limit;
        let forwarder =
            Forwarder::new(forwarding, ForwarderSeed::from_random(xylem_base::random()?));
        let mut engine = Engine::new(endpoint, forwarder)?;
        let mut disk_cache = None;
        if let Some(directory) = &config.cs_directory {
            let medium = config.cs_medium.shared();
            let cache = DiskCache::open(medium, directory, config.cs_directory_bytes)
                .map_err(|why| NodeError::Cache { path: directory.clone(), why })?;
            cache.wake_by(wake_of(&mut engine)?);
            disk_cache = Some(cache);
        }
        let repo = config.repo.as_ref();
        let repo = repo.map(|options| NodeRepo::open(options, &config.cs_medium, &mut engine));
        let repo = repo.transpose()?;
        repo.iter().for_each(|repo| repo.report_opened(on_event));
        match (&repo, disk_cache) {
            (Some(repo), cache) => repo.answer_from(cache, &mut engine),
            (None, Some(cache)) => engine.forwarder.set_second_level(Some(Box::new(cache))),
            (None, None) => {}
        }
        engine.set_limits(FaceLimits {
            faces: config.max_faces,
            idle: config.idle,
            prove: config.prove,
            unproven_bytes: config.unproven_bytes,
            interests_per_second: config.interests_per_second,
            pit_quota: Some(config.pit_quota.unwrap_or(config.pit_capacity / 16).max(1)),
        });
        if let Some(files) = &config.certificate {
            engine.set_certificate(tls_certificate(&files.0, &files.1)?);
        }
        let management = Management::new(management_settings(&config, on_event)?);
        for prefix in management.prefixes() {
            engine.serve(prefix.as_ref())?;
        }
        let mail_server = MailServer::open(&config.store, config.mailbox, wake_of(&mut engine)?)?;
        Ok(Self { config, engine, management, started_ms: now_ms(), mail_server, repo })
    }

    fn listen(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), NodeError> {
        if let (None, Some(socket)) = (&self.config.listen, xylem_app::default_socket()) {
            xylem_app::make_socket_directory(&socket).map_err(|why| {
                let path = socket.parent().unwrap_or(&socket).to_owned();
                NodeError::SocketDirectory { path, why }
            })?;
        }
        for place in self.config.listening()? {
            for at in resolve(&place).map_err(NodeError::Place)? {
                let uri = self.engine.listen(&at).map_err(EngineError::listen(&at))?;
                let uri = uri.with_key(self.engine.link_key());
                on_event(Event::Listening { uri });
            }
        }
        Ok(())
    }

    /// Relays for other peers, if the settings ask for that.
    fn relay(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), NodeError> {
        let Some(options) = &self.config.relay else { return Ok(()) };
        self.engine.relay(options.limits.clone()).map_err(EngineError::Start)?;
        if let Some(clients) = options.clients()? {
            self.engine.allow_relay_clients(clients);
        }
        relay::ban(&mut self.engine, &self.config.store)?;
        if self.config.listen.is_none() {
            relay::listen_further(&mut self.engine, on_event);
        }
        relay::start(&mut self.engine, options, self.config.accept_open, on_event);
        relay::wake(&mut self.engine, &self.config.store, on_event);
        options.control.begin(wake_of(&mut self.engine)?);
        Ok(())
    }

    /// Lists the relay for strangers, if the options ask for that.
    fn volunteer(&mut self, on_event: &mut dyn FnMut(Event)) -> Option<VolunteerListing> {
        let start = self.config.relay.as_ref()?.volunteer.clone()?;
        let how = CodeDht::new(start, &self.config.store);
        let listing = VolunteerListing::new(&mut self.engine, &how);
        if listing.is_none() {
            let what = "this relay is not listed for strangers: it listens on loopback alone";
            on_event(Event::warning(what));
        }
        listing
    }

    /// Joins the multicast groups on each interface. Failure is an error only for interfaces that the settings name:
    /// others come and go with the machine's networks.
    fn join_multicast(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), NodeError> {
        let link_type = self.config.multicast_link;
        let named = self.config.multicast_interfaces.clone();
        if self.config.multicast.is_some() || self.config.multicast_v6.is_some() {
            has_interfaces(&named)?;
        }
        if let Some(group) = self.config.multicast {
            let v4 = |address: &IpAddr| match address {
                IpAddr::V4(address) => Some(*address),
                IpAddr::V6(_) => None,
            };
            let interfaces = match named.is_empty() {
                true => interfaces(),
                false => named.iter().filter_map(v4).collect(),
            };
            for interface in interfaces {
                let joined = self.engine.join(group, interface, link_type);
                self.tell_joined(joined, group.into(), interface.into(), on_event)?;
            }
        }
        if let Some(group) = self.config.multicast_v6 {
            for LinkLocal { index, name, address } in link_local(&named) {
                let group = SocketAddrV6::new(*group.ip(), group.port(), 0, index);
                let joined = self.engine.join_v6(group, index, &name, address, link_type);
                self.tell_joined(joined, group.into(), address.into(), on_event)?;
            }
        }
        Ok(())
    }

    /// Makes the faces to NDN's group on the Ethernet interfaces of the settings. One that is not here yet is awaited.
    fn join_ethernet(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), NodeError> {
        for device in &self.config.ethernet {
            let joined = self.engine.join_ethernet(device, self.config.ethernet_link);
            let face = joined.map_err(|why| NodeError::Ethernet { device: device.clone(), why })?;
            if let Some(face) = self.engine.face(face)
                && face.came_up
            {
                on_event(Event::Listening { uri: face.address.clone() });
            }
        }
        Ok(())
    }

    fn tell_joined(
        &self,
        joined: io::Result<FaceId>,
        group: SocketAddr,
        interface: IpAddr,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), NodeError> {
        match joined {
            Ok(face) => {
                let uri = self.engine.faces().find(|(id, _)| *id == face);
                let uri = uri.map_or(FaceUri::Null, |(_, face)| face.remote.clone());
                on_event(Event::Listening { uri: FaceAddress::Group(uri, interface) });
                Ok(())
            }
            Err(why) => {
                let error = NodeError::Multicast { group, interface, why };
                if !self.config.multicast_interfaces.is_empty() {
                    return Err(error);
                }
                on_event(Event::warning(error.to_string()));
                Ok(())
            }
        }
    }

    /// Makes the faces, routes and strategies of the settings.
    fn connect(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), NodeError> {
        let mut made: HashMap<PeerAddress, FaceId> = HashMap::new();
        for uri in self.config.connect.clone() {
            self.face_to(&uri, &mut made, on_event);
        }
        for route in self.config.routes.clone() {
            if let Some(face) = self.face_to(&route.to, &mut made, on_event) {
                self.engine
                    .forwarder
                    .add_route(route.prefix.as_ref(), face, route.cost)
                    .map_err(|why| NodeError::Route { prefix: route.prefix.clone(), why })?;
            }
        }
        let usual = usual_strategies();
        let usual = usual.iter().filter(|_| self.config.role == NodeRole::Forwarder);
        for (prefix, strategy) in usual.chain(&self.config.strategies) {
            self.engine
                .forwarder
                .set_strategy(prefix.as_ref(), *strategy)
                .map_err(|why| NodeError::Strategy { prefix: prefix.clone(), why })?;
        }
        for region in &self.config.regions {
            let added = self.engine.forwarder.add_region(region.as_ref());
            added.map_err(|why| NodeError::Region { region: region.clone(), why })?;
        }
        Ok(())
    }

    /// Makes the permanent face to a peer of the settings. A host name that does not resolve now gets no face; the rest
    /// of the node works without it.
    fn face_to(
        &mut self,
        uri: &PeerUri,
        made: &mut HashMap<PeerAddress, FaceId>,
        on_event: &mut dyn FnMut(Event),
    ) -> Option<FaceId> {
        let found = resolve(uri).map_err(|e| e.to_string()).and_then(|peers| {
            let peer = peers.into_iter().next().ok_or("a peer in the settings has no address")?;
            if let Some(face) = made.get(&peer) {
                return Ok(*face);
            }
            let face = self
                .engine
                .dial(&peer, Persistency::Permanent)
                .map_err(|e| format!("{peer}: {e}"))?;
            made.insert(peer, face);
            Ok(face)
        });
        found.map_err(|what| on_event(Event::warning(what))).ok()
    }
}

/// The strategies that NFD's usual settings choose, besides best-route for all else: several programs of this machine
/// may serve a name below `/localhost`, and what is below `/ndn/broadcast` is for all neighbours. The settings and
/// commands replace them.
fn usual_strategies() -> [(Name, ForwardingStrategy); 3] {
    let name = |components: &[&'static [u8]]| {
        let all = components.iter().map(|value| Component::generic(value));
        all.fold(Name::new(), |name, component| name.child(component))
    };
    [
        (name(&[b"localhost"]), ForwardingStrategy::MULTICAST),
        (name(&[b"localhost", b"nfd"]), ForwardingStrategy::BEST_ROUTE),
        (name(&[b"ndn", b"broadcast"]), ForwardingStrategy::MULTICAST),
    ]
}

/// The program of a node that listens.
struct NodeProgram<'a> {
    management: Management,
    started_ms: u64,
    store: &'a Path,
    /// Unix sockets to which management may create faces.
    unix_sockets: &'a [PathBuf],
    /// Receives mail.
    mail_server: MailServer,
    /// The shaping level requested for links.
    wanted_level: Level,
    /// Interval between reports of relayed traffic, and the latest report.
    relay: Option<(Duration, relay::RelayCountReport)>,
    /// Orders to the relay from other threads.
    orders: Option<relay::RelayOrders>,
    clients: relay::SavedClients,
    counting: Option<CountReport>,
    /// Lists the relay in the DHT.
    listing: Option<VolunteerListing>,
    repo: Option<NodeRepo>,
    /// Events of the thread that delivers mail.
    events: &'a mpsc::Receiver<Event>,
    on_event: &'a mut dyn FnMut(Event),
}

/// The engine as management uses it. A macro, because a method would borrow `management` as well.
macro_rules! host {
    ($forwarding:ident, $engine:ident) => {{
        let NodeProgram { started_ms, store, unix_sockets, .. } = *$forwarding;
        ManagedEngine { engine: $engine, started_ms, store, unix_sockets }
    }};
}

impl Program for NodeProgram<'_> {
    type Error = NodeError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), NodeError> {
        let now = engine.now();
        if let (Some(repo), EngineEvent::Packet { from, packet, nack, .. }) =
            (&mut self.repo, &event)
        {
            let is_repos = match nack {
                None => repo.handle_packet(engine, now, *from, packet),
                Some(_) => {
                    repo.handle_nack(engine, now, packet);
                    false
                }
            };
            repo.report(now, self.on_event);
            if is_repos {
                return Ok(());
            }
        }
        let mut host = host!(self, engine);
        let mut answers = Vec::new();
        match event {
            EngineEvent::Packet { from, packet, nack: None, .. } => {
                let management = &mut self.management;
                match Interest::decode(&packet) {
                    Ok(interest) => {
                        management.handle_interest(now, from, &interest, &mut host, &mut answers);
                    }
                    Err(_) => management.handle_reply(now, &packet, &mut host, &mut answers),
                }
            }
            EngineEvent::Packet { packet, .. } => {
                self.management.handle_reply(now, &packet, &mut host, &mut answers);
            }
            EngineEvent::LearnedRoute { face, name, announcement: Some(announcement) } => {
                let (management, name) = (&mut self.management, name.as_ref());
                match management.learn(now, face, name, &announcement, &mut host) {
                    Ok(prefix) => tracing::debug!(%face, %prefix, "a route was learned"),
                    Err(why) => {
                        tracing::debug!(%face, %name, why = why.text, "the route was not learned")
                    }
                }
            }
            EngineEvent::LearnedRoute { face, name, announcement: None } => {
                self.management.unlearn(face, name.as_ref(), &mut host);
            }
            EngineEvent::OtherKey { .. }
            | EngineEvent::Moved { .. }
            | EngineEvent::Relay { .. } => {}
            EngineEvent::Trouble { what } => (self.on_event)(Event::warning(what)),
            EngineEvent::FaceUp { face, peer } => {
                self.management.face_up(now, face, &host, &mut answers);
                (self.on_event)(Event::PeerConnected { peer: peer.clone() });
                shaping::report(host.engine, face, self.wanted_level, &peer, self.on_event);
            }
            EngineEvent::Stream { face, stream, what } => {
                self.mail_server.handle(host.engine, face, stream, what);
            }
            EngineEvent::FaceDown { face, peer, why, gone } => {
                self.mail_server.face_down(face);
                let why = why.to_string();
                self.management.face_failed(face, &why, &mut answers);
                if gone {
                    self.management.face_gone(now, face, &mut host, &mut answers);
                }
                (self.on_event)(Event::PeerGone { peer, why });
            }
        }
        for answer in answers {
            engine.send(&answer);
        }
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), NodeError> {
        if self.management.poll_timeout().is_some_and(|t| t <= now) {
            let mut answers = Vec::new();
            self.management.handle_timeout(now, &mut host!(self, engine), &mut answers);
            answers.iter().for_each(|answer| engine.send(answer));
        }
        if let Some((every, report)) = &mut self.relay {
            report.report(engine, now, *every, self.on_event);
            self.clients.keep(engine, now, self.store, self.on_event);
        }
        if let Some(repo) = &mut self.repo {
            repo.handle_timeout(engine, now);
            repo.report(now, self.on_event);
        }
        if let Some(counting) = &mut self.counting {
            counting.report(engine, now, self.on_event);
        }
        if let Some(orders) = &mut self.orders {
            orders.handle(engine, self.store, self.on_event);
            // A relay that takes no more clients does not look for any.
            if let Some(listing) = self.listing.take_if(|_| orders.is_draining()) {
                listing.leave(engine);
            }
        }
        if let Some(listing) = &mut self.listing {
            listing.handle_timeout(engine, self.on_event);
        }
        self.mail_server.poll(engine, self.on_event);
        self.events.try_iter().for_each(&mut *self.on_event);
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        stopped || self.orders.as_ref().is_some_and(|orders| orders.is_drained(engine))
    }

    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        let report = self.relay.as_ref().map(|(_, report)| report.due());
        let orders = self.orders.as_ref().and_then(|orders| orders.poll_timeout(now));
        let listing = self.listing.as_ref().and_then(VolunteerListing::poll_timeout);
        let repo = self.repo.as_ref().and_then(NodeRepo::poll_timeout);
        let counts = self.counting.as_ref().map(CountReport::due);
        let timers = [report, orders, counts, listing, repo];
        self.management.poll_timeout().into_iter().chain(timers.into_iter().flatten()).min()
    }
}

/// Trusts the keys of the anchors, under the rules of the schema, and those of the certificates that they have signed.
fn trust_store(
    anchors: &[PathBuf],
    certificates: &[PathBuf],
    schema: Option<&Path>,
) -> Result<TrustStore, NodeError> {
    let mut store = xylem_keys::anchors(anchors, schema)?;
    for path in certificates {
        let wire = certificate(path)?;
        let wrong = |why: AnchorFlaw| NodeError::Anchor { path: path.clone(), why };
        let certified = Certificate::decode(&wire).map_err(|e| wrong(e.into()))?;
        store.add(&certified, now_ms()).map_err(|e| wrong(e.into()))?;
    }
    Ok(store)
}

/// Which keys may command. By default every program of this machine may; with anchors, the keys that they certify.
fn management_settings(
    config: &NodeConfig,
    on_event: &mut dyn FnMut(Event),
) -> Result<ManagementConfig, NodeError> {
    let anchors = || trust_store(&config.anchors, &config.certificates, config.schema.as_deref());
    let guard = match command_times::load(&config.store) {
        Ok(times) => ReplayGuard::restore(&times, now_ms()),
        Err(e) => {
            let what = format!("{e}; the node refuses signed commands for two minutes");
            on_event(Event::warning(what));
            ReplayGuard::after_loss(now_ms())
        }
    };
    // A client may sign as soon as it learns that the node listens. Its time must be later than the guard's beginning.
    std::thread::sleep(Duration::from_millis(1));
    let readvertise = config.readvertise;
    let max_routes = config.max_routes;
    let mut settings = ManagementConfig { guard, max_routes, readvertise, ..Default::default() };
    if !config.anchors.is_empty() {
        settings.localhost = CommandTrust::Anchors(anchors()?);
    }
    if config.localhop {
        settings.localhop = Some(anchors()?);
    }
    Ok(settings)
}

/// Checks that this machine has each of these IPv6 addresses. Joining a group reports a wrong IPv4 address itself, but for
/// IPv6 an interface's link-local address is used in its place.
fn has_interfaces(named: &[IpAddr]) -> Result<(), NodeError> {
    if !named.iter().any(IpAddr::is_ipv6) {
        return Ok(());
    }
    let all = if_addrs::get_if_addrs().map_err(NodeError::Interfaces)?;
    let is_missing = |address: &&IpAddr| all.iter().all(|interface| interface.ip() != **address);
    match named.iter().filter(|address| address.is_ipv6()).find(is_missing) {
        Some(address) => Err(NodeError::NoInterface { address: *address }),
        None => Ok(()),
    }
}

/// An interface with its number, its name and its link-local address.
struct LinkLocal {
    index: u32,
    name: String,
    address: Ipv6Addr,
}

/// The interfaces with a link-local IPv6 address: those that have one of these addresses, or all but loopback if there are
/// none.
fn link_local(named: &[IpAddr]) -> Vec<LinkLocal> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let takes_part = |name: &str| {
        let has = |address: &IpAddr| all.iter().any(|of| of.name == name && of.ip() == *address);
        named.is_empty() || named.iter().any(has)
    };
    let mut found: Vec<LinkLocal> = Vec::new();
    for interface in &all {
        if let (IpAddr::V6(address), Some(index)) = (interface.ip(), interface.index)
            && address.is_unicast_link_local()
            && takes_part(&interface.name)
            && found.iter().all(|other| other.index != index)
        {
            found.push(LinkLocal { index, name: interface.name.clone(), address });
        }
    }
    found
}

/// IPv4 addresses of this machine, one for each interface but loopback.
fn interfaces() -> Vec<Ipv4Addr> {
    let mut seen: Vec<String> = Vec::new();
    let mut addresses = Vec::new();
    for interface in if_addrs::get_if_addrs().unwrap_or_default() {
        if let IpAddr::V4(address) = interface.ip()
            && !address.is_loopback()
            && !seen.contains(&interface.name)
        {
            seen.push(interface.name);
            addresses.push(address);
        }
    }
    addresses
}
