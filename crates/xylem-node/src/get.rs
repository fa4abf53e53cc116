//! [`get`]: fetches what a ticket names, verifies it, and puts it in its place.

mod private;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::shaping::LinkOptions;
use xylem_base::{Blame, Failure, Stop, canonical, disk};
use xylem_files::held::Holdings;
use xylem_files::signed::{self, SignedPublication};
use xylem_files::{Existing, FetchMode, LibraryEvent, SaveOptions, record};
use xylem_object::{Manifest, PublicationKind, Ticket};
use xylem_peers::reachable::{PeerAddress, Relay};
use xylem_publish::served::ServedMeter;
use xylem_publish::{onward, root_as, root_of};
use xylem_sink::follow::begins_with;
use xylem_sink::{Context, Destination, GetSummary, SaveError, Sink, Tally, restore_attributes};
use xylem_store::{FileKind, FileRef, Meta, OpenHow, Store};
use xylem_tree::TreeKind;

use crate::discovery::AnnounceOptions;
use crate::event::{Event, from_library};
use crate::fetch::{Fetch, FetchError, FetchNext, FetchView};
use crate::follow::newest;
use crate::meeting::CodeDht;
use crate::peers::{HostOffer, Swarm};
use xylem_engine::wall_clock;

/// Why [`get`] ends early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GetError {
    /// The final name belongs to something else.
    #[error("{} exists and is something else; choose --overwrite, --rename or -o PATH", .0.display())]
    Taken(PathBuf),
    /// For a file that grows: the file in its place begins with what the ticket names but continues differently.
    #[error(
        "{} begins with the ticket's checkpoint and is longer than the newest one: it is not truncated; choose \
         --rename or -o PATH",
        .0.display()
    )]
    Longer(PathBuf),
    /// For a file that grows: the file in its place is not the newest checkpoint.
    #[error(
        "{} exists and is not the newest checkpoint; --follow continues it, --overwrite replaces it, --rename or \
         -o PATH takes another name",
        .0.display()
    )]
    NotNewest(PathBuf),
    /// The sharer's files were changed or removed. All other files are in their places.
    #[error("{}", lost_files(path, files))]
    Lost {
        /// The directory.
        path: PathBuf,
        /// Paths of the missing files below it.
        files: Vec<PathBuf>,
    },
    /// Failures of peers.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] xylem_base::NoRandomness),
    /// A key of the store cannot be read or made.
    #[error(transparent)]
    Key(#[from] xylem_keys::KeyFileError),
    /// Files cannot be published.
    #[error(transparent)]
    Publish(#[from] xylem_publish::PublishError),
    /// It is encrypted, and cannot be decrypted with the keys of this store.
    #[error(transparent)]
    Unseal(#[from] xylem_sink::sealed::UnsealError),
    /// The result cannot be written.
    #[error(transparent)]
    Save(#[from] xylem_sink::SaveError),
    /// The store fails.
    #[error("{}", xylem_base::advised(.0))]
    Store(#[from] xylem_store::StoreError),
}

impl Failure for GetError {
    fn blame(&self) -> Blame {
        match self {
            Self::Taken(_) | Self::Longer(_) | Self::NotNewest(_) => Blame::Usage,
            Self::Lost { .. } => Blame::Data,
            Self::Fetch(e) => e.blame(),
            Self::Randomness(e) => e.blame(),
            Self::Key(e) => e.blame(),
            Self::Publish(e) => e.blame(),
            Self::Unseal(e) => e.blame(),
            Self::Save(e) => e.blame(),
            Self::Store(e) => xylem_base::blame_of(e),
        }
    }
}

/// Most missing files that a message lists.
const MAX_NAMED: usize = 20;

fn lost_files(path: &Path, files: &[PathBuf]) -> String {
    let named: Vec<String> =
        files.iter().take(MAX_NAMED).map(|file| file.display().to_string()).collect();
    let more = match files.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{}: cannot fetch {}{more}: changed or removed at the sharer since it was shared; all other files are in \
         place and no local file was removed; ask for a new ticket, then `xylem get --overwrite` fetches only what \
         is new",
        path.display(),
        named.join(", ")
    )
}

/// How to fetch one ticket.
#[derive(Clone, Debug)]
pub struct GetOptions {
    /// The ticket.
    pub ticket: Ticket,
    /// How to save the result.
    pub save: SaveOptions,
    /// Peers to ask instead of the ticket's addresses; if empty, the ticket's.
    pub from: Vec<PeerAddress>,
    /// Further relays, besides the ticket's, at which to look for a sharer and to be reached while serving.
    pub relays: Vec<Relay>,
    /// Bytes per second at most.
    pub limit_rate: Option<u64>,
    /// Whether to yield to all other traffic (LEDBAT++): `--low-priority` of the command.
    pub background: bool,
    /// Options of encrypted links.
    pub links: LinkOptions,
    /// Also query in the clear which peer answers: see [`xylem_link::LinkConfig::ask_who_answers`].
    pub ask_who_answers: bool,
    /// Give up after this long without any verified progress.
    pub give_up: Duration,
    /// Whether to keep asking for a sharer that its relays report absent, until `give_up`.
    pub wait: bool,
    /// Where outboards of partial fetches are kept.
    pub store: PathBuf,
    /// Whether all data and names are flushed to the device before the fetch counts as complete.
    pub fsync: bool,
    /// Whether to search the LAN while no peer answers at the ticket's addresses.
    pub lan: bool,
    /// How to search the DHT when no peer answers at the ticket's addresses and relays; `None`: it is not searched.
    pub dht: Option<CodeDht>,
    /// Whether to save encrypted content as published, without decrypting it.
    pub ciphertext: bool,
    /// Whether to serve other peers meanwhile. Not done for ranges and standard output.
    pub serve: Option<ServeOptions>,
}

impl GetOptions {
    /// Defaults: asks all peers that the ticket names, does not search the LAN, serves no peers.
    pub fn new(ticket: Ticket, save: SaveOptions, store: PathBuf) -> Self {
        Self {
            ticket,
            save,
            store,
            from: Vec::new(),
            relays: Vec::new(),
            limit_rate: None,
            background: false,
            links: LinkOptions::default(),
            ask_who_answers: false,
            give_up: Duration::from_secs(30),
            wait: false,
            fsync: false,
            lan: false,
            dht: None,
            ciphertext: false,
            serve: None,
        }
    }
}

/// How a fetch serves verified content to other peers.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// UDP addresses for encrypted links. Empty: all interfaces, at a free port.
    pub listen: Vec<SocketAddr>,
    /// Whether to go on serving after the fetch, until asked to stop.
    pub seed: bool,
    /// Whether to answer peers that dial without a key or a ticket.
    pub accept_open: bool,
    /// How to announce a seed to peers that have no address of it.
    pub beside: AnnounceOptions,
    /// Shows other threads what was served so far.
    pub meter: ServedMeter,
}

/// Fetches one ticket.
///
/// # Errors
/// See [`GetError`]. All verified content is kept in every case.
pub fn get(
    options: &GetOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<GetSummary, GetError> {
    let started = Instant::now();
    let ticket = &options.ticket;
    let store = Store::open(disk(), &options.store)?;
    let store = if options.fsync { store.durable() } else { store };
    // For a complete result no peer is needed: the store keeps its signed manifest.
    let kept = signed::find(&store, &ticket.root, &ticket.publisher, ticket.name.as_ref());
    let is_private = |manifest: &Manifest| manifest.sealed && !options.ciphertext;
    let grows = |manifest: &Manifest| manifest.growing.is_some_and(|growing| !growing.last);
    let is_asked_for = |manifest: &Manifest| is_private(manifest) || grows(manifest);
    let kept = kept.filter(|signed| !is_asked_for(&signed.manifest));
    if let Some(signed) = &kept
        && let Some(path) = taken(&options.save, &signed.manifest)?
    {
        on_event(found(&signed.manifest));
        return already_there(
            signed.clone(),
            &path,
            options,
            &store,
            FileInPlace::Unread,
            stop,
            on_event,
        );
    }
    if let Some(signed) = &kept
        && let Some(path) = right_file(&options.save, &signed.manifest, &store, stop, on_event)?
    {
        on_event(found(&signed.manifest));
        return right_already(signed.clone(), &path, options, &store, stop, on_event);
    }
    let mut fetch = start(options)?;
    if let Some(signed) = kept.filter(|signed| merges(&options.save, &signed.manifest)) {
        fetch.offer_whole(&signed)?;
    }
    let manifest = fetch.manifest_of_any_tree(stop, on_event)?;
    let other_tree = manifest.tree != TreeKind::Blake3;
    let seeds = options.serve.as_ref().is_some_and(|serve| serve.seed);
    if other_tree && (manifest.sealed || manifest.kind == PublicationKind::Directory || seeds) {
        return Err(FetchError::OtherTree.into());
    }
    if is_private(&manifest) && options.save.doing == FetchMode::DryRun {
        return Err(SaveError::NoDryRun("what is shared with --for").into());
    }
    if is_private(&manifest) {
        return private::get(fetch, manifest, options, &store, stop, on_event);
    }
    let named = manifest.clone();
    let manifest = newest(&mut fetch, ticket.publisher, &options.store, manifest, stop, on_event)?;
    on_event(found(&manifest));
    if let Some(summary) = has_more(&named, &manifest, options, &store, on_event)? {
        fetch.leave(stop, on_event);
        return Ok(summary);
    }
    if let Some(path) = taken(&options.save, &manifest)? {
        if other_tree {
            return Err(GetError::Taken(path));
        }
        let signed = signed(&fetch, manifest, ticket);
        fetch.leave(stop, on_event);
        return already_there(signed, &path, options, &store, FileInPlace::Unread, stop, on_event);
    }
    let mut summary = fetch_ticket(&mut fetch, manifest, options, &store, stop, on_event)?;
    summary.elapsed = started.elapsed();
    if summary.fetched > 0 && options.save.range.is_none() {
        fetch.report_fetched(summary.fetched);
    }
    tracing::info!(root = %summary.root, fetched = summary.fetched, elapsed = ?summary.elapsed, "fetched");
    if options.serve.as_ref().is_some_and(|serve| serve.seed) {
        seed(&mut fetch, &mut summary, stop, on_event)?;
    }
    fetch.leave(stop, on_event);
    Ok(summary)
}

/// Leaves a growing file alone that begins with the newest known checkpoint and is longer. It is never cut back to an
/// older state, whichever side is behind.
fn has_more(
    named: &Manifest,
    newest: &Manifest,
    options: &GetOptions,
    store: &Store,
    on_event: &mut dyn FnMut(Event),
) -> Result<Option<GetSummary>, GetError> {
    let SaveOptions { existing, range, .. } = &options.save;
    if newest.growing.is_none() || range.is_some() || *existing == Existing::Rename {
        return Ok(None);
    }
    let Some(to) = Destination::choose(&options.save, newest)? else { return Ok(None) };
    let path = to.path;
    let there = store.medium().metadata(&path).ok();
    let there = there.filter(|meta| meta.kind == FileKind::File && meta.size > newest.size);
    let Some(there) = there else { return Ok(None) };
    let file = FileRef::open(&**store.medium(), &path, OpenHow::Read)?;
    if begins_with(&file, newest.size, &newest.root)? {
        let more = there.size - newest.size;
        let what = format!(
            "{} begins with the newest known checkpoint and has {more} bytes more: it is left as it is",
            path.display()
        );
        on_event(Event::warning(what));
        return Ok(Some(GetSummary {
            path: Some(path),
            bytes: newest.size,
            files: 1,
            resumed: newest.size,
            already_complete: true,
            ..GetSummary::new(newest.root)
        }));
    }
    if named.size > 0 && begins_with(&file, named.size, &named.root)? {
        return Err(GetError::Longer(path));
    }
    Ok(None)
}

fn signed(fetch: &Fetch, manifest: Manifest, ticket: &Ticket) -> SignedPublication {
    let (prefix, packet) = (fetch.name(), fetch.manifest_packet().to_vec());
    SignedPublication { prefix, packet, manifest, publisher: ticket.publisher }
}

/// A fetch that has dialled.
pub(crate) fn start(options: &GetOptions) -> Result<Fetch, FetchError> {
    let GetOptions { ticket, from, relays, give_up, limit_rate, links, .. } = options;
    let asks = options.ask_who_answers;
    let fetch = Fetch::through(ticket, from, relays, *give_up, *limit_rate, links, asks)?;
    let fetch = fetch.waiting(options.wait);
    let fetch = if options.background { fetch.in_background() } else { fetch };
    let fetch = fetch.asking_the_dht(ticket, options.dht.as_ref());
    Ok(if options.lan { fetch.asking_the_lan(ticket) } else { fetch })
}

/// The final path, if something is there that must not be replaced.
fn taken(save: &SaveOptions, manifest: &Manifest) -> Result<Option<PathBuf>, SaveError> {
    if save.existing != Existing::Refuse {
        return Ok(None);
    }
    let to = Destination::choose(save, manifest)?;
    Ok(to.map(|to| to.path).filter(|path| disk().metadata(path).is_ok()))
}

/// The file that `--overwrite` would replace, if its content is what the manifest names already.
fn right_file(
    save: &SaveOptions,
    manifest: &Manifest,
    store: &Store,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Option<PathBuf>, GetError> {
    let is_file = manifest.kind == PublicationKind::File && manifest.tree == TreeKind::Blake3;
    if save.existing != Existing::Overwrite || save.range.is_some() || !is_file {
        return Ok(None);
    }
    let Some(to) = Destination::choose(save, manifest)? else { return Ok(None) };
    let there = store.medium().metadata(&to.path).ok();
    // Other names of a file are not changed with it: then a new file takes the place of this one.
    let same_size =
        |meta: &Meta| meta.kind == FileKind::File && meta.size == manifest.size && meta.links == 1;
    if !there.is_some_and(|meta| same_size(&meta)) {
        return Ok(None);
    }
    // A file that can't be read is replaced as ever.
    let is = root_of(&**store.medium(), &to.path, stop, &mut from_library(on_event));
    if stop.raised() {
        return Err(FetchError::Interrupted.into());
    }
    Ok(is.is_ok_and(|is| is == manifest.root).then_some(to.path))
}

/// The file has its content; it gets its mode and time.
fn right_already(
    signed: SignedPublication,
    path: &Path,
    options: &GetOptions,
    store: &Store,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<GetSummary, GetError> {
    if options.save.doing == FetchMode::DryRun {
        on_event(Event::Library(LibraryEvent::DryRun {
            files: 0,
            bytes: 0,
            replaced: 0,
            removed: 0,
        }));
        return Ok(GetSummary::new(signed.manifest.root));
    }
    for what in restore_attributes(store, path, &signed.manifest)? {
        on_event(Event::warning(what));
    }
    already_there(signed, path, options, store, FileInPlace::Compared, stop, on_event)
}

/// Whether a fetch compares a directory that may be complete already with its listing.
fn merges(save: &SaveOptions, manifest: &Manifest) -> bool {
    save.existing == Existing::Overwrite
        && save.range.is_none()
        && manifest.kind == PublicationKind::Directory
        && manifest.growing.is_none()
}

fn fetch_ticket(
    fetch: &mut Fetch,
    manifest: Manifest,
    options: &GetOptions,
    store: &Store,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<GetSummary, GetError> {
    let ticket = &fetch.completed(&options.ticket, &manifest);
    let destination = Destination::choose(&options.save, &manifest)?;
    let other_tree = manifest.tree != TreeKind::Blake3;
    let dry = options.save.doing == FetchMode::DryRun;
    let on_disk = destination.is_some() && options.save.range.is_none() && !other_tree && !dry;
    let mut sink = xylem_sink::make(&options.save, &manifest, destination, store)?;
    if on_disk {
        let signed = signed(fetch, manifest.clone(), ticket);
        join(fetch, options, &signed, Holdings::default(), on_event)?;
    } else {
        fetch.join(fetch.name(), ticket, None, false, on_event)?;
    }
    let mut tally = Tally::default();
    let outcome = fill(fetch, &mut *sink, &mut tally, stop, on_event);
    if outcome.is_err() {
        deliver_proven_nodes(fetch, &mut *sink, &mut tally);
    }
    let lost = match &outcome {
        // Encrypted content is of use only as a whole.
        Err(GetError::Fetch(FetchError::Gone(_))) if !manifest.sealed => {
            complete_without_lost_files(fetch, &mut *sink, &mut tally, on_event)?
        }
        Ok(()) => sink.left(),
        Err(_) => Vec::new(),
    };
    if lost.is_empty() {
        outcome?;
    }
    let path = sink.finish()?;
    let holdings = fetch.swarm().as_ref().and_then(Swarm::holdings);
    if let (Some(holdings), Some(path)) = (holdings, &path) {
        holdings.moved(path);
    }
    sink.warnings().into_iter().for_each(|what| on_event(Event::warning(what)));
    if let (Some(path), false) = (&path, lost.is_empty()) {
        return Err(GetError::Lost { path: path.clone(), files: lost });
    }
    let mut there = None;
    if options.save.only.is_none() && (!manifest.sealed || options.ciphertext) && !other_tree {
        there = record::keep_fetched(
            store,
            &options.save,
            ticket,
            record::FetchedManifest { manifest: &manifest, packet: fetch.manifest_packet() },
            path.as_deref(),
            wall_clock(),
            &mut from_library(on_event),
        );
    }
    let root = match &path {
        // The root that `xylem sum` prints; the file was verified by a root of another tree.
        Some(path) if other_tree => {
            root_of(&**store.medium(), path, stop, &mut from_library(on_event))?
        }
        _ => there.unwrap_or(manifest.root),
    };
    Ok(GetSummary {
        path,
        bytes: tally.total,
        files: tally.files,
        fetched: tally.fetched,
        resumed: tally.resumed,
        reused: tally.reused,
        peers: fetch.bytes_by_peer(),
        served: fetch.swarm().as_ref().map_or(0, Swarm::served),
        ways: fetch.ways(),
        ..GetSummary::new(root)
    })
}

/// Serves the fetched content if requested, and finds other peers that have it.
fn join(
    fetch: &mut Fetch,
    options: &GetOptions,
    signed: &SignedPublication,
    holdings: Holdings,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), GetError> {
    let identity = match &options.serve {
        Some(serve) if serve.seed => {
            Some(xylem_keys::load_or_create(&options.store.join("keys").join("link"))?)
        }
        _ => None,
    };
    let offer = options.serve.as_ref().map(|serve| HostOffer {
        listen: serve.listen.clone(),
        identity,
        links: options.links.clone(),
        relays: options.relays.clone(),
        accept_open: serve.accept_open,
        beside: serve.beside.clone(),
        store: options.store.clone(),
        beneath: options.save.output.directory().unwrap_or(Path::new(".")).to_path_buf(),
        name: signed.prefix.clone(),
        publisher: signed.publisher,
        manifest: signed.packet.clone(),
        holdings,
        meter: serve.meter.clone(),
    });
    let serve = options.serve.as_ref();
    let at_once = serve.is_some_and(|serve| serve.seed || !serve.listen.is_empty());
    Ok(fetch.join(signed.prefix.clone(), &options.ticket, offer, at_once, on_event)?)
}

/// Goes on serving a complete fetch until asked to stop.
fn seed(
    fetch: &mut Fetch,
    summary: &mut GetSummary,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), GetError> {
    let Some(swarm) = fetch.swarm() else { return Ok(()) };
    if swarm.holdings().is_none() {
        return Ok(());
    }
    swarm.stop_finding();
    on_event(Event::Seeding(Box::new(summary.clone())));
    // Only the stop flag ends it, and that is a success.
    fetch.run_until(&Stop::new(), on_event, |_| match stop.raised() {
        true => Ok(FetchNext::Done),
        false => Ok(FetchNext::Wait(None)),
    })?;
    summary.served = fetch.swarm().as_ref().map_or(0, Swarm::served);
    Ok(())
}

/// Fetches everything that the sink wants.
fn fill(
    fetch: &mut Fetch,
    sink: &mut dyn Sink,
    tally: &mut Tally,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), GetError> {
    let mut begun = false;
    fetch.run_until(stop, on_event, |look| {
        if !std::mem::replace(&mut begun, true) {
            with_context(look, tally, |cx| sink.begin(cx))?;
        }
        while let Some(event) = look.next_event()? {
            with_context(look, tally, |cx| xylem_sink::deliver(sink, event, cx))?;
        }
        let refused = look.take_refused();
        if !refused.is_empty() {
            with_context(look, tally, |cx| sink.refused(&refused, cx));
        }
        let again = with_context(look, tally, |cx| sink.poll(cx))?;
        if sink.is_done() {
            return Ok(FetchNext::Done);
        }
        look.report(tally);
        Ok(FetchNext::Wait(again))
    })?;
    Ok(())
}

fn with_context<T>(
    look: &mut FetchView<'_>,
    tally: &mut Tally,
    work: impl FnOnce(&mut Context<'_>) -> T,
) -> T {
    let (transfer, holdings, on_event, now) = look.parts();
    work(&mut Context { transfer, tally, on_event: &mut from_library(on_event), now, holdings })
}

/// Some files have changed at every sharer. Completes the result without them and returns their paths.
fn complete_without_lost_files(
    fetch: &mut Fetch,
    sink: &mut dyn Sink,
    tally: &mut Tally,
    on_event: &mut dyn FnMut(Event),
) -> Result<Vec<PathBuf>, GetError> {
    let refused = fetch.refused();
    let ended =
        fetch.look(on_event, |look| with_context(look, tally, |cx| sink.end_without(&refused, cx)));
    Ok(ended?)
}

/// After a failure, passes proven but not yet delivered nodes to the sink as well. An error here costs no more than a
/// kill would.
fn deliver_proven_nodes(fetch: &mut Fetch, sink: &mut dyn Sink, tally: &mut Tally) {
    fetch.look(&mut |_| {}, |look| {
        look.transfer().flush_nodes();
        while let Some(event) = look.transfer().poll_event() {
            if with_context(look, tally, |cx| xylem_sink::deliver(sink, event, cx)).is_err() {
                break;
            }
        }
    });
    fetch.close();
}

/// What is known of the content under the final name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileInPlace {
    /// It is what the ticket names.
    Compared,
    /// Nothing: it was not read.
    Unread,
}

/// The final name is taken. Succeeds if the content in place is what the ticket names.
fn already_there(
    signed: SignedPublication,
    path: &Path,
    options: &GetOptions,
    store: &Store,
    in_place: FileInPlace,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<GetSummary, GetError> {
    let grows = signed.manifest.growing.is_some();
    let taken = || match grows {
        true => GetError::NotNewest(path.to_path_buf()),
        false => GetError::Taken(path.to_path_buf()),
    };
    if options.save.range.is_some() {
        return Err(taken());
    }
    let (canonical, root) = (canonical(path)?, signed.manifest.root);
    let mut summary = GetSummary {
        path: Some(path.to_path_buf()),
        bytes: signed.manifest.total_size,
        files: signed.manifest.file_count,
        resumed: signed.manifest.total_size,
        already_complete: true,
        ..GetSummary::new(root)
    };
    if !options.serve.as_ref().is_some_and(|serve| serve.seed) {
        if in_place == FileInPlace::Compared {
            return Ok(summary);
        }
        let found = root_as(store, &canonical, &root, stop, &mut from_library(on_event))?;
        return if found == root { Ok(summary) } else { Err(taken()) };
    }
    let whole = onward(store, &canonical, signed, None, stop, &mut from_library(on_event))?;
    let whole = whole.ok_or_else(taken)?;
    signed::keep(store, &root, &whole.signed().packet)?;
    // A publisher that is still up reports us to other getters.
    let mut fetch = start(options)?;
    join(&mut fetch, options, whole.signed(), whole.holdings().clone(), on_event)?;
    seed(&mut fetch, &mut summary, stop, on_event)?;
    fetch.leave(stop, on_event);
    Ok(summary)
}

fn found(manifest: &Manifest) -> Event {
    Event::Found {
        name: String::from_utf8_lossy(&manifest.file_name).into_owned(),
        directory: manifest.kind == PublicationKind::Directory,
        root: manifest.root,
        bytes: manifest.total_size,
        files: manifest.file_count,
    }
}
