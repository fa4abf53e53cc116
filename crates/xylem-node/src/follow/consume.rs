//! [`follow`]: fetches a growing object checkpoint by checkpoint. Each checkpoint is proven to continue the last.
//!
//! For each checkpoint it fetches, in order: its name (from RDR metadata, or from the pointer to the next one,
//! requested ahead of time); its signed manifest; the segment at which the local bytes end, with a proof that they are
//! the checkpoint's beginning; witnesses' statements, if demanded; and then the new bytes, in order. The output is a
//! verified prefix of the stream at every moment. A later run hashes it and continues.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use xylem_base::{Blame, Failure, Stop, disk};
use xylem_files::record::{FetchedManifest, keep_fetched};
use xylem_files::{CheckpointMade, LibraryEvent};
use xylem_object::witness::{Evidence, SignedVersion};
use xylem_object::{Growing, Manifest, ObjectId, PublicationKind, Ticket, naming};
use xylem_packet::Name;
use xylem_sink::GetSummary;
use xylem_sink::follow::{ContinuationProof, FollowedStream};
use xylem_store::Store;
use xylem_transfer::{TransferEvent, TransferSpec};
use xylem_tree::consistency::{self, ConsistencyError, Continuation};
use xylem_tree::{Geometry, Node, TreeVerifier};

use super::error::{EvidenceKept, FollowError, NotContinued, VerifiedBefore};
use super::newest::{NEWER_CHECKPOINT_WAIT, RETRY, begins_with_named};
use super::versions::{Asked, VersionPeers};
use crate::event::{Event, from_library};
use crate::fetch::Fetch;
use crate::get::{GetOptions, start};
use xylem_engine::wall_clock;
use xylem_witness::{
    ASK_EVERY, CosignatureDemand, NewestQuery, POINTER_LIFETIME, VersionSource, keep_evidence,
    witnessed,
};

/// Segments requested past the first missing one. Segments that arrive out of order have to be buffered.
const WINDOW_SEGMENTS: u64 = 1_024;
/// Interval at which the file's progress is recorded in the store.
const REMEMBER_EVERY: Duration = Duration::from_secs(60);
/// Least time between progress reports.
const TICK: Duration = Duration::from_millis(100);

/// Fetches a growing object and writes its bytes as they arrive, until its publisher ends it. Begins with the newest
/// checkpoint, or with that of version `at`. With `demand`, writes a checkpoint only after that many witnesses have
/// seen it.
///
/// # Errors
/// See [`FollowError`].
pub fn follow(
    options: &GetOptions,
    at: Option<u64>,
    demand: Option<&CosignatureDemand>,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<GetSummary, FollowError> {
    let started = Instant::now();
    let ticket = &options.ticket;
    if ticket.kind == Some(PublicationKind::Directory) {
        return Err(FollowError::Directory);
    }
    let store = Store::open(disk(), &options.store)?;
    let mut fetch = start(options)?;
    let manifest = fetch.manifest(stop, on_event)?;
    let name = fetch.name();
    let object = name.as_ref().parent().to_name();
    fetch.watch(object.clone());
    if manifest.growing.is_none() {
        return Err(FollowError::NotGrowing);
    }
    on_event(Event::Found {
        name: String::from_utf8_lossy(&manifest.file_name).into_owned(),
        directory: false,
        root: manifest.root,
        bytes: manifest.size,
        files: 1,
    });
    let here = {
        let (save, events) = (&options.save, &mut from_library(on_event));
        FollowedStream::open(&store, save, object.as_ref(), &manifest, stop, events)?
    };
    let resumed = here.size();
    let first = match at {
        Some(version) => version,
        None => naming::version(name.as_ref()).unwrap_or_default(),
    };
    let named = SignedVersion::open(fetch.manifest_packet(), ticket.publisher)
        .map_err(FollowError::Version)?;
    let mut follower = Follower {
        fetch,
        beginning: manifest,
        named: Some(named),
        newest: NewestQuery::of(object.clone(), ticket.publisher),
        spec: TransferSpec { prefix: name, publisher: ticket.publisher, root: None, size: None },
        object,
        here,
        at: None,
        options,
        demand,
        ask_again: None,
        fetched: 0,
        remembered: None,
        last_reported: Duration::ZERO,
    };
    let outcome = follower.run(first, at.is_some(), &store, stop, on_event);
    if outcome.is_ok() {
        follower.fetch.leave(stop, on_event);
    } else {
        follower.fetch.close();
    }
    // Write all verified bytes whatever ended the run. The run's own error takes precedence.
    let written = follower.here.finish();
    if written.is_ok() {
        follower.remember(&store, on_event);
    }
    match outcome {
        Err(e) if e.blame() != Blame::Interrupted => return Err(e),
        outcome => {
            written?;
            outcome?;
            if options.fsync {
                follower.here.sync()?;
            }
        }
    }
    Ok(GetSummary {
        path: follower.here.path().map(Path::to_path_buf),
        bytes: follower.here.size(),
        files: 1,
        fetched: follower.fetched,
        resumed,
        elapsed: started.elapsed(),
        ..GetSummary::new(follower.here.root())
    })
}

/// The checkpoint that was verified last.
struct LastCheckpoint {
    number: u64,
    signed: SignedVersion,
}

struct Follower<'a> {
    fetch: Fetch,
    /// The checkpoint that the ticket names. `named`: its signed form, until a later one was proven to begin with it.
    beginning: Manifest,
    named: Option<SignedVersion>,
    newest: NewestQuery,
    spec: TransferSpec,
    object: Name,
    /// The local bytes.
    here: FollowedStream,
    at: Option<LastCheckpoint>,
    options: &'a GetOptions,
    demand: Option<&'a CosignatureDemand>,
    /// When the witnesses' statements about it become too old.
    ask_again: Option<Duration>,
    fetched: u64,
    /// When progress was last recorded in the store.
    remembered: Option<Duration>,
    last_reported: Duration,
}

