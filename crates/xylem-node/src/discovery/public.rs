//! [`find_public`]: makes a ticket for public content from its root or its publisher's name alone.
//!
//! The DHT gives addresses. A peer there is dialled with a knock derived from the root, and asked for the publisher.
//! Its answer is a signed manifest with that root. The rest is an ordinary fetch.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use xylem_base::Stop;
use xylem_discovery::{Dht, DhtEvent, DhtQuestion, is_local, keep_nodes, known_nodes};
use xylem_engine::{Engine, EngineEvent, Program};
use xylem_forward::{FaceId, Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_hash::Hash;
use xylem_link::{Endpoint, StaticKey};
use xylem_mgmt::Persistency;
use xylem_object::find::{FindId, PublicAnswer};
use xylem_object::ticket::Address;
use xylem_object::{PublisherId, Ticket, verify_manifest};
use xylem_packet::{Data, InterestBuilder};
use xylem_peers::reachable::{PeerAddress, may_be_dialled};
use xylem_reach::names::{dht_key, dht_knock, item_salt};

use super::DhtStart;
use crate::event::Event;
use crate::fetch::{AddressCount, FetchError, NotPublic};
use crate::meeting::CodeDht;
use crate::shaping::LinkOptions;
use crate::ticket_meeting::TicketSearch;
use crate::volunteers::{VolunteerDials, as_relay};

/// Most addresses dialled at once. [`MAX_DIALLED`]: most for one query. The DHT lists any peer that announces itself.
const MAX_AT_ONCE: usize = 8;
const MAX_DIALLED: usize = 64;
/// A peer that has not answered a dial or a question after this long makes room for another.
const PATIENCE: Duration = Duration::from_secs(4);
/// The same for one that is dialled through a volunteer: first the relay is.
const RELAY_PATIENCE: Duration = Duration::from_secs(8);
/// Interval at which a question to a peer is repeated, in case of a lost packet. [`AGAIN`]: pause before the next query
/// of the DHT.
const REPEAT: Duration = Duration::from_secs(1);
const QUERY_PAUSE: Duration = Duration::from_secs(2);
/// Time to wait for a newer value after the first one.
const NEWER_VALUE_WAIT: Duration = Duration::from_millis(1500);
/// Time to wait for a list of nodes, which makes the next start faster.
const NODE_LIST_WAIT: Duration = Duration::from_millis(200);
/// Interval between looks for answers of the DHT.
const LOOK: Duration = Duration::from_millis(5);

/// The content to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicTarget {
    /// Content with this root.
    Root(Hash),
    /// The newest content that this publisher published under this name.
    Name(PublisherId, String),
}

/// Options of a search.
#[derive(Clone, Debug)]
pub struct PublicOptions {
    /// The content to search for.
    pub wanted: PublicTarget,
    /// First nodes of the DHT.
    pub dht: DhtStart,
    /// Options of encrypted links.
    pub links: LinkOptions,
    /// Give up after this long.
    pub give_up: Duration,
    /// Directory for nodes of the DHT.
    pub store: PathBuf,
    /// Link keys of peers that were found before and did not have the content.
    pub avoid: Vec<[u8; 32]>,
    /// How to open the NATs between this machine and a sharer that does not answer. `None`: not at all, because the DHT would
    /// list this machine as a getter.
    pub punch: Option<CodeDht>,
}

/// A peer that has public content.
#[derive(Clone, Debug)]
pub struct PublicSharer {
    /// A ticket for the content, with the peer's address.
    pub ticket: Ticket,
    /// The local port from which it was reached, if a NAT was opened for that port.
    pub port: Option<u16>,
}

