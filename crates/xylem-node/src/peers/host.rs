//! [`SeedHost`]: the thread that answers peers that dial a fetching node.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::shaping::LinkOptions;
use xylem_base::{Blame, Failure, Stop, disk};
use xylem_files::held::{Answers, Holdings};
use xylem_files::reads::Reads;
use xylem_forward::{FaceId, Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_link::{Endpoint, StaticKey};
use xylem_object::fetched::parse_notice;
use xylem_object::find;
use xylem_object::peers::{Announcement, MAX_OWN_ADDRESSES};
use xylem_object::ticket::Address;
use xylem_object::{Publication, PublicationError, PublisherId, ServeOutcome, Ticket};
use xylem_packet::{Name, Packet};
use xylem_peers::announcers::Announcers;
use xylem_peers::port_of;
use xylem_peers::reachable::{Relay, is_public};
use xylem_publish::publications::{PublicationId, Publications, ReceivedInterest, ServedContent};
use xylem_publish::served::{ServedMeter, ServedStats};
use xylem_reach::names::dht_knock;

use super::linked_at;
use crate::discovery::{AnnounceOptions, ShareAnnouncer};
use crate::reaching;
use crate::waking::wake_of;
use xylem_engine::EngineError;
use xylem_engine::{Engine, EngineEvent, FaceLimits, Program, RelayHandle, RelayUse, advertised};

/// Most incoming links; more are refused.
const MAX_LINKS: usize = 64;

/// Why fetched content cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The manifest is not the ticket's.
    #[error("{0}")]
    Publication(PublicationError),
    /// Failures of sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] xylem_base::NoRandomness),
    /// A key of the store cannot be read or made.
    #[error(transparent)]
    Key(#[from] xylem_keys::KeyFileError),
}

impl Failure for HostError {
    fn blame(&self) -> Blame {
        match self {
            Self::Publication(_) => Blame::Usage,
            Self::Engine(e) => e.blame(),
            Self::Randomness(e) => e.blame(),
            Self::Key(e) => e.blame(),
        }
    }
}

/// The content that [`SeedHost`] serves, and how.
#[derive(Clone)]
pub(crate) struct HostOffer {
    /// Listening addresses. Empty: a free port of all interfaces.
    pub(crate) listen: Vec<SocketAddr>,
    /// The link key of a seed, the same in each run. `None`: a fresh key for this run.
    pub(crate) identity: Option<[u8; 32]>,
    pub(crate) links: LinkOptions,
    /// Relays through which it is reached. The ticket names the first.
    pub(crate) relays: Vec<Relay>,
    /// Whether to answer peers that have neither the key nor a ticket.
    pub(crate) accept_open: bool,
    /// How to announce a seed to peers without its address, and where to keep the DHT's nodes.
    pub(crate) beside: AnnounceOptions,
    pub(crate) store: PathBuf,
    /// A directory on the file system of the content.
    pub(crate) beneath: PathBuf,
    pub(crate) name: Name,
    pub(crate) publisher: PublisherId,
    /// The signed packet of the manifest.
    pub(crate) manifest: Vec<u8>,
    pub(crate) holdings: Holdings,
    /// What other threads read.
    pub(crate) meter: ServedMeter,
}

/// Serves one publication from the holdings. Dropping it closes its links.
pub(crate) struct SeedHost {
    key: [u8; 32],
    ticket: Option<Box<Ticket>>,
    listen: Vec<SocketAddr>,
    served: Arc<AtomicU64>,
    stop: Stop,
    relays: RelayHandle,
    thread: Option<JoinHandle<()>>,
}

impl SeedHost {
    /// Listens and serves what is offered. With an identity it uses the same port in each run, if that port is free.
    ///
    /// # Errors
    /// See [`HostError`].
    pub(crate) fn start(
        HostOffer {
            listen,
            identity,
            links,
            relays,
            accept_open,
            beside,
            store,
            beneath,
            name,
            publisher,
            manifest,
            holdings,
            meter,
        }: HostOffer,
    ) -> Result<Self, HostError> {
        let publication =
            Publication::new(name.clone(), manifest, &publisher).map_err(HostError::Publication)?;
        let secret = match identity {
            Some(secret) => StaticKey::from_bytes(secret),
            None => StaticKey::from_bytes(xylem_base::random()?),
        };
        let key = secret.public().0;
        let config = xylem_link::LinkConfig { accept_open, max_links: MAX_LINKS, ..links.config() };
        let mut endpoint = Endpoint::new(config, secret, xylem_base::random()?);
        // Peers with a ticket know the publisher, and may knock by that. A new endpoint always has room for this knock
        // and for that of the DHT.
        let _ = endpoint.answer_knock(&publisher.0);
        let seed = ForwarderSeed::from_random(xylem_base::random()?);
        let mut engine = Engine::new(endpoint, Forwarder::new(ForwarderConfig::end_host(), seed))?;
        engine.set_limits(FaceLimits { faces: MAX_LINKS, ..FaceLimits::default() });
        let root = publication.manifest().root;
        let kind = publication.manifest().kind;
        let port = identity.map_or(0, |secret| port_of(&secret, &root));
        let listen = bind(&mut engine, &listen, port)?;
        engine.serve(name.as_ref())?;
        engine.serve(find::prefix().as_ref())?;
        let mut publications = Publications::default();
        publications.wake_by(wake_of(&mut engine)?);
        let reads = Reads::over(disk(), &beneath);
        let answers = Answers::read_by(publication, publisher, holdings, reads);
        let served_as = publications.add(ServedContent::Onward(Box::new(answers)));
        // The publisher does not know our key, and so cannot vouch for it.
        publications.add_find(served_as, &key, None);
        let mut beside = identity.map(|_| ShareAnnouncer::new(&beside, &store, &listen));
        if let Some(beside) = &mut beside {
            beside.add_held(root, publisher);
            if beside.is_public() {
                let _ = engine.answer_knock(&dht_knock(&root));
                publications.add_public_find(served_as, &key, publisher, None);
            }
        }
        let handle = engine.relay_handle()?;
        let (served, stop) = (Arc::new(AtomicU64::new(0)), Stop::new());
        // No publisher vouches for our key.
        let ticket = Ticket {
            publisher,
            root,
            name: None,
            link_key: Some(key),
            size: None,
            kind: Some(kind),
            addresses: advertised(&listen).into_iter().map(Address::Ip).collect(),
            relays: relays.iter().map(|relay| relay.at.clone()).collect(),
        };
        let ticket = identity.is_some().then(|| Box::new(ticket));
        let mut serve = HostProgram {
            prefix: name,
            publications,
            served_as,
            announcers: Announcers::default(),
            answer: Vec::new(),
            served: served.clone(),
            stats: ServedStats::default(),
            links: HashSet::new(),
            meter,
            beside,
            mapped: None,
        };
        let ends = stop.clone();
        reaching::register(&mut engine, &relays, &[], false, &mut |_| {});
        reaching::announce_own_addresses(&mut engine, std::iter::empty());
        let thread = thread::Builder::new().name("serve".into());
        let run = move || {
            // If sockets fail for good, serving ends; the fetch goes on.
            let _ = engine.run(&mut serve, &ends);
            engine.close();
        };
        let thread = thread.spawn(run).map_err(EngineError::Thread)?;
        Ok(Self { key, ticket, listen, served, stop, relays: handle, thread: Some(thread) })
    }

    /// Registers with peers that we have reached, so that they introduce us to others that have reached them.
    pub(crate) fn introduced_by(&self, all: Vec<RelayUse>) {
        all.into_iter().for_each(|by| self.relays.use_relay(RelayUse { listens: true, ..by }));
    }

    /// The key that dialled links prove.
    pub(crate) fn key(&self) -> [u8; 32] {
        self.key
    }

    /// A ticket for this host, if it has an identity.
    pub(crate) fn ticket(&self) -> Option<Box<Ticket>> {
        self.ticket.clone()
    }

    /// Listening addresses.
    pub(crate) fn listen(&self) -> &[SocketAddr] {
        &self.listen
    }

    /// Bytes of content sent to other peers.
    pub(crate) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// The announcement for peers: our port, for the address that they see, and further addresses: those requested, and
    /// public ones.
    pub(crate) fn announcement(&self) -> Option<Announcement> {
        let port = self.listen.first()?.port();
        let mut addresses = advertised(&self.listen);
        addresses.retain(|a| self.listen.contains(a) || is_public(a.ip()));
        addresses.truncate(MAX_OWN_ADDRESSES);
        Some(Announcement { key: self.key, port, addresses })
    }
}

impl Drop for SeedHost {
    fn drop(&mut self) {
        self.stop.raise();
        self.relays.wake();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}

/// Binds the `asked` addresses. If one has no port, binds `port` if it is free, else any.
fn bind(
    engine: &mut Engine,
    asked: &[SocketAddr],
    port: u16,
) -> Result<Vec<SocketAddr>, EngineError> {
    let mut bind = |a: SocketAddr| {
        let own = SocketAddr::new(a.ip(), if a.port() == 0 { port } else { a.port() });
        let bound = engine.bind_link(own);
        let free = |_| engine.bind_link(a);
        if own == a { bound } else { bound.or_else(free) }
    };
    if !asked.is_empty() {
        return asked.iter().map(|a| bind(*a).map_err(EngineError::listen(*a))).collect();
    }
    let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let first = bind(v4).map_err(EngineError::listen(v4))?;
    // A machine without IPv6 serves over IPv4 alone.
    let second = bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, first.port())));
    Ok([Some(first), second.ok()].into_iter().flatten().collect())
}

