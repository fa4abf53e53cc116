//! [`share`]: publish one path and answer Interests for it until asked to stop.

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use xylem_forward::{FaceId, Forwarder, Seed};
use xylem_link::{Endpoint, Level, Shaping, StaticKey};
use xylem_object::naming;
use xylem_object::{Answer, Manifest, Publication, PublicationError, PublisherKey, Ticket};
use xylem_packet::{Interest, Name, Packet};
use xylem_store::Store;

use crate::addresses::advertised;
use crate::clock::wall_clock;
use crate::engine::{Engine, EngineEvent, Program, end_host};
use crate::error::{EngineError, certificate};
use crate::event::{Event, from_library};
use crate::mail::{MailServer, while_delivering};
use crate::peer::{FaceAddress, Peer};
use crate::peers::Announcers;
use crate::register::{RegisterError, Registrar};
use crate::shaping;
use crate::uri::LINK_PORT;
use xylem_library::follow::{Author, FollowOptions, Grower};
use xylem_library::mail::MailStore;
use xylem_library::publish::{Serving, publish};
use xylem_library::{
    Blame, Error, Failure, LibraryEvent, SkipReason, Stop, advised, canonical, disk,
};
use xylem_library::{keys, record};

/// How long a share that is over waits for its last answers to leave.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Why [`share`] ends early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// A name under which nothing can be published.
    #[error("{0}")]
    Publication(PublicationError),
    /// The encrypted link does not listen there.
    #[error("{0} is not encrypted; see --plain-listen")]
    NotEncrypted(FaceAddress),
    /// A prefix that no command can hold.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// Of the sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Of the store, keys, and the files that are shared.
    #[error("{0}")]
    Library(#[from] Error),
}

impl Failure for ShareError {
    fn blame(&self) -> Blame {
        match self {
            Self::Publication(_) | Self::NotEncrypted(_) => Blame::Usage,
            Self::Register(e) => e.blame(),
            Self::Engine(e) => e.blame(),
            Self::Library(e) => e.blame,
        }
    }
}

crate::failure::of_library!(ShareError: xylem_library::keys::KeyError, xylem_library::mail::MailStoreError, xylem_library::publish::PublishError, xylem_library::follow::GrowError, xylem_store::StoreError);

/// How to publish one file or directory.
#[derive(Clone, Debug)]
pub struct ShareOptions {
    /// The file or directory; it stays where it is.
    pub path: PathBuf,
    /// Object name (`/alice/model`); default: under the publisher's key id.
    pub name: Option<Name>,
    /// A 32-byte Ed25519 secret key file; default: the store's own identity, made on first use.
    pub key_file: Option<PathBuf>,
    /// Share nothing if a name in it cannot be kept on every system, instead of telling it.
    pub portable: bool,
    /// Where the encrypted link listens, over UDP or in carriers; empty: UDP on all interfaces, the
    /// usual port or a free one.
    pub listen: Vec<Peer>,
    /// PEM files with the certificate chain and the key that carriers over TLS show; `None`: a
    /// certificate made up for this run.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Also serve unencrypted NDN over UDP and TCP at these addresses.
    pub plain: Vec<SocketAddr>,
    /// NDN forwarders through which to serve as well: the name is registered with each.
    pub via: Vec<Peer>,
    /// What sizes and times on the encrypted link show.
    pub shaping: Shaping,
    /// The path is a file that grows; when its checkpoints are made.
    pub follow: Option<FollowOptions>,
    /// Where outboards and identities are kept.
    pub store: PathBuf,
}

/// Publishes one file or directory and serves it until `stop` is raised.
///
/// # Errors
/// See [`ShareError`].
pub fn share(
    options: &ShareOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), ShareError> {
    let mail = MailStore::open_existing(&options.store)?;
    while_delivering(mail.as_ref(), |events, ends| {
        share_with(options, stop, ends, events, on_event)
    })
}