/// Searches the mainline DHT and asks the peers that it lists. Returns the first peer that has the content.
///
/// # Errors
/// [`FetchError::NotPublic`] if no peer was found in time, and those of the sockets.
pub fn find_public(
    options: &PublicOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<PublicSharer, FetchError> {
    let link_key = StaticKey::from_bytes(xylem_base::random()?);
    let config = xylem_link::LinkConfig { accept_incoming: false, ..options.links.config() };
    let endpoint = Endpoint::new(config, link_key, xylem_base::random()?);
    let seed = ForwarderSeed::from_random(xylem_base::random()?);
    let mut engine = Engine::new(endpoint, Forwarder::new(ForwarderConfig::end_host(), seed))?;
    let start = known_nodes(&options.store, options.dht.bootstrap.clone());
    let mut search = PublicSearch {
        options,
        on_event,
        near: is_local(&start),
        dht: Dht::new(start, xylem_base::random()?, Arc::new(|| {})),
        root: None,
        newest: None,
        asks_at: Some(Duration::ZERO),
        waiting: VecDeque::new(),
        known: HashSet::new(),
        dialled: HashMap::new(),
        silent: true,
        listed: 0,
        asked: false,
        kept: false,
        found: None,
        ends_at: Duration::MAX,
        punching: None,
        punched: HashSet::new(),
        volunteers: VolunteerDials::default(),
        gives_up_at: options.give_up,
    };
    if let PublicTarget::Root(root) = options.wanted {
        search.find_root(&mut engine, root);
    }
    engine.run(&mut search, stop)?;
    engine.close();
    search.found.ok_or(FetchError::Interrupted)
}

struct PublicSearch<'a> {
    options: &'a PublicOptions,
    on_event: &'a mut dyn FnMut(Event),
    /// Whether the DHT runs on this machine alone, so that its peers may be here as well.
    near: bool,
    dht: Dht,
    /// The root to find, once it is known.
    root: Option<Hash>,
    /// The newest root of the publisher's name so far, and when to stop waiting for a newer one.
    newest: Option<(Hash, Duration)>,
    /// When the DHT is queried next; `None` while a query is running.
    asks_at: Option<Duration>,
    waiting: VecDeque<SocketAddr>,
    known: HashSet<SocketAddr>,
    dialled: HashMap<FaceId, DialledAddress>,
    /// Whether no node of the DHT has answered. `listed`: the most addresses that it has listed.
    silent: bool,
    listed: usize,
    /// Whether the DHT's list of nodes was requested. `kept`: whether it has arrived.
    asked: bool,
    kept: bool,
    found: Option<PublicSharer>,
    /// Time until which the list of nodes is awaited after a peer was found.
    ends_at: Duration,
    /// Opens NATs, once the root is known.
    punching: Option<TicketSearch>,
    /// Addresses to which a NAT was opened.
    punched: HashSet<SocketAddr>,
    /// Dials through volunteers, where no NAT opens.
    volunteers: VolunteerDials,
    gives_up_at: Duration,
}

struct DialledAddress {
    address: SocketAddr,
    /// The peer, if it is dialled through a volunteer at that address.
    relayed: Option<PeerAddress>,
    until: Duration,
    /// For a link that is up: its key, its question, and when to ask it.
    up: Option<([u8; 32], FindId, Duration)>,
}

