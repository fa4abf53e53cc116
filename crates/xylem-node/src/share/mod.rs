//! [`share`]: publishes paths and answers Interests for them until asked to stop.

mod getters;
mod listed;
mod mesh;
mod reach;
mod server;
mod service;
mod streams;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::relay_list::RelayList;
use crate::shaping::LinkOptions;
use xylem_base::{Blame, Failure, FileMedium, Stop};
use xylem_files::record;
use xylem_files::walk::Selection;
use xylem_forward::{Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_keys::{CertifiedKey, Keyring};
use xylem_link::{Endpoint, MAX_KNOCKS, StaticKey};
use xylem_mailbox::MailStore;
use xylem_object::find::{self, VOUCH_LEN, Vouch};
use xylem_object::ticket::{Address, RelayContact};
use xylem_object::{PublisherId, PublisherKey, Ticket};
use xylem_object::{naming, pass};
use xylem_packet::Name;
use xylem_peers::admission::Prove;
use xylem_peers::reachable::{FaceAddress, PeerAddress, Relay};
use xylem_publish::follow::FollowOptions;
use xylem_publish::publications::ServedContent;
use xylem_publish::registry::Registry;
use xylem_publish::{OpeningOptions, Recipients, Sealing};
use xylem_store::Store;

use crate::addresses::of_tickets;
use crate::code::{CodeDht, ShowOptions};
use crate::discovery::{AnnounceOptions, DhtStart};
use crate::event::{Event, from_library};
use crate::mail::while_delivering;
use crate::reaching::announce_own_addresses;
pub use reach::BY_DHT;
use server::ShareServer;
pub use service::{OneShare, ServiceHandle, ServiceSnapshot, serve, serve_group};
use xylem_app::{RegisterError, Registrar};
use xylem_engine::wall_clock;
use xylem_engine::{Engine, FaceLimits, bind_carriers, bind_links, bind_plain, bind_sites};
use xylem_engine::{EngineError, certificate};
use xylem_sockets::{Site, SitePage};

/// Longest wait of a ticket for the router's answer. A router with PCP or NAT-PMP needs milliseconds.
const MAPPED_WITHIN: Duration = Duration::from_millis(100);

/// Why [`share`] ends early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The service has ended meanwhile.
    #[error("the service has ended")]
    Ended,
    /// The links cannot answer peers that dial by this publisher.
    #[error(
        "{path}: too many publishers are shared here (at most {MAX_KNOCKS}): share it in a separate process, or \
         end all shares of another publisher"
    )]
    TooManyPublishers {
        /// The path that was to be shared.
        path: PathBuf,
    },
    /// A prefix is too long for a registration command.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// Failures of sockets.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Co-signatures cannot be kept.
    #[error(transparent)]
    Cosigning(#[from] xylem_witness::CosigningError),
    /// The system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] xylem_base::NoRandomness),
    /// A key of the store cannot be read or made.
    #[error(transparent)]
    Key(#[from] xylem_keys::KeyFileError),
    /// The store of mail fails.
    #[error(transparent)]
    MailStore(#[from] xylem_mailbox::MailStoreError),
    /// Files cannot be published.
    #[error(transparent)]
    Publish(#[from] xylem_publish::PublishError),
    /// A growing file cannot be published.
    #[error(transparent)]
    Grow(#[from] xylem_publish::follow::GrowError),
    /// What is to be shared cannot be opened.
    #[error(transparent)]
    Opening(#[from] xylem_publish::OpeningError),
    /// The store fails.
    #[error("{}", xylem_base::advised(.0))]
    Store(#[from] xylem_store::StoreError),
}

impl Failure for ShareError {
    fn blame(&self) -> Blame {
        match self {
            Self::Ended => Blame::Interrupted,
            Self::TooManyPublishers { .. } => Blame::Usage,
            Self::Register(e) => e.blame(),
            Self::Engine(e) => e.blame(),
            Self::Cosigning(e) => e.blame(),
            Self::Randomness(e) => e.blame(),
            Self::Key(e) => e.blame(),
            Self::MailStore(e) => e.blame(),
            Self::Publish(e) => e.blame(),
            Self::Grow(e) => e.blame(),
            Self::Opening(e) => e.blame(),
            Self::Store(e) => xylem_base::blame_of(e),
        }
    }
}

/// How to publish files and directories. The default publishes nothing and has no store: the caller sets `paths` and
/// `store`. The other defaults suit most uses: this machine's own addresses, and no announcement.
#[derive(Clone, Debug, Default)]
pub struct ShareOptions {
    /// The files or directories, each a publication of its own. They stay in their places.
    pub paths: Vec<PathBuf>,
    /// Object name (`/alice/model`) of the one path. Default: a name under the publisher's key id.
    pub name: Option<Name>,
    /// A 32-byte Ed25519 secret key file; default: the store's own identity, made on first use.
    pub key_file: Option<PathBuf>,
    /// A key of the store's keyring to sign with instead, by its name or its owner's. Its certificate is served as
    /// well. Objects without a given name are named below the owner's name.
    pub identity: Option<String>,
    /// Which files of directories are shared.
    pub selection: Selection,
    /// Recipients of a private publication; the sharer can read it as well. `None`: it is not encrypted.
    pub recipients: Option<Recipients>,
    /// Where the encrypted link listens, over UDP or in carriers. Empty: UDP on all interfaces, at the usual port or a
    /// free one.
    pub listen: Vec<PeerAddress>,
    /// Addresses that tickets name first, by which this machine is reached from elsewhere.
    pub announce: Vec<Address>,
    /// Relays for peers that do not reach its addresses. Tickets name them.
    pub relays: Vec<Relay>,
    /// The list from which the relays are, if they are from one. It is read again while the share runs.
    pub relay_list: Option<RelayList>,
    /// PEM files of the certificate chain and the key for carriers over TLS. `None`: a certificate made for this run.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Also serve unencrypted NDN over UDP and TCP at these addresses.
    pub plain: Vec<SocketAddr>,
    /// Also serve `pages` to browsers at these addresses, and NDN over WebSocket to pages that have a ticket.
    pub web: Vec<SocketAddr>,
    /// Pages for browsers.
    pub pages: Vec<SitePage>,
    /// Peers over plain UDP that have to prove that they receive at their address.
    pub prove: Prove,
    /// NDN forwarders to serve through as well. The name is registered with each.
    pub via: Vec<PeerAddress>,
    /// Options of encrypted links.
    pub links: LinkOptions,
    /// Whether to answer peers that dial without a key or a ticket.
    pub accept_open: bool,
    /// When to make checkpoints, if each path is a growing file.
    pub follow: Option<FollowOptions>,
    /// How to announce the share to peers without its address.
    pub beside: AnnounceOptions,
    /// Whether to show a code for the ticket of the one path.
    pub code: bool,
    /// How the code is listed in the DHT, if no relay assigns a number.
    pub code_dht: Option<DhtStart>,
    /// Certificate files of witnesses. Their co-signatures are accepted, and handed to peers that ask.
    pub witnesses: Vec<PathBuf>,
    /// Directory of outboards and identities.
    pub store: PathBuf,
    /// Where the paths and the store are.
    pub medium: FileMedium,
}

/// Publishes files and directories and serves them until `stop` is raised.
///
/// # Errors
/// See [`ShareError`].
pub fn share(
    options: &ShareOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), ShareError> {
    let mail = MailStore::open_existing(&options.store)?;
    while_delivering(mail.as_ref(), &options.relays, |events, ends| {
        share_with(options, stop, ends, events, on_event)
    })
}

/// As [`share`], without delivery of mail. Also ends when `ends` is raised, and passes on `events`.
pub(crate) fn share_with(
    options: &ShareOptions,
    stop: &Stop,
    ends: &Stop,
    events: &mpsc::Receiver<Event>,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), ShareError> {
    let publisher = publisher_of(options)?;
    let mut contents = Vec::new();
    for path in &options.paths {
        contents.push(open(options, path, &publisher, stop, on_event)?);
    }
    // Reuse the port that an earlier ticket names, so that the ticket stays valid. Leave the background node's port
    // free: it could not start again while this runs.
    let store = Store::open(options.medium.shared(), &options.store)?;
    let of_node = Registry::load(&options.store)?.port;
    let known = |path: &PathBuf| record::port(&store, path).filter(|port| of_node != Some(*port));
    let port = options.paths.iter().find_map(known);
    let (mut engine, at) = bind(options, &contents, port, &publisher)?;
    let mut server = ShareServer::new(&mut engine, at, options, ends, events, on_event)?;
    let reachable = server.wait_for_router(MAPPED_WITHIN);
    server.register(&mut engine, &options.relays, options.code);
    for (path, content) in options.paths.iter().zip(contents) {
        let object = content.publication().prefix().parent().to_name();
        let (_, shared) = server.add(&mut engine, path, content, options.beside.lan)?;
        if let (true, Event::Shared { ticket, .. }) = (options.code, &shared) {
            let dht = options.code_dht.clone().map(|start| CodeDht::new(start, &options.store));
            let relay = options.relays.first().cloned();
            let how = ShowOptions { relay, lan: options.beside.lan, dht, names: Vec::new() };
            server.show_code(&mut engine, ticket, &how)?;
        }
        server.report(shared);
        if !server.registrars.iter().any(|registrar| *registrar.prefix() == object) {
            let key = publisher_of(options)?;
            server.registrars.push(Registrar::new(&mut engine, object, &options.via, key)?);
        }
    }
    if let Some(certified) = certified(options)? {
        engine.serve(certified.key_name.as_ref())?;
        let (name, key) = (certified.key_name, certified.key);
        server.certificate = certified.certificate;
        server.registrars.push(Registrar::new(&mut engine, name, &options.via, key)?);
    }
    server.report(reachable);
    engine.run(&mut server, stop)?;
    server.report_ends(engine.now());
    engine.close();
    Ok(())
}

/// The key that signs the publications.
fn publisher_of(options: &ShareOptions) -> Result<PublisherKey, ShareError> {
    if let Some(certified) = certified(options)? {
        return Ok(certified.key);
    }
    let secret = match &options.key_file {
        Some(path) => xylem_keys::load_existing(path)?,
        None => xylem_keys::load_or_create(&options.store.join("keys").join("publisher"))?,
    };
    Ok(PublisherKey::from_bytes(&secret))
}

/// The signing key of the keyring, if one was named.
fn certified(options: &ShareOptions) -> Result<Option<CertifiedKey>, ShareError> {
    let keyring = Keyring::at(&options.store);
    Ok(options.identity.as_ref().map(|which| keyring.publisher(which)).transpose()?)
}

/// Hashes and signs what is at `path`, and opens it for serving.
fn open(
    options: &ShareOptions,
    path: &Path,
    publisher: &PublisherKey,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<ServedContent, ShareError> {
    let store = Store::open(options.medium.shared(), &options.store)?;
    let owner = certified(options)?.map(|certified| certified.identity);
    let name = |file_name: &[u8]| match (&options.name, &owner) {
        (Some(name), _) => name.clone(),
        (None, owner) => {
            let name = naming::default_name(&publisher.public(), file_name);
            let below = owner.as_ref().zip(name.as_ref().last());
            below.map(|(owner, last)| owner.child(last)).unwrap_or(name)
        }
    };
    let link = xylem_keys::load_or_create(&options.store.join("keys").join("link"))?;
    let readers = options.recipients.clone().map(|mut recipients| {
        recipients.keys.push(StaticKey::from_bytes(link).public());
        recipients
    });
    let publisher_id = publisher.public();
    let sealing = readers.as_ref().map(|recipients| Sealing {
        secret: &link,
        publisher: publisher_id,
        recipients,
    });
    let how = OpeningOptions {
        selection: &options.selection,
        sealing,
        own: options.name.is_some() || options.key_file.is_some() || owner.is_some(),
        follow: options.follow.as_ref(),
        name: &name,
        key: publisher,
    };
    let events = &mut from_library(on_event);
    Ok(xylem_publish::open(&store, path, &how, wall_clock(), stop, events)?)
}

/// Days for which the publisher vouches for a share's link key. No share runs longer. The time is rounded to whole
/// days, so that it does not show when the share began.
const VOUCHED_DAYS: u64 = 400;
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// A share's addresses, keys and vouchers.
struct ShareEndpoint {
    publisher: PublisherId,
    link_key: [u8; 32],
    /// The publisher's voucher for the link key, for getters.
    vouch: Vouch,
    /// The same for relays.
    relay_vouch: [u8; VOUCH_LEN],
    /// Whether tickets include the name, as forwarders may be asked.
    named: bool,
    listen: Vec<SocketAddr>,
    announce: Vec<Address>,
    /// The address that the router forwards.
    mapped: Option<SocketAddr>,
    relays: Vec<RelayContact>,
    plain: Vec<SocketAddr>,
    web: Vec<SocketAddr>,
    carriers: Vec<FaceAddress>,
    store: Store,
}

/// Makes an engine with the requested sockets. `port` is tried first if no address was requested.
fn bind(
    options: &ShareOptions,
    contents: &[ServedContent],
    port: Option<u16>,
    publisher: &PublisherKey,
) -> Result<(Engine, ShareEndpoint), ShareError> {
    let store = Store::open(options.medium.shared(), &options.store)?;
    let link_key = StaticKey::from_bytes(xylem_keys::load_or_create(
        &options.store.join("keys").join("link"),
    )?);
    let link_public = link_key.public().0;
    let accept_open = options.accept_open;
    let link_config = xylem_link::LinkConfig { accept_open, ..options.links.config() };
    let endpoint = Endpoint::new(link_config, link_key, xylem_base::random()?);
    let seed = ForwarderSeed::from_random(xylem_base::random()?);
    let mut engine = Engine::new(endpoint, Forwarder::new(ForwarderConfig::end_host(), seed))?;
    engine.set_limits(FaceLimits { prove: options.prove, ..FaceLimits::default() });
    if let Some(files) = &options.certificate {
        engine.set_certificate(certificate(&files.0, &files.1)?);
    }
    let listen = bind_links(&mut engine, &options.listen, port)?;
    let carriers = bind_carriers(&mut engine, &options.listen)?;
    let plain = bind_plain(&mut engine, &options.plain)?;
    let mut site = Site::new(options.pages.clone());
    for content in contents {
        let publisher = content.signed_by().unwrap_or(publisher.public());
        site.add_pass(pass::from_root(&publisher, &content.newest().1.root));
    }
    let web = bind_sites(&mut engine, &options.web, &Arc::new(site))?;
    engine.serve(find::prefix().as_ref())?;
    let (announce, link_key) = (options.announce.clone(), link_public);
    let until_s = (wall_clock().milliseconds() / DAY_MS + VOUCHED_DAYS) * DAY_MS / 1_000;
    let vouch = publisher.vouch_until(&link_key, until_s);
    let (relay_vouch, publisher) = (publisher.vouch(&link_key), publisher.public());
    let given = options.name.is_some() || options.identity.is_some();
    let named = given || !(plain.is_empty() && web.is_empty()) || !options.via.is_empty();
    let relays = options.relays.iter().map(|relay| relay.at.clone()).collect();
    let at = ShareEndpoint {
        publisher,
        link_key,
        vouch,
        relay_vouch,
        named,
        listen,
        announce,
        mapped: None,
        relays,
        plain,
        web,
        carriers,
        store,
    };
    Ok((engine, at))
}

impl ShareEndpoint {
    /// Announces further addresses of this share to peers at relays.
    fn announce_own_addresses(&self, engine: &mut Engine) {
        let announced = self.announce.iter().filter_map(|address| match address {
            Address::Ip(address) => Some(*address),
            Address::Host(..) => None,
        });
        announce_own_addresses(engine, announced.chain(self.mapped));
    }

    /// Addresses that tickets name before those of this machine.
    fn announced(&self) -> Vec<Address> {
        let mapped = self.mapped.map(Address::Ip);
        self.announce.iter().cloned().chain(mapped).collect()
    }

    /// Records a publication that is served, and returns its event.
    fn shared(&self, path: &Path, content: &ServedContent, twin: bool) -> Event {
        let (prefix, manifest) = content.newest();
        let mut ticket = Ticket {
            publisher: content.signed_by().unwrap_or(self.publisher),
            root: manifest.root,
            name: Some(prefix.clone()),
            link_key: Some(self.link_key),
            size: Some(manifest.size),
            kind: Some(manifest.kind),
            addresses: of_tickets(&self.announced(), &self.listen).0,
            relays: self.relays.clone(),
        };
        tracing::info!(root = %manifest.root, size = manifest.size, "sharing");
        let port = self.listen.first().map(SocketAddr::port);
        // Repairs need the plaintext.
        let repairs = (!manifest.sealed).then_some(&ticket);
        record::keep_ticket(&self.store, path, repairs, port);
        // The first exchange supplies the rest. Only the name finds a growing file, as its root changes soon, and a
        // `twin`, as its root already has another name here.
        if !matches!(content, ServedContent::Growing(_)) && !twin {
            // The signer of fetched content does not vouch for our key, so the ticket has to name it.
            ticket.link_key = ticket.link_key.filter(|_| content.signed_by().is_some());
            ticket.name = ticket.name.filter(|_| self.named);
            ticket.size = None;
        }
        Event::Shared {
            ticket: Box::new(ticket),
            name: prefix,
            root: manifest.root,
            bytes: manifest.total_size,
            files: manifest.file_count,
            signed_by: content.signed_by(),
            listen: self.listen.clone(),
            plain: self.plain.clone(),
            web: self.web.clone(),
            carriers: self.carriers.clone(),
        }
    }
}