/// As [`share`], without the mail that waits; ends when `ends` is raised, too, and passes on `events`.
pub(crate) fn share_with(
    options: &ShareOptions,
    stop: &Stop,
    ends: &Stop,
    events: &mpsc::Receiver<Event>,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), ShareError> {
    let store = Store::open(disk(), &options.store)?;
    let keys = options.store.join("keys");
    let publisher = match &options.key_file {
        Some(path) => keys::load_existing(path)?,
        None => keys::load_or_create(&keys.join("publisher"))?,
    };
    let publisher = PublisherKey::from_bytes(&publisher);
    let link_key = StaticKey::from_bytes(keys::load_or_create(&keys.join("link"))?);

    let name = |file_name: &[u8]| match &options.name {
        None => naming::default_name(&publisher.public(), file_name),
        Some(name) => name.clone(),
    };
    let content = match &options.follow {
        None => still(&store, options, &name, &publisher, stop, on_event)?,
        Some(follow) => {
            let path = &options.path;
            let grower = Grower::open(
                &store,
                path,
                follow,
                &Author { name: &name, key: &publisher },
                wall_clock(),
                stop,
                &mut from_library(on_event),
            )?;
            Content::Growing(Box::new(grower))
        }
    };
    let (prefix, manifest) = content.newest();

    let link_public = link_key.public();
    let link_config = xylem_link::Config { shaping: options.shaping.clone(), ..Default::default() };
    let endpoint = Endpoint::new(link_config, link_key, keys::random()?);
    let seed = Seed::from_random(keys::random()?);
    let mut engine = Engine::new(endpoint, Forwarder::new(end_host(), seed))?;
    if let Some(files) = &options.certificate {
        engine.set_certificate(certificate(files)?);
    }
    let listen = bind_links(&mut engine, &options.listen)?;
    let carriers = bind_carriers(&mut engine, &options.listen)?;
    let plain = bind_plain(&mut engine, &options.plain)?;
    engine.serve(prefix.as_ref().parent());

    let ticket = Ticket {
        name: prefix.clone(),
        root: manifest.root,
        size: manifest.size,
        kind: manifest.kind,
        publisher: publisher.public(),
        link_key: Some(link_public.0),
        addresses: advertised(&listen),
    };
    tracing::info!(root = %manifest.root, size = manifest.size, "sharing");
    record::keep_ticket(&store, &options.path, &ticket);
    on_event(Event::Shared {
        ticket: Box::new(ticket),
        name: prefix.clone(),
        root: manifest.root,
        bytes: manifest.total_size,
        files: manifest.file_count,
        listen,
        plain,
        carriers,
    });
    let registrar = Registrar::new(&mut engine, prefix.as_ref().parent().to_name(), &options.via)?;
    let mut server = Server {
        registrar,
        content,
        wanted_level: options.shaping.level,
        warned_of: HashSet::new(),
        peers: HashSet::new(),
        mail_server: MailServer::open(&options.store, None)?,
        announcers: Announcers::default(),
        answer: Vec::new(),
        ends,
        last_answers: None,
        events,
        on_event,
    };
    engine.run(&mut server, stop)?;
    engine.close();
    Ok(())
}

/// What is there now, hashed and signed.
fn still(
    store: &Store,
    options: &ShareOptions,
    name: &dyn Fn(&[u8]) -> Name,
    key: &PublisherKey,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Content, ShareError> {
    let (path, portable, now) = (canonical(&options.path)?, options.portable, wall_clock());
    let events = &mut from_library(on_event);
    let (published, prefix) = publish(store, &path, name, portable, now, stop, events)?;
    let packet = published.sign(&prefix, key)?;
    let publication = Publication::new(prefix, packet, &key.public())
        .map_err(ShareError::Publication)?
        .with_metadata(key);
    let serving = Box::new(published.serve(disk()));
    Ok(Content::Still { publication: Box::new(publication), serving })
}

pub(crate) fn bind_links(
    engine: &mut Engine,
    asked: &[Peer],
) -> Result<Vec<SocketAddr>, EngineError> {
    if !asked.is_empty() {
        let link = |peer: &Peer| match peer {
            Peer::Link { address, .. } => Some(*address),
            _ => None,
        };
        return (asked.iter().filter_map(link))
            .map(|a| engine.bind_link(a).map_err(EngineError::listen(a)))
            .collect();
    }
    let mut bind = |address: SocketAddr| match engine.bind_link(address) {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
            engine.bind_link(SocketAddr::new(address.ip(), 0))
        }
        other => other,
    };
    let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, LINK_PORT));
    let first = bind(v4).map_err(EngineError::listen(v4))?;
    // A machine without IPv6 serves over IPv4 alone.
    let second = bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, first.port())));
    Ok([Some(first), second.ok()].into_iter().flatten().collect())
}

/// Face URIs of the carriers among `asked`, once they are bound.
fn bind_carriers(engine: &mut Engine, asked: &[Peer]) -> Result<Vec<FaceAddress>, ShareError> {
    let carried = |peer: &&Peer| !matches!(peer, Peer::Link { .. });
    asked
        .iter()
        .filter(carried)
        .map(|peer| match peer {
            Peer::Carried { address, .. } => {
                Ok(engine.listen(peer).map_err(EngineError::listen(*address))?)
            }
            other => Err(ShareError::NotEncrypted(other.into())),
        })
        .collect()
}

/// Each address serves plain NDN over UDP and over TCP, on the same port.
fn bind_plain(engine: &mut Engine, asked: &[SocketAddr]) -> Result<Vec<SocketAddr>, EngineError> {
    let mut bound = Vec::new();
    for &address in asked {
        let tcp = engine.bind_tcp(address).map_err(EngineError::listen(address))?;
        engine.bind_udp(tcp).map_err(EngineError::listen(tcp))?;
        bound.push(tcp);
    }
    Ok(bound)
}

/// What is shared.
enum Content {
    /// A file or directory as it was.
    Still { publication: Box<Publication>, serving: Box<Serving> },
    /// A file that grows.
    Growing(Box<Grower>),
}