impl PublicSearch<'_> {
    fn find_root(&mut self, engine: &mut Engine, root: Hash) {
        tracing::debug!(%root, "looking for peers in the DHT");
        self.root = Some(root);
        self.asks_at = Some(engine.now());
        engine.set_knock(dht_knock(&root));
    }

    /// Has the NATs between this machine and listed sharers opened, if none of them answers. Those that then do are dialled
    /// first.
    fn punch(&mut self, engine: &mut Engine) {
        let now = engine.now();
        if self.punching.is_none()
            && !self.known.is_empty()
            && let (Some(root), Some(how)) = (&self.root, &self.options.punch)
        {
            let publisher = match &self.options.wanted {
                PublicTarget::Name(publisher, _) => Some(*publisher),
                PublicTarget::Root(_) => None,
            };
            self.punching = Some(TicketSearch::of_root(engine, root, publisher, how));
        }
        let Some(punching) = self.punching.as_mut().filter(|_| self.found.is_none()) else {
            return;
        };
        if punching.begins(now) {
            (self.on_event)(Event::RootInDht);
        }
        let was_listed = punching.is_listed();
        let mut fresh = Vec::new();
        for address in punching.handle_timeout(engine).iter().filter_map(PeerAddress::link_address)
        {
            if self.punched.insert(address) {
                fresh.push(address);
            }
        }
        if punching.is_listed() && !was_listed {
            // A sharer asks for getters every 28 s.
            self.gives_up_at = self.gives_up_at.max(now + self.options.give_up);
        }
        let volunteers = punching.poll_volunteers(engine);
        if !volunteers.is_empty() && !self.volunteers.has_begun() {
            (self.on_event)(Event::Volunteers {
                relays: volunteers.iter().map(as_relay).collect(),
            });
            self.gives_up_at = self.gives_up_at.max(now + self.options.give_up);
            let targets = vec![punching.sharers()];
            self.volunteers.begin(engine, volunteers, targets);
        }
        for (face, peer) in self.volunteers.poll(engine) {
            if let PeerAddress::Relayed { at: address, .. } = peer {
                let (until, relayed) = (now + RELAY_PATIENCE, Some(peer));
                let dialled = DialledAddress { address, relayed, until, up: None };
                self.dialled.insert(face, dialled);
            }
        }
        for address in fresh {
            // A dial from before has met a NAT that was closed, and may not be repeated for a while.
            let mut direct = self.dialled.iter().filter(|(_, dialled)| dialled.relayed.is_none());
            let before = direct.find(|(_, dialled)| dialled.address == address);
            match before.map(|(face, dialled)| (*face, dialled.up.is_some())) {
                Some((_, true)) => {}
                Some((face, false)) => {
                    self.drop_face(engine, face, "its NAT is open now");
                    self.waiting.push_front(address);
                }
                None => self.waiting.push_front(address),
            }
        }
    }

    fn question(&self) -> DhtQuestion {
        match (&self.root, &self.options.wanted) {
            (Some(root), _) | (None, PublicTarget::Root(root)) => DhtQuestion::Find(dht_key(root)),
            (None, PublicTarget::Name(publisher, name)) => {
                DhtQuestion::Newest { publisher: publisher.0, salt: item_salt(name) }
            }
        }
    }

    fn handle_dht_event(&mut self, now: Duration, event: DhtEvent) {
        match event {
            DhtEvent::Peers(_, peers) => {
                for address in peers {
                    let mut direct = self.dialled.values().filter(|it| it.relayed.is_none());
                    let dialled = direct.any(|dialled| dialled.address == address);
                    let room = self.known.len() < MAX_DIALLED && !dialled;
                    if room && may_be_dialled(&address, self.near) && self.known.insert(address) {
                        self.waiting.push_back(address);
                    }
                }
                (self.silent, self.listed) = (false, self.listed.max(self.known.len()));
                if !std::mem::replace(&mut self.asked, true) {
                    let _ = self.dht.ask(DhtQuestion::Nodes);
                }
            }
            // Each value is newer than those before it.
            DhtEvent::Newest { newest, .. } if self.root.is_none() => {
                let until = self.newest.map_or(now + NEWER_VALUE_WAIT, |(_, until)| until);
                self.newest = Some((newest.root, until));
            }
            DhtEvent::Nodes(nodes) => {
                self.kept = true;
                keep_nodes(&self.options.store, &nodes);
            }
            DhtEvent::Done(over, failed) if over == self.question() => {
                match failed {
                    Some(why) => tracing::debug!(%why, "the DHT does not answer"),
                    None => self.silent = false,
                }
                // All nodes that have a value have sent it.
                self.newest = self.newest.map(|(root, _)| (root, now));
                self.asks_at = Some(now + QUERY_PAUSE);
            }
            _ => {}
        }
    }

    /// Dials as many addresses as the limit permits.
    fn dial(&mut self, engine: &mut Engine) {
        let until = engine.now() + PATIENCE;
        let direct = |all: &HashMap<FaceId, DialledAddress>| {
            all.values().filter(|dialled| dialled.relayed.is_none()).count()
        };
        while direct(&self.dialled) < MAX_AT_ONCE
            && let Some(address) = self.waiting.pop_front()
        {
            let peer = PeerAddress::Link { address, key: None };
            if let Ok(face) = engine.dial(&peer, Persistency::OnDemand) {
                let dialled = DialledAddress { address, relayed: None, until, up: None };
                self.dialled.insert(face, dialled);
            }
        }
    }

    fn drop_face(&mut self, engine: &mut Engine, face: FaceId, why: &'static str) {
        if self.dialled.remove(&face).is_some() {
            engine.drop_face(face, why);
        }
    }

    /// Asks the peers that are up, and drops those that are silent.
    fn ask(&mut self, engine: &mut Engine) {
        let now = engine.now();
        let silent = self.dialled.iter().filter(|(_, dialled)| now >= dialled.until);
        for face in silent.map(|(face, _)| *face).collect::<Vec<_>>() {
            self.drop_face(engine, face, "it does not answer");
        }
        for (face, dialled) in &mut self.dialled {
            let Some((_, id, at)) = dialled.up.as_mut().filter(|(_, _, at)| now >= *at) else {
                continue;
            };
            *at = now + REPEAT;
            let (question, mut interest) = (id.question(), Vec::new());
            let lifetime = REPEAT.as_millis() as u64;
            let built =
                InterestBuilder::new(question.as_ref()).lifetime_ms(lifetime).encode(&mut interest);
            if built.is_ok() {
                engine.ask(*face, &interest);
            }
        }
    }

    /// The ticket from an answer, if the packet is a valid one.
    fn read_answer(&self, from: FaceId, packet: &[u8]) -> Option<Ticket> {
        let data = Data::decode(packet).ok()?;
        let id = FindId::parse(data.name())?;
        let dialled = self.dialled.get(&from)?;
        let (key, asked, _) = dialled.up?;
        let PublicAnswer { publisher, answer } = PublicAnswer::decode(data.content()).ok()?;
        let root = self.root?;
        let whose = match &self.options.wanted {
            PublicTarget::Name(whose, _) => *whose == publisher,
            PublicTarget::Root(_) => true,
        };
        if id != asked || !whose {
            return None;
        }
        let manifest_packet = Data::decode(answer.manifest).ok()?;
        let prefix = manifest_packet.name().parent();
        let manifest = verify_manifest(&manifest_packet, prefix, &publisher).ok()?;
        let is_it = manifest.root == root && manifest.tree == xylem_tree::TreeKind::Blake3;
        let relays = dialled.relayed.as_ref().map(|peer| self.volunteers.relays_of(peer));
        let direct = relays.is_none().then_some(Address::Ip(dialled.address));
        is_it.then(|| Ticket {
            publisher,
            root,
            name: Some(prefix.to_name()),
            link_key: Some(key),
            size: Some(manifest.size),
            kind: Some(manifest.kind),
            addresses: direct.into_iter().collect(),
            relays: relays.into_iter().flatten().map(|relay| relay.at).collect(),
        })
    }
}