/// The program of the host's thread.
struct HostProgram {
    prefix: Name,
    /// The one publication, also for peers that know its root alone.
    publications: Publications,
    served_as: PublicationId,
    announcers: Announcers,
    /// Buffer of the current answer, kept for its allocation.
    answer: Vec<u8>,
    served: Arc<AtomicU64>,
    stats: ServedStats,
    /// Links that are up; at most [`MAX_LINKS`].
    links: HashSet<FaceId>,
    meter: ServedMeter,
    /// Announces a seed, and has the router forward a port to it.
    beside: Option<ShareAnnouncer>,
    mapped: Option<SocketAddr>,
}

impl Program for HostProgram {
    type Error = EngineError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), EngineError> {
        match event {
            EngineEvent::Packet { from, packet, nack: None, .. } => {
                self.handle_packet(engine, from, &packet);
            }
            EngineEvent::Stream { face, stream, what } => engine.refuse_stream(face, stream, what),
            EngineEvent::FaceUp { face, .. } => {
                self.links.insert(face);
            }
            EngineEvent::FaceDown { face, .. } => {
                self.announcers.went_down(face);
                self.links.remove(&face);
                self.stats.face_down(engine.now(), face);
            }
            EngineEvent::Packet { .. }
            | EngineEvent::Moved { .. }
            | EngineEvent::Relay { .. }
            | EngineEvent::OtherKey { .. }
            | EngineEvent::LearnedRoute { .. }
            | EngineEvent::Trouble { .. } => {}
        }
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), EngineError> {
        for (by, packet) in self.publications.ready(now) {
            self.handle_packet(engine, FaceId(by), &packet);
        }
        let Some(beside) = &mut self.beside else { return Ok(()) };
        beside.handle_timeout(now, &mut |_| {});
        if beside.mapped() != self.mapped {
            self.mapped = beside.mapped();
            reaching::announce_own_addresses(engine, self.mapped.into_iter());
        }
        Ok(())
    }

    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        if self.publications.has_ready() {
            return Some(now);
        }
        self.beside.as_ref().and_then(ShareAnnouncer::poll_timeout)
    }

    fn before_wait(&mut self, _engine: &mut Engine) {
        if let Some(ServedContent::Onward(answers)) = self.publications.get(self.served_as) {
            self.served.store(answers.served, Ordering::Relaxed);
        }
        let counts = self.stats.counts().get(&self.served_as).copied().unwrap_or_default();
        self.meter.set(counts, self.links.len());
    }
}

impl HostProgram {
    fn handle_packet(&mut self, engine: &mut Engine, from: FaceId, packet: &[u8]) {
        let Ok(Packet::Interest(interest)) = Packet::decode(packet) else { return };
        self.answer.clear();
        let asked = ReceivedInterest { now: engine.now(), by: from.0, interest: &interest, packet };
        match self.publications.answer(&asked, &mut self.answer).1 {
            Ok(ServeOutcome::Data) => {
                let (now, bytes) = (engine.now(), self.answer.len());
                self.stats.sent(now, self.served_as, from, bytes);
                return engine.answer(packet, &self.answer);
            }
            // A thread reads it first.
            Ok(ServeOutcome::NotYet) => return,
            Ok(ServeOutcome::NoSuch | ServeOutcome::OtherPublication) | Err(_) => {}
        }
        let (now, seen) = (engine.now(), linked_at(engine, from));
        if parse_notice(self.prefix.as_ref(), interest.name()).is_some() {
            self.stats.fetched(now, self.served_as, from);
            return engine.refuse(packet);
        }
        match self.announcers.answer(now, from, seen, self.prefix.as_ref(), &interest) {
            Some(answer) => engine.answer(packet, &answer),
            None => engine.refuse(packet),
        }
    }
}
