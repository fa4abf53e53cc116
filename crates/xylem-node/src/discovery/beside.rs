//! [`ShareAnnouncer`]: announces a share on the LAN and in the DHT, and has the router forward its port.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xylem_discovery::{
    Dht, DhtEvent, DhtQuestion, Lan, ListenPorts, MapEvent, PortMap, PortMapOptions, RouterMapping,
    SignedItem, default_gateway, keep_nodes, known_nodes,
};
use xylem_hash::Hash;
use xylem_object::{PublisherId, PublisherKey, naming};
use xylem_publish::publications::{PublicationId, ServedContent};
use xylem_reach::names::{LanTag, NewestRoot, TAG_LIFE, dht_key, item_salt};

use super::{AnnounceOptions, label};
use crate::event::Event;
use xylem_engine::{routed, wall_clock};

/// Interval of announcements in the DHT. Its nodes forget peers that do not repeat them.
const AGAIN: Duration = Duration::from_secs(15 * 60);
/// Pause after a query that found the queue full, or no node.
const RETRY: Duration = Duration::from_secs(5);
/// Interval at which the day of the LAN's tags is checked.
const LOOK: Duration = Duration::from_secs(60);
/// Interval at which the router's answer is checked while a ticket waits for it.
const POLL_ROUTER_EVERY: Duration = Duration::from_millis(2);
/// Lifetime of a port mapping unless renewed.
const MAPPED_FOR: Duration = Duration::from_secs(3600);
/// Most publications announced in the DHT.
pub(crate) const MAX_PUBLIC: usize = 256;

/// Where a publication is announced, besides its tickets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Publicity {
    /// Whether on the LAN, if anything is announced there.
    pub(crate) lan: bool,
    /// Whether in the DHT, to all peers.
    pub(crate) dht: DhtRoom,
}

/// Whether one more publication is announced in the DHT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DhtRoom {
    /// It is announced.
    Free,
    /// There are [`MAX_PUBLIC`] already.
    Full,
    /// It was not requested, or the publication grows.
    Unwanted,
}

/// Announces the publications of a share, and keeps the router's port mapping.
pub(crate) struct ShareAnnouncer {
    options: AnnounceOptions,
    store: PathBuf,
    /// The port that other peers can reach. `None`: only this machine's programs can.
    port: Option<u16>,
    /// The ports to announce in the DHT, if the router maps none.
    dht_ports: ListenPorts,
    lan: Option<Lan>,
    day: u64,
    looked: Duration,
    /// The publications served. A fetching node has only one, under the key `None`.
    shared: HashMap<Option<PublicationId>, AnnouncedShare>,
    map: Option<PortMap>,
    mapped: Option<RouterMapping>,
    /// The router has refused a mapping.
    refused: bool,
    dht: Option<Dht>,
}

/// A publication that is served.
struct AnnouncedShare {
    root: Hash,
    publisher: PublisherId,
    /// Whether it may be announced on the LAN.
    lan: bool,
    /// Its announcement in the DHT.
    public: Option<DhtListing>,
}

struct DhtListing {
    name: Option<String>,
    item: Option<SignedItem>,
    /// Time of the next announcement.
    due: Duration,
    /// Whether an announcement has succeeded.
    announced: bool,
}

impl ShareAnnouncer {
    /// For a share that listens at `listen`.
    pub(crate) fn new(options: &AnnounceOptions, store: &Path, listen: &[SocketAddr]) -> Self {
        let reached = listen.iter().find(|at| !at.ip().is_loopback());
        let port = reached.map(SocketAddr::port);
        let on_loopback = listen.first().map(SocketAddr::port);
        // A listener on loopback is reached by this machine's programs alone, as in a network of nodes for tests.
        let of_family = |v6| {
            let listens = |at: &&SocketAddr| at.is_ipv6() == v6;
            let counts = |at: &&SocketAddr| reached.is_none() || !at.ip().is_loopback();
            listen.iter().filter(listens).find(counts).map(SocketAddr::port)
        };
        let dht_ports = ListenPorts { v4: of_family(false), v6: of_family(true) };
        let dht = options.public.as_ref().and_then(|start| {
            let start = known_nodes(store, start.bootstrap.clone());
            Some(Dht::new(start, xylem_base::random().ok()?, Arc::new(|| {})))
        });
        let mut made = Self {
            options: options.clone(),
            store: store.to_path_buf(),
            port: port.or(on_loopback.filter(|_| dht.is_some())),
            dht_ports,
            lan: None,
            day: today(),
            looked: Duration::ZERO,
            shared: HashMap::new(),
            map: None,
            mapped: None,
            refused: false,
            dht,
        };
        let anywhere = listen.iter().find(|at| at.ip() == IpAddr::from(Ipv4Addr::UNSPECIFIED));
        made.map = anywhere.filter(|_| options.map).and_then(|at| mapping(at.port()));
        made.options.lan &= port.is_some();
        made
    }

    /// The address that the router forwards, if it does.
    pub(crate) fn mapped(&self) -> Option<SocketAddr> {
        self.mapped.map(|mapped| mapped.external.into())
    }

