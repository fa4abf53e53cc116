//! [`Download`]: the transfer of one ticket's content, its listing, and the kept data.

use core::ops::Range;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use xylem_object::{Manifest, ObjectId, PublicationKind, Ticket, fetched};
use xylem_packet::{InterestBuilder, Name, Packet, frame_len};
use xylem_transfer::{PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec, Urgency};
use xylem_tree::Geometry;

use crate::kept::{self, KeptData, KeptFile};
use crate::layout::{FileLayout, LayoutError, LayoutFile, MAX_LISTING};
use crate::runs::OpenRuns;
use crate::told::{self, DownloadError, PageReport};

/// Maximum number of unanswered Interests for one peer. Their answers stay below the buffer that a sharer has for a
/// slow reader (docs/spec/faces.md); more would be lost.
const MAX_WINDOW: u32 = 448;
/// Maximum number of peers.
const MAX_PEERS: usize = 16;
/// Maximum number of segments that wait for the nodes that prove them; each holds the message that it came in.
const MAX_HELD: usize = 512;
/// Without progress for this long the fetch fails, if a peer is connected; kept data serve the next try. Without a peer it
/// waits for one: what the page holds in memory alone would be lost with it.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Reasons for which a page cannot fetch a ticket's content.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Not a ticket.
    #[error(transparent)]
    Ticket(#[from] xylem_object::TicketError),
    /// The ticket lacks the name, which plain NDN needs.
    #[error("this ticket is for `xylem get`; a page needs one from `xylem share --web`")]
    NoName,
}

enum DownloadPhase {
    /// Waits for the manifest, or for a directory's listing.
    Opening {
        listing: Vec<u8>,
    },
    /// The page has received the layout, and reads back its kept data.
    Looking,
    /// Missing data are fetched.
    Fetching,
    /// What is wanted of opened files is fetched.
    Reading,
    Over,
}

/// One fetch. Call order: [`new`](Self::new), [`add_peer`](Self::add_peer). Whenever packets arrive or
/// [`poll_timeout`](Self::poll_timeout) is due: [`handle_message`](Self::handle_message) with each message, then
/// [`handle_timeout`](Self::handle_timeout), [`poll_report`](Self::poll_report) and [`poll_transmit`](Self::poll_transmit)
/// until `None`. After the layout was reported: [`recall`](Self::load_nodes), [`next_check`](Self::next_check) and
/// [`check`](Self::check) until `None`, then [`begin`](Self::begin). To read parts instead of fetching all of it, in place
/// of these: [`begin_reading`](Self::begin_reading), then [`open_file`](Self::open_file), [`want`](Self::want) and
/// [`close_file`](Self::close_file) as often as needed. A call in another order has no effect.
pub struct Download {
    transfer: Transfer,
    phase: DownloadPhase,
    manifest: Option<Manifest>,
    layout: FileLayout,
    kept: KeptData,
    found: HashMap<usize, KeptFile>,
    /// The first file that was not given to the transfer.
    next_file: usize,
    complete: usize,
    runs: OpenRuns,
    told: VecDeque<PageReport>,
    verified: u64,
    /// The part of `verified` that came from peers.
    fetched: u64,
    /// Connected peers.
    peers: Vec<u32>,
    name: Name,
    seed: u64,
    /// The notice that all of it is here, and the peers that have not received it yet.
    notice: (Vec<u8>, Vec<u32>),
}