impl Program for PublicSearch<'_> {
    type Error = FetchError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), FetchError> {
        match event {
            EngineEvent::FaceUp { face, .. } => {
                let key = engine.link_peer(face).map(|key| key.0);
                let (now, root) = (engine.now(), self.root);
                if key.is_some_and(|key| self.options.avoid.contains(&key)) {
                    self.drop_face(engine, face, "it was found before and does not have it");
                }
                if let (Some(dialled), Some(key), Some(root)) =
                    (self.dialled.get_mut(&face), key, root)
                {
                    dialled.up = Some((key, FindId::public(&root, &key), now));
                    dialled.until = now + PATIENCE;
                }
            }
            EngineEvent::FaceDown { face, why, .. } => {
                self.dialled.remove(&face);
                // Also one that this program has ended: another sharer may answer there next time.
                self.volunteers.went_down(engine.now(), face, &why);
            }
            EngineEvent::Packet { from, nack: Some(_), .. } => {
                self.drop_face(engine, from, "it does not have it");
            }
            EngineEvent::Packet { from, packet, .. } => match self.read_answer(from, &packet) {
                Some(ticket) => {
                    self.ends_at = self.ends_at.min(engine.now() + NODE_LIST_WAIT);
                    let at = self.dialled.get(&from).map(|dialled| dialled.address);
                    let punched = at.filter(|at| self.punched.contains(at));
                    let port = punched.and_then(|at| engine.punched_port(at.into()));
                    self.found.get_or_insert(PublicSharer { ticket, port });
                }
                None => self.drop_face(engine, from, "it misbehaved"),
            },
            EngineEvent::Stream { face, stream, what } => engine.refuse_stream(face, stream, what),
            _ => {}
        }
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), FetchError> {
        if now >= self.gives_up_at && self.found.is_none() {
            let why = match self.listed {
                0 if self.silent => NotPublic::Silence,
                0 => NotPublic::Unlisted,
                listed => NotPublic::Unreached(AddressCount(listed)),
            };
            return Err(FetchError::NotPublic { after: Duration::from_secs(now.as_secs()), why });
        }
        if self.asks_at.is_some_and(|at| now >= at) && self.dht.ask(self.question()).is_ok() {
            self.asks_at = None;
            // A peer that did not answer before may answer now.
            self.known.clear();
        }
        while let Some(event) = self.dht.poll() {
            self.handle_dht_event(now, event);
        }
        if self.root.is_none()
            && let Some((root, until)) = self.newest
            && now >= until
        {
            self.find_root(engine, root);
        }
        self.punch(engine);
        self.dial(engine);
        self.ask(engine);
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        stopped || (self.found.is_some() && (self.kept || engine.now() >= self.ends_at))
    }

    fn poll_timeout(&mut self, now: Duration) -> Option<Duration> {
        Some(now + LOOK)
    }
}