impl Content {
    /// P and manifest of what is there now.
    fn newest(&self) -> (Name, Manifest) {
        let publication = self.publication();
        (publication.prefix().to_name(), publication.manifest().clone())
    }

    fn publication(&self) -> &Publication {
        match self {
            Self::Still { publication, .. } => publication,
            Self::Growing(grower) => grower.newest(),
        }
    }

    fn poll_timeout(&self) -> Option<Duration> {
        match self {
            Self::Still { .. } => None,
            Self::Growing(grower) => grower.poll_timeout(),
        }
    }

    /// Whether a share that was asked to end has nothing left to do.
    fn may_end(&mut self, now: Duration, peers: usize) -> bool {
        match self {
            Self::Still { .. } => true,
            Self::Growing(grower) => grower.may_end(now, peers),
        }
    }
}

/// What a share runs.
struct Server<'a> {
    registrar: Registrar,
    content: Content,
    /// The shaping level that links are to have.
    wanted_level: Level,
    /// Files that can't be read; one warning of each is enough.
    warned_of: HashSet<PathBuf>,
    /// Faces that are up.
    peers: HashSet<FaceId>,
    /// Takes mail.
    mail_server: MailServer,
    /// Peers that have told where they serve what they fetched of this.
    announcers: Announcers,
    /// The answer in hand; kept for its allocation.
    answer: Vec<u8>,
    /// Raised when what is shared has been fetched.
    ends: &'a Stop,
    /// Until when the last answers may leave, once it has been.
    last_answers: Option<Duration>,
    /// What happens where mail is delivered meanwhile.
    events: &'a mpsc::Receiver<Event>,
    on_event: &'a mut dyn FnMut(Event),
}

impl Program for Server<'_> {
    type Error = ShareError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), ShareError> {
        match event {
            EngineEvent::Packet { from, packet, nack: None, .. } => {
                self.handle_packet(engine, from, &packet);
            }
            // Only commands to forwarders are sent from here.
            EngineEvent::Packet { packet, .. } => {
                if let Ok(interest) = Interest::decode(&packet) {
                    self.registrar.refused(engine.now(), &interest, self.on_event);
                }
            }
            EngineEvent::FaceUp { face, peer } => {
                self.registrar.came_up(engine, face)?;
                self.peers.insert(face);
                (self.on_event)(Event::PeerConnected { peer: peer.clone() });
                shaping::report(engine, face, self.wanted_level, &peer, self.on_event);
            }
            EngineEvent::Stream { face, stream, what } => {
                self.mail_server.handle(engine, face, stream, what, self.on_event);
            }
            EngineEvent::FaceDown { face, peer, why, .. } => {
                self.registrar.went_down(face);
                self.peers.remove(&face);
                self.mail_server.face_down(face);
                self.announcers.went_down(face);
                (self.on_event)(Event::PeerGone { peer, why });
            }
        }
        Ok(())
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) -> Result<(), ShareError> {
        self.registrar.handle_timeout(engine, self.on_event)?;
        if let Content::Growing(grower) = &mut self.content
            && let Some(pointer) =
                grower.poll(now, wall_clock(), &mut from_library(self.on_event))?
        {
            engine.send(&pointer);
        }
        self.events.try_iter().for_each(&mut *self.on_event);
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        if stopped && self.content.may_end(engine.now(), self.peers.len()) {
            return true;
        }
        if !self.ends.raised() {
            return false;
        }
        // What ended it came over a stream, whose last answer still has to leave.
        let until = *self.last_answers.get_or_insert(engine.now() + LAST_ANSWERS);
        self.mail_server.is_empty() || engine.now() >= until
    }

    fn poll_timeout(&mut self, _now: Duration) -> Option<Duration> {
        let timers = [self.registrar.poll_timeout(), self.content.poll_timeout()];
        timers.into_iter().flatten().min()
    }
}

impl Server<'_> {
    fn handle_packet(&mut self, engine: &mut Engine, from: FaceId, packet: &[u8]) {
        let interest = match Packet::decode(packet) {
            Ok(Packet::Interest(interest)) => interest,
            Ok(Packet::Data(data)) => {
                return self.registrar.answered(engine.now(), &data, self.on_event);
            }
            _ => return,
        };
        self.answer.clear();
        let answer = match &mut self.content {
            Content::Still { publication, serving } => {
                publication.answer(&interest, &mut **serving, &mut self.answer)
            }
            Content::Growing(grower) => grower.answer(engine.now(), &interest, &mut self.answer),
        };
        match answer {
            Ok(Answer::Data) => engine.send(&self.answer),
            Ok(_) => {
                let prefix = self.content.publication().prefix();
                if let Some(hints) = self.announcers.answer(engine, from, prefix, &interest) {
                    engine.send(&hints);
                }
            }
            Err(e) => {
                if self.warned_of.insert(e.path().to_path_buf()) {
                    let why = SkipReason::Unreadable(advised(&e));
                    let path = e.path().to_path_buf();
                    (self.on_event)(Event::Library(LibraryEvent::Skipped { path, why }));
                }
            }
        }
    }
}