impl Download {
    /// A fetch of a ticket's content that has sent no Interest yet.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn new(ticket: &str, seed: u64) -> Result<Self, StartError> {
        let ticket: Ticket = ticket.trim().parse()?;
        let prefix = ticket.name.ok_or(StartError::NoName)?;
        let name = prefix.clone();
        let spec = TransferSpec {
            prefix,
            publisher: ticket.publisher,
            root: Some(ticket.root),
            size: ticket.size,
        };
        let config = TransferConfig {
            max_window: MAX_WINDOW,
            max_peers: MAX_PEERS,
            max_held: MAX_HELD,
            give_up: GIVE_UP,
            ..TransferConfig::default()
        };
        let mut transfer = Transfer::new(spec, config, seed);
        transfer.set_paused(Duration::ZERO, true);
        Ok(Self {
            transfer,
            phase: DownloadPhase::Opening { listing: Vec::new() },
            manifest: None,
            layout: FileLayout::default(),
            kept: KeptData::default(),
            found: HashMap::new(),
            next_file: 0,
            complete: 0,
            runs: OpenRuns::default(),
            told: VecDeque::new(),
            verified: 0,
            fetched: 0,
            peers: Vec::new(),
            name,
            seed,
            notice: (Vec::new(), Vec::new()),
        })
    }

    /// Adds a peer; a number is used only once. False if there are too many.
    pub fn add_peer(&mut self, now: Duration, peer: u32) -> bool {
        let added = self.transfer.add_peer(now, PeerId(peer));
        if added {
            self.peers.push(peer);
            self.transfer.set_paused(now, false);
        }
        added
    }

    /// Removes a peer after its connection has ended.
    pub fn remove_peer(&mut self, now: Duration, peer: u32) {
        self.transfer.remove_peer(now, PeerId(peer));
        self.peers.retain(|known| *known != peer);
        self.notice.1.retain(|known| *known != peer);
        if self.peers.is_empty() {
            self.transfer.set_paused(now, true);
        }
    }

    /// Takes a message of a peer with any content: a sequence of packets.
    pub fn handle_message(&mut self, now: Duration, peer: u32, mut message: Bytes) {
        while let Ok(Some(len @ 1..)) = frame_len(&message) {
            self.handle_packet(now, peer, message.split_to(len));
        }
    }

    fn handle_packet(&mut self, now: Duration, peer: u32, packet: Bytes) {
        // Sharers send Interests to test that an address answers, which only datagram peers have to answer. Only Data
        // are for the transfer.
        if !matches!(Packet::decode(&packet), Ok(Packet::Interest(_))) {
            self.transfer.handle_data(now, PeerId(peer), packet);
        }
    }

    /// Handles losses and received packets.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.transfer.handle_timeout(now);
        self.take_events();
        match self.phase {
            DownloadPhase::Fetching => {
                self.add_files();
                self.end();
            }
            // A reader waits for them.
            DownloadPhase::Reading => self.release_runs(),
            _ => {}
        }
    }

    /// Writes the next Interest to `packet`, in place of its content; returns the peer to send it to. After
    /// the report that it is done these are notices to the peers that all of it was fetched.
    pub fn poll_transmit(&mut self, now: Duration, packet: &mut Vec<u8>) -> Option<u32> {
        if let Some(peer) = self.notice.1.pop() {
            packet.clone_from(&self.notice.0);
            return Some(peer);
        }
        self.transfer.poll_transmit(now, packet).map(|peer| peer.0)
    }

    /// The latest time for [`handle_timeout`](Self::handle_timeout), from now on.
    pub fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        self.transfer.poll_timeout(now)
    }

    /// The next report to the page, oldest first.
    pub fn poll_report(&mut self) -> Option<PageReport> {
        self.told.pop_front()
    }

    /// Reports unfinished runs and the nodes that prove them, so that an abrupt end loses little.
    pub fn flush(&mut self) {
        self.transfer.flush_nodes();
        self.take_events();
        self.release_runs();
    }

    fn release_runs(&mut self) {
        while let Some(run) = self.runs.take() {
            self.told.push_back(PageReport::Run(run));
        }
    }

    /// Takes records of nodes that an earlier visit kept ([`PageReport::Nodes`]).
    pub fn load_nodes(&mut self, records: &[u8]) {
        if matches!(self.phase, DownloadPhase::Looking) {
            self.kept.load_nodes(&self.layout, records);
        }
    }

    /// The next range of kept data to read back; `None` if there is no more.
    pub fn next_check(&mut self) -> Option<Range<u64>> {
        if !matches!(self.phase, DownloadPhase::Looking) {
            return None;
        }
        let found = &mut self.found;
        self.kept.next(&self.layout, &mut |file, what| {
            if !what.have.is_empty() && what.have.count() > 0 {
                found.insert(file, what);
            }
        })
    }

    /// Takes data that were read back; returns how many bytes of them are proven.
    pub fn check(&mut self, bytes: &[u8]) -> u64 {
        let proven = self.kept.check(&self.layout, bytes);
        self.verified += proven;
        proven
    }

    /// Begins to fetch missing data.
    pub fn begin(&mut self) {
        if matches!(self.phase, DownloadPhase::Looking) {
            self.phase = DownloadPhase::Fetching;
            self.transfer_goes_on();
        }
    }

    /// Begins to fetch only what [`want`](Self::want) names, instead of all of it.
    pub fn begin_reading(&mut self) {
        if matches!(self.phase, DownloadPhase::Looking) {
            self.phase = DownloadPhase::Reading;
            self.kept = KeptData::default();
        }
    }

    /// Opens a file, by its number in the layout. Nothing of it is wanted yet. False if it cannot be opened now.
    pub fn open_file(&mut self, number: usize) -> bool {
        let Some(file) = self.reading(number) else { return false };
        let (id, root, geometry) = (file.id, file.root, file.geometry);
        self.transfer.open_object(id, root, geometry).is_ok()
    }

    /// Wants these bytes of an opened file, in ascending order. Those that came since it was opened do not come again.
    /// Reported runs hold whole segments. False if the file is not open.
    pub fn want(&mut self, number: usize, bytes: Range<u64>) -> bool {
        let Some(file) = self.reading(number) else { return false };
        let segment = file.geometry.segment_size().bytes() as u64;
        let (id, segments) = (file.id, bytes.start / segment..bytes.end.div_ceil(segment));
        self.transfer.want(id, segments, Urgency::Ahead)
    }

    /// Closes a file: nothing of it is fetched any more. Opened again, all of it can be wanted again.
    pub fn close_file(&mut self, number: usize) {
        if let Some(id) = self.reading(number).map(|file| file.id) {
            self.transfer.give_up_object(id);
        }
    }

    /// Gives the peers the notice that all of it was read.
    pub fn all_read(&mut self) {
        if matches!(self.phase, DownloadPhase::Reading) {
            self.give_notice();
        }
    }

    fn reading(&self, number: usize) -> Option<&LayoutFile> {
        let file = self.layout.files.get(number);
        file.filter(|_| matches!(self.phase, DownloadPhase::Reading))
    }

    /// The state of the fetch, as JSON.
    pub fn state(&self, now: Duration) -> String {
        told::state(self.verified, self.layout.bytes, self.transfer.peers(now))
    }

    fn transfer_goes_on(&mut self) {
        self.kept = KeptData::default();
        self.add_files();
        self.take_events();
        self.end();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.transfer.poll_event() {
            match event {
                TransferEvent::Manifest { manifest, .. } => self.opened(manifest),
                TransferEvent::Segment { object, segment } => {
                    let segment = segment.get();
                    match (&mut self.phase, self.layout.file(object)) {
                        (DownloadPhase::Opening { listing }, _) => {
                            let at = segment.offset as usize; // below MAX_LISTING
                            listing[at..at + segment.content.len()]
                                .copy_from_slice(&segment.content);
                        }
                        (_, Some(file)) => {
                            let at = file.base + segment.offset;
                            self.verified += segment.content.len() as u64;
                            self.fetched += segment.content.len() as u64;
                            self.told
                                .extend(self.runs.add(at, &segment.content).map(PageReport::Run));
                        }
                        (_, None) => {}
                    }
                }
                TransferEvent::Nodes { object, nodes } => {
                    if let Some(file) = self.layout.file(object) {
                        let mut records = Vec::new();
                        kept::write(file, &nodes, &mut records);
                        self.told.push_back(PageReport::Nodes(records));
                    }
                }
                TransferEvent::ObjectComplete(object) => self.completed(object),
                TransferEvent::PeerMisbehaved { peer, what } => {
                    self.told.push_back(PageReport::bad(peer.0, &what.to_string()));
                }
                TransferEvent::PeerDropped { peer } => {
                    self.told.push_back(PageReport::dropped(peer.0))
                }
                TransferEvent::Failed(why) => self.fail(&why.into()),
            }
        }
    }

    fn fail(&mut self, why: &DownloadError) {
        if !matches!(self.phase, DownloadPhase::Over) {
            self.release_runs();
            self.phase = DownloadPhase::Over;
            self.told.push_back(PageReport::failed(why));
        }
    }

    fn opened(&mut self, manifest: Manifest) {
        self.told.push_back(PageReport::manifest(&manifest));
        if manifest.sealed {
            return self.fail(&DownloadError::Encrypted);
        }
        match manifest.kind {
            PublicationKind::File => self.laid_out(FileLayout::of_file(&manifest)),
            PublicationKind::Directory if manifest.size > MAX_LISTING => {
                self.laid_out(Err(LayoutError::TooLong(manifest.size)));
            }
            PublicationKind::Directory => {
                self.phase = DownloadPhase::Opening { listing: vec![0; manifest.size as usize] };
                let geometry =
                    Geometry::new(manifest.size, manifest.segment).with_kind(manifest.tree);
                let wanted = 0..geometry.segments();
                let added = self.transfer.add_object(
                    ObjectId::Root,
                    manifest.root,
                    geometry,
                    [wanted],
                    [],
                    None,
                );
                if let Err(e) = added {
                    self.fail(&e.into());
                }
            }
        }
        self.manifest = Some(manifest);
    }

    fn completed(&mut self, object: ObjectId) {
        if let DownloadPhase::Opening { listing } = &mut self.phase {
            let listing = std::mem::take(listing);
            if let Some(manifest) = &self.manifest {
                let layout = FileLayout::of_listing(manifest, &listing);
                self.laid_out(layout);
            }
            return;
        }
        let number = match object {
            ObjectId::File(number) => number as usize,
            _ => 0,
        };
        self.complete += 1;
        self.told.push_back(PageReport::file(number));
    }

    fn laid_out(&mut self, layout: Result<FileLayout, LayoutError>) {
        match layout {
            Ok(layout) => {
                self.told.push_back(PageReport::layout(&layout));
                self.layout = layout;
                self.phase = DownloadPhase::Looking;
                // No timeout runs while the page reads back its kept data.
            }
            Err(why) => self.fail(&why.into()),
        }
    }

    fn add_files(&mut self) {
        while self.next_file < self.layout.files.len() && self.transfer.wants_objects() {
            let file = &self.layout.files[self.next_file];
            let wanted = 0..file.geometry.segments();
            let found = self.found.remove(&self.next_file);
            let (have, verifier): (Vec<Range<u64>>, _) = match found {
                Some(KeptFile { verifier, have }) => (have.ranges().collect(), Some(verifier)),
                None => (Vec::new(), None),
            };
            self.next_file += 1;
            let added = self.transfer.add_object(
                file.id,
                file.root,
                file.geometry,
                [wanted],
                have,
                verifier,
            );
            if let Err(e) = added {
                return self.fail(&e.into());
            }
        }
    }

    fn end(&mut self) {
        if matches!(self.phase, DownloadPhase::Fetching) && self.complete == self.layout.files.len()
        {
            self.flush();
            self.phase = DownloadPhase::Over;
            self.told.push_back(PageReport::done());
            self.give_notice();
        }
    }

    /// Prepares the notice to the peers, unless all was kept from earlier visits.
    fn give_notice(&mut self) {
        let once = self.seed.to_be_bytes();
        let [a, b, c, d, ..] = once;
        let name = fetched::notice(self.name.as_ref(), once, self.fetched);
        let mut interest = Vec::new();
        let written = InterestBuilder::new(name.as_ref()).nonce([a, b, c, d]).encode(&mut interest);
        if self.fetched > 0 && written.is_ok() {
            self.notice = (interest, self.peers.clone());
        }
    }
}