impl Follower<'_> {
    fn run(
        &mut self,
        first: u64,
        chosen: bool,
        store: &Store,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), FollowError> {
        let give_up = self.options.give_up;
        let mut next = match chosen {
            true => first,
            false => self.newest(first, NEWER_CHECKPOINT_WAIT, stop, on_event)?.unwrap_or(first),
        };
        loop {
            let manifest = self.fetch_checkpoint(next, stop, on_event)?;
            // Record progress during the run, so that it survives a kill.
            let now = self.fetch.now();
            if self.remembered.is_none_or(|at| now >= at + REMEMBER_EVERY) {
                self.remembered = Some(now);
                self.remember(store, on_event);
            }
            if manifest.growing.is_some_and(|growing| growing.last) {
                return Ok(());
            }
            next = match self.newest(next, give_up, stop, on_event)? {
                Some(version) => version,
                None => return Err(FollowError::Silent { after: give_up }),
            };
        }
    }

    // ---- the newest checkpoint --------------------------------------------------------------

    /// Waits for a checkpoint with a higher version than `than` (for the first one: at least as high). `None` if no
    /// peer answers for `patience`.
    fn newest(
        &mut self,
        than: u64,
        patience: Duration,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Option<u64>, FollowError> {
        let mut last_received = self.fetch.now();
        let (mut ask_at, mut pointer_at) = (last_received, None);
        loop {
            let now = self.fetch.now();
            if now >= last_received + patience {
                return Ok(None);
            }
            if let Some(LastCheckpoint { signed, .. }) = &self.at
                && self.ask_again.is_some_and(|at| now >= at)
            {
                let signed = signed.clone();
                self.ask_witnesses(&signed, stop, on_event)?;
            }
            if now >= ask_at && self.ask(None)? {
                ask_at = now + ASK_EVERY;
            }
            if pointer_at.is_some_and(|at| now >= at)
                && self.ask(self.at.as_ref().map(|at| at.number + 1))?
            {
                pointer_at = Some(now + POINTER_LIFETIME);
            }
            let asked = [Some(ask_at.max(now + RETRY)), pointer_at, self.ask_again];
            let due = asked.into_iter().chain([Some(last_received + patience)]);
            self.turn(due.flatten().min(), stop, on_event)?;
            while self.fetch.next_event(on_event)?.is_some() {}
            while let Some(packet) = self.fetch.next_pointer() {
                let Some(version) = self.newest.pointed_to(&packet) else { continue };
                last_received = self.fetch.now();
                if version > than || (self.at.is_none() && version == than) {
                    return Ok(Some(version));
                }
                // This is the newest checkpoint: request the pointer to the next one.
                pointer_at = pointer_at.or(self.at.as_ref().map(|_| last_received));
            }
        }
    }

    /// Asks all connected peers. Returns false if there are none.
    fn ask(&mut self, number: Option<u64>) -> Result<bool, FollowError> {
        let interest = self.newest.question(number)?;
        Ok(self.fetch.ask_all(&interest))
    }

    // ---- one checkpoint ---------------------------------------------------------------------

    /// Fetches the new bytes of the checkpoint of `version`, after a proof that it continues the local bytes.
    fn fetch_checkpoint(
        &mut self,
        version: u64,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Manifest, FollowError> {
        self.spec.prefix =
            naming::versioned(self.object.as_ref(), version).map_err(FollowError::Name)?;
        self.fetch.change_publication(self.spec.clone())?;
        let manifest = self.fetch.manifest(stop, on_event)?;
        let Some(growing) = manifest.growing else {
            return Err(self.other_history(version, NotContinued::NotGrowing, None));
        };
        let signed = SignedVersion::open(self.fetch.manifest_packet(), self.spec.publisher)
            .map_err(FollowError::Version)?;
        if let Some(named) = self.named.take_if(|named| named.version < version) {
            let (fetch, store) = (&mut self.fetch, &self.options.store);
            begins_with_named(fetch, named, signed.clone(), store, stop, on_event)?;
        }
        let (mut shown, mut nodes) = self.show(&manifest, stop, on_event)?;
        if shown.is_err() && self.here.fall_back()? {
            (shown, nodes) = self.show_again(&manifest, stop, on_event)?;
        }
        if shown.is_err() && self.has_more(&manifest)? {
            self.ask_witnesses(&signed, stop, on_event)?;
            self.at = Some(LastCheckpoint { number: growing.number, signed });
            return Ok(manifest);
        }
        if shown.is_err() && self.at.is_none() && self.may_replace(&manifest)? {
            (shown, nodes) = self.show_again(&manifest, stop, on_event)?;
        }
        let continuation = match (shown, &self.at, self.here.path()) {
            (Ok(continuation), ..) => continuation,
            // Nothing shows that the existing file came from this object.
            (Err(_), None, Some(path)) if !self.here.was_verified() => {
                return Err(FollowError::OtherFile(path.to_path_buf()));
            }
            (Err(why), at, _) => {
                let evidence = at.as_ref().map(|at| Evidence {
                    earlier: at.signed.clone(),
                    later: signed,
                    proof: nodes.proof,
                });
                return Err(self.other_history(version, NotContinued::Proof(why), evidence));
            }
        };
        self.ask_witnesses(&signed, stop, on_event)?;
        self.here.advance(continuation)?;
        self.fetch_new(&manifest, nodes, stop, on_event)?;
        if self.here.root() != manifest.root {
            return Err(self.other_history(version, NotContinued::OtherRoot, None));
        }
        self.at = Some(LastCheckpoint { number: growing.number, signed });
        self.here.checkpoint(version, growing.last)?;
        self.report_checkpoint(&manifest, version, growing, on_event);
        Ok(manifest)
    }

    /// Whether the local bytes begin with the checkpoint and are longer. Then the peer that named it was behind, or the
    /// local bytes came from elsewhere. They stay as they are; a newer checkpoint shows whether they are right.
    fn has_more(&self, manifest: &Manifest) -> Result<bool, FollowError> {
        let is_over = manifest.growing.is_none_or(|growing| growing.last);
        let shrunk = self.at.as_ref().is_some_and(|at| at.signed.manifest.size > manifest.size);
        Ok(!is_over
            && !shrunk
            && self.here.size() > manifest.size
            && self.here.begins_with(manifest)?)
    }

    /// Discards the local bytes if the options permit that. Never discards bytes that begin with the ticket's
    /// checkpoint in favour of a shorter checkpoint.
    fn may_replace(&mut self, manifest: &Manifest) -> Result<bool, FollowError> {
        let named = &self.beginning;
        if named.size > 0 && self.here.size() > manifest.size && self.here.begins_with(named)? {
            let path = self.here.path().unwrap_or(Path::new(""));
            return Err(FollowError::Longer(path.to_path_buf()));
        }
        Ok(self.here.start_over()?)
    }

    /// Records the file in the store, as for other fetched files, so that `scrub` checks it.
    fn remember(&self, store: &Store, on_event: &mut dyn FnMut(Event)) {
        let (Some(LastCheckpoint { signed, .. }), Some(path)) = (&self.at, self.here.path()) else {
            return;
        };
        let manifest = &signed.manifest;
        let name = naming::versioned(self.object.as_ref(), signed.version).ok();
        let ticket = Ticket { name, ..self.fetch.completed(&self.options.ticket, manifest) };
        let save = &self.options.save;
        let fetched = FetchedManifest { manifest, packet: signed.packet() };
        let told = &mut from_library(on_event);
        keep_fetched(store, save, &ticket, fetched, Some(path), wall_clock(), told);
    }

    fn report_checkpoint(
        &self,
        manifest: &Manifest,
        version: u64,
        Growing { number, last }: Growing,
        on_event: &mut dyn FnMut(Event),
    ) {
        on_event(Event::Library(LibraryEvent::Checkpoint(CheckpointMade {
            number,
            version,
            name: self.spec.prefix.clone(),
            root: manifest.root,
            bytes: manifest.size,
            last,
        })));
    }

    /// The error that a checkpoint does not continue the content before it. Keeps the evidence, if it proves that to
    /// others.
    fn other_history(
        &self,
        version: u64,
        why: NotContinued,
        evidence: Option<Evidence>,
    ) -> FollowError {
        let before = match &self.at {
            Some(at) => VerifiedBefore::Checkpoint(at.signed.version),
            None => VerifiedBefore::File,
        };
        let proves = evidence.filter(|evidence| evidence.split().is_ok());
        let evidence = match proves.map(|found| keep_evidence(&self.options.store, &found)) {
            None => EvidenceKept::None,
            Some(Ok(path)) => EvidenceKept::At(path),
            Some(Err(e)) => EvidenceKept::Unsaved(e),
        };
        FollowError::OtherHistory { version, before, why, evidence }
    }

    /// Waits until as many witnesses as demanded have seen this checkpoint.
    fn ask_witnesses(
        &mut self,
        signed: &SignedVersion,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), FollowError> {
        let Some(demand) = self.demand else { return Ok(()) };
        let (store, give_up) = (&self.options.store, self.options.give_up);
        let peers = VersionPeers::Of(&mut self.fetch);
        let mut asked = Asked::of(peers, self.spec.publisher, stop, on_event);
        let heard = witnessed(&mut asked, signed, demand, store, give_up)?;
        heard.by.iter().for_each(|said| asked.tell(LibraryEvent::Cosigned(said.clone())));
        let fresh = heard.fresh(demand, asked.clock());
        let now = asked.now();
        drop(asked);
        heard.enough()?;
        self.ask_again = fresh.map(|fresh| now + fresh);
        // The questions to witnesses may have turned the fetch to a later checkpoint.
        self.fetch.change_publication(self.spec.clone())?;
        self.fetch.manifest(stop, on_event)?;
        Ok(())
    }

    /// Runs [`Self::show`] again after local bytes were discarded.
    #[allow(clippy::type_complexity, reason = "show's")]
    fn show_again(
        &mut self,
        manifest: &Manifest,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(Result<Continuation, ConsistencyError>, ContinuationProof), FollowError> {
        self.fetch.change_publication(self.spec.clone())?;
        self.fetch.manifest(stop, on_event)?;
        self.show(manifest, stop, on_event)
    }

    /// Checks whether the local bytes are the beginning of a checkpoint. Also returns the proven nodes of its tree, and
    /// the segment at which the local bytes end.
    #[allow(clippy::type_complexity, reason = "one caller, beside it")]
    fn show(
        &mut self,
        manifest: &Manifest,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(Result<Continuation, ConsistencyError>, ContinuationProof), FollowError> {
        let tree = self.here.tree();
        let (old, new) = (tree.geometry(), manifest.geometry());
        let roots = (tree.checkpoint().root(), manifest.root);
        let mut shown = ContinuationProof::default();
        let Some(needs) = consistency::needs(&old, &new) else {
            return Ok((consistency::verify((&old, roots.0), (&new, roots.1), &[]), shown));
        };
        if old.segment_size() != new.segment_size() {
            return Ok((Err(ConsistencyError::OtherShape), shown));
        }
        // The segment within which the local bytes end, or else the next one. Its proof holds every node that is not
        // here already.
        let first = old.size() / new.segment_size().bytes() as u64;
        self.fetch_range(&new, manifest, first..first + 1, None, Some(&mut shown), stop, on_event)?;
        let tree = self.here.tree();
        let content = match &shown.segment {
            Some(segment) if segment.index == needs.segment => segment.content.clone(),
            _ => Bytes::copy_from_slice(tree.tail().1),
        };
        let value = |node: Node| shown.nodes.get(&node).copied().or_else(|| tree.node(node));
        let mut proof = Vec::new();
        if !consistency::prove(&old, &new, &content, value, &mut proof) {
            return Ok((Err(ConsistencyError::NewRoot), shown));
        }
        let outcome = consistency::verify((&old, roots.0), (&new, roots.1), &proof);
        shown.proof = proof;
        Ok((outcome, shown))
    }

    /// Fetches and writes the new bytes.
    fn fetch_new(
        &mut self,
        manifest: &Manifest,
        mut shown: ContinuationProof,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), FollowError> {
        let geometry = manifest.geometry();
        let segment = shown.segment.take();
        let mut first = self.here.begin(&geometry, segment.as_ref().map(|s| s.index.0));
        if let Some(segment) = segment {
            self.here.segment(segment)?;
            first += 1;
        }
        if self.here.size() < manifest.size {
            let verifier = shown.verifier(geometry, manifest);
            let wanted = first..geometry.segments();
            self.fetch_range(&geometry, manifest, wanted, verifier, None, stop, on_event)?;
        }
        Ok(())
    }

    /// Fetches segments of the checkpoint in order, into `shown` if there is one, else to the output.
    #[allow(clippy::too_many_arguments, reason = "what a fetch needs")]
    fn fetch_range(
        &mut self,
        geometry: &Geometry,
        manifest: &Manifest,
        wanted: std::ops::Range<u64>,
        verifier: Option<TreeVerifier>,
        mut shown: Option<&mut ContinuationProof>,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), FollowError> {
        let transfer = self.fetch.transfer();
        transfer.in_order_window(Some(WINDOW_SEGMENTS));
        transfer
            .add_object(ObjectId::Root, manifest.root, *geometry, [wanted], [], verifier)
            .map_err(FollowError::Object)?;
        let mut complete = false;
        loop {
            while let Some(event) = self.fetch.next_event(on_event)? {
                match event {
                    TransferEvent::Segment { segment, .. } => {
                        self.fetched += segment.content.len() as u64;
                        match &mut shown {
                            Some(shown) => shown.segment = Some(segment),
                            None => self.here.segment(segment)?,
                        }
                    }
                    TransferEvent::Nodes { nodes, .. } => {
                        if let Some(shown) = &mut shown {
                            shown.nodes.extend(nodes.iter().copied());
                        }
                    }
                    TransferEvent::ObjectComplete(_) => complete = true,
                    _ => {}
                }
            }
            self.here.push()?;
            let now = self.fetch.now();
            self.fetch.transfer().set_paused(now, self.here.is_full());
            if complete {
                return Ok(());
            }
            self.report_progress(manifest.size, on_event);
            let again = self.here.is_waiting().then_some(now + RETRY);
            self.turn(again, stop, on_event)?;
        }
    }

    fn report_progress(&mut self, total: u64, on_event: &mut dyn FnMut(Event)) {
        let now = self.fetch.now();
        if now >= self.last_reported + TICK {
            self.last_reported = now;
            let verified = self.here.size();
            let (peers, relayed, picture) = (self.fetch.peers(), 0, None);
            on_event(Event::Progress { verified, total, peers, relayed, picture });
        }
    }

    fn turn(
        &mut self,
        deadline: Option<Duration>,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), FollowError> {
        self.here.push()?;
        Ok(self.fetch.run_once(deadline, stop, on_event)?)
    }
}