    /// Whether publications are announced in the DHT.
    pub(crate) fn is_public(&self) -> bool {
        self.dht.is_some()
    }

    /// Whether this publication can be announced in the DHT as well.
    pub(crate) fn room_for(&self, content: &ServedContent) -> DhtRoom {
        let told = self.shared.values().filter(|shared| shared.public.is_some()).count();
        match content {
            ServedContent::Still { .. } | ServedContent::Onward(_) if self.dht.is_none() => {
                DhtRoom::Unwanted
            }
            ServedContent::Still { .. } | ServedContent::Onward(_) if told < MAX_PUBLIC => {
                DhtRoom::Free
            }
            ServedContent::Still { .. } | ServedContent::Onward(_) => DhtRoom::Full,
            ServedContent::Growing(_) => DhtRoom::Unwanted,
        }
    }

    /// Whether content with this root is announced in the DHT.
    pub(crate) fn shares(&self, root: &Hash) -> bool {
        self.shared.values().any(|shared| shared.public.is_some() && shared.root == *root)
    }

    /// Whether a publication of this publisher is served.
    pub(crate) fn shares_of(&self, publisher: &PublisherId) -> bool {
        self.shared.values().any(|shared| shared.publisher == *publisher)
    }

    /// Adds a publication and announces it as `told` permits. `key` signs the publisher's record of the name.
    pub(crate) fn add(
        &mut self,
        now: Duration,
        id: PublicationId,
        content: &ServedContent,
        key: Option<&PublisherKey>,
        publisher: PublisherId,
        told: Publicity,
    ) {
        let root = content.publication().manifest().root;
        let Publicity { lan, dht } = told;
        let public = (dht == DhtRoom::Free).then(|| {
            let prefix = content.publication().prefix();
            let version = naming::version(prefix).filter(|v| i64::try_from(*v).is_ok());
            let signs = key.filter(|_| content.signed_by().is_none()).zip(version);
            let name = signs.map(|_| label(&publisher, prefix.parent()));
            let item = signs.zip(name.as_ref()).map(|((key, version), name)| {
                let (salt, newest) = (item_salt(name), NewestRoot { root, version });
                let signature = newest.sign(key, &salt);
                SignedItem { publisher: publisher.0, salt, newest, signature }
            });
            DhtListing { name, item, due: now, announced: false }
        });
        self.shared.insert(Some(id), AnnouncedShare { root, publisher, lan, public });
        self.announce_on_lan(Some(id));
    }

    /// Adds fetched content that is served again. Its publisher has signed the record of the name.
    pub(crate) fn add_held(&mut self, root: Hash, publisher: PublisherId) {
        let (name, item, due, heard) = (None, None, Duration::ZERO, false);
        let public = self.dht.is_some().then_some(DhtListing { name, item, due, announced: heard });
        self.shared.insert(None, AnnouncedShare { root, publisher, lan: true, public });
        self.announce_on_lan(None);
    }

    /// Removes a publication that is no longer served.
    pub(crate) fn remove(&mut self, id: PublicationId) {
        let Some(gone) = self.shared.remove(&Some(id)) else { return };
        let twin = |other: &AnnouncedShare| {
            other.lan && (other.root, other.publisher) == (gone.root, gone.publisher)
        };
        if let Some(lan) = self.lan.as_mut().filter(|_| !self.shared.values().any(twin)) {
            lan.withdraw(LanTag::new(&gone.root, &gone.publisher, self.day));
        }
    }

    /// Announces a publication on the LAN.
    fn announce_on_lan(&mut self, id: Option<PublicationId>) {
        let may = self.options.lan && self.shared.get(&id).is_some_and(|shared| shared.lan);
        let (true, Some(port)) = (may, self.port) else { return };
        if self.lan.is_none() {
            let seed = xylem_base::random().ok();
            self.lan = seed.and_then(|seed| Lan::start(seed, Arc::new(|| {})).ok());
        }
        if let (Some(lan), Some(shared)) = (&mut self.lan, self.shared.get(&id)) {
            let tag = LanTag::new(&shared.root, &shared.publisher, self.day);
            if let Err(error) = lan.announce(tag, port) {
                tracing::debug!(%error, "not announced on the LAN");
            }
        }
    }

    /// When [`ShareAnnouncer::handle_timeout`] is due. It also handles events in between, whenever the loop wakes.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let public = self.shared.values().filter_map(|s| s.public.as_ref());
        let look = self.lan.as_ref().map(|_| self.looked + LOOK);
        public.map(|public| public.due).chain(look).min()
    }

    /// Does what is due, and handles events.
    pub(crate) fn handle_timeout(&mut self, now: Duration, on_event: &mut dyn FnMut(Event)) {
        if now >= self.looked + LOOK {
            self.looked = now;
            self.turn_day();
        }
        self.hear_router(now, on_event);
        self.ask_dht(now);
        while let Some(event) = self.dht.as_mut().and_then(Dht::poll) {
            self.handle_dht_event(now, event, on_event);
        }
    }

    /// Waits for the router's first answer, `most` at most.
    pub(crate) fn wait_for_router(&mut self, most: Duration, on_event: &mut dyn FnMut(Event)) {
        let end = Instant::now() + most;
        let heard = |it: &Self| it.map.is_none() || it.mapped.is_some() || it.refused;
        while !heard(self) && Instant::now() < end {
            thread::sleep(POLL_ROUTER_EVERY);
            self.hear_router(Duration::ZERO, on_event);
        }
    }

    fn hear_router(&mut self, now: Duration, on_event: &mut dyn FnMut(Event)) {
        while let Some(event) = self.map.as_mut().and_then(PortMap::poll) {
            match event {
                MapEvent::Mapped(mapped) => {
                    tracing::debug!(external = %mapped.external, by = %mapped.by, "port is mapped");
                    self.mapped = Some(mapped);
                    let (address, by) = (mapped.external.into(), mapped.by.to_string());
                    on_event(Event::Mapped { address, by });
                    // Peers that know another port get this one.
                    let public = self.shared.values_mut().filter_map(|s| s.public.as_mut());
                    public.for_each(|public| public.due = now);
                }
                MapEvent::Lost => self.mapped = None,
                MapEvent::Failed(why) => {
                    tracing::debug!(%why, "no router maps the port");
                    self.refused = true;
                }
            }
        }
    }

    /// Announces the tags of a new day: from midnight (UTC) on, other peers ask for those.
    fn turn_day(&mut self) {
        let before = std::mem::replace(&mut self.day, today());
        if before == self.day || self.lan.is_none() {
            return;
        }
        let ids: Vec<_> = self.shared.keys().copied().collect();
        for shared in self.shared.values() {
            if let Some(lan) = &mut self.lan {
                lan.withdraw(LanTag::new(&shared.root, &shared.publisher, before));
            }
        }
        ids.into_iter().for_each(|id| self.announce_on_lan(id));
    }

    fn ask_dht(&mut self, now: Duration) {
        let Some(dht) = self.dht.as_ref().filter(|_| self.port.is_some()) else { return };
        let mut ports = self.dht_ports;
        ports.v4 = self.mapped.map(|mapped| mapped.external.port()).or(ports.v4);
        for shared in self.shared.values_mut() {
            let Some(public) = shared.public.as_mut().filter(|public| now >= public.due) else {
                continue;
            };
            public.due = now + AGAIN;
            let item = public.item.clone().map(DhtQuestion::Publish);
            let told = dht.ask(DhtQuestion::Announce(dht_key(&shared.root), ports));
            let told = told.and_then(|()| item.map_or(Ok(()), |item| dht.ask(item)));
            if told.is_err() {
                public.due = now + RETRY;
                return;
            }
        }
    }

    fn handle_dht_event(
        &mut self,
        now: Duration,
        event: DhtEvent,
        on_event: &mut dyn FnMut(Event),
    ) {
        match event {
            DhtEvent::Nodes(nodes) => keep_nodes(&self.store, &nodes),
            DhtEvent::Done(DhtQuestion::Announce(key, _), failed) => {
                let mut first = false;
                let same = |shared: &&mut AnnouncedShare| dht_key(&shared.root) == key;
                for shared in self.shared.values_mut().filter(same) {
                    let Some(public) = &mut shared.public else { continue };
                    match &failed {
                        None if !public.announced => {
                            public.announced = true;
                            first = true;
                            let (root, publisher) = (shared.root, shared.publisher);
                            let name = public.name.clone();
                            on_event(Event::Announced { root, publisher, name });
                        }
                        None => {}
                        Some(why) => {
                            tracing::debug!(%why, "not announced in the DHT");
                            public.due = public.due.min(now + RETRY);
                        }
                    }
                }
                if let Some(dht) = self.dht.as_ref().filter(|_| first) {
                    // Saves nodes for the next start, which would be slower without them.
                    let _ = dht.ask(DhtQuestion::Nodes);
                }
            }
            DhtEvent::Done(DhtQuestion::Publish(item), Some(why)) => {
                tracing::debug!(%why, "not published in the DHT");
                let ours = |public: &&mut DhtListing| public.item.as_ref() == Some(&item);
                let all = self.shared.values_mut().filter_map(|s| s.public.as_mut());
                all.filter(ours).for_each(|public| public.due = public.due.min(now + RETRY));
            }
            _ => {}
        }
    }
}

fn today() -> u64 {
    wall_clock().seconds() / TAG_LIFE
}

/// Has the router forward a port, if this machine has a private address.
fn mapping(port: u16) -> Option<PortMap> {
    let own = routed().into_iter().find_map(|ip| match ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    })?;
    let [a, b, ..] = own.octets();
    let behind = own.is_private() || (a == 100 && (64..128).contains(&b));
    let port = NonZeroU16::new(port)?;
    let gateway = default_gateway();
    let options = PortMapOptions { gateway, own, port, life: MAPPED_FOR };
    behind.then(|| PortMap::start(options, Arc::new(|| {})).ok()).flatten()
}
