//! [`scrub`]: re-reads what was shared or fetched and names every damaged place; on request puts it
//! right from peers.
//!
//! Bytes come from the files themselves and from their trees in the store, both of which may be
//! wrong; what is right is what hashes to the recorded root. A damaged tree is told apart from
//! damaged data, and a file that somebody edited from one that decayed: its modification time is
//! another. Nothing is written without `repair`, and then only proven bytes, into bad places, in
//! place. It does not find files that were added to a shared directory, and does not look at modes.

mod contents;
mod item;
mod mend;
mod pace;
mod targets;
mod tree;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use xylem_object::ObjectId;
use xylem_store::{FileState, Part, ScanBuffer, Store, StoreError};
use xylem_tree::{Geometry, NODE_LEN, SegmentSize};

use crate::api::{Blame, Error, Event, Peer, Stop};
use crate::failure;
use crate::hashing::packed_slots;
use crate::publish::disk;
use crate::rescan::{Readers, on_cores};
use crate::walk::os_bytes;
use contents::Contents;
use item::{Flawed, Item, Verdict, judge};
use mend::Mender;
use pace::Pace;
use targets::{Target, targets};
use tree::Tree;

/// Damage is told in blocks of this many bytes.
pub const BLOCK: u64 = 16 * 1024;
/// Files of a directory that are looked at together.
const BATCH: usize = 4096;
/// Up to this size a file is read by one thread while others read others.
const SMALL: u64 = 4 << 20;

/// What to re-read, and what to do about damage.
#[derive(Clone, Debug)]
pub struct ScrubOptions {
    /// Files and directories that were shared or fetched, or lie in such a directory; none:
    /// everything that the store knows of.
    pub paths: Vec<PathBuf>,
    /// Put right what is damaged.
    pub repair: bool,
    /// More tickets for the same content.
    pub tickets: Vec<String>,
    /// Peers to ask for damaged pieces instead of those of the record's ticket.
    pub peers: Vec<Peer>,
    /// Bytes to read (and to fetch) a second at most.
    pub limit_rate: Option<u64>,
    /// Give up on peers after this long without progress.
    pub give_up: Duration,
    /// The store.
    pub store: PathBuf,
}

/// What is wrong with a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// The bytes are not those that were hashed.
    Damaged,
    /// The disk does not give the bytes back.
    Unreadable,
    /// Something in there is wrong, and the tree that would tell what is damaged as well.
    Unproven,
    /// The file goes on where it should end.
    Longer,
    /// Nodes of the tree are wrong; the range is where the tree lies in its own file.
    Tree,
    /// Somebody edited the file since it was hashed. It is left alone.
    Changed,
    /// The file is gone.
    Missing,
    /// The file can't be opened or read at all.
    Failed,
    /// A repair was killed before its end, and all bytes are right: only the time is another.
    Unfinished,
}

impl Flaw {
    /// Blocks of [`BLOCK`] bytes that `bytes` touch, from 0; none where the range is not one of the
    /// file's own bytes.
    #[must_use]
    pub fn blocks(self, bytes: &Range<u64>) -> Range<u64> {
        match self {
            Self::Damaged | Self::Unreadable | Self::Unproven | Self::Longer => {
                bytes.start / BLOCK..bytes.end.div_ceil(BLOCK)
            }
            _ => 0..0,
        }
    }

    /// One word, as in JSON events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Unreadable => "unreadable",
            Self::Unproven => "unproven",
            Self::Longer => "longer",
            Self::Tree => "tree",
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Failed => "failed",
            Self::Unfinished => "unfinished",
        }
    }
}

/// What is found while it goes on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ScrubEvent {
    /// One bad place.
    Found {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        flaw: Flaw,
        /// Which bytes (empty where it is not about bytes); the end is not included.
        bytes: Range<u64>,
        /// In words.
        what: String,
    },
    /// A bad place is right again: fetched, proven, written and read back.
    Mended {
        /// The file.
        path: PathBuf,
        /// What was wrong.
        flaw: Flaw,
        /// Which bytes.
        bytes: Range<u64>,
    },
}

/// Outcome of [`scrub`].
#[derive(Clone, Debug, Default)]
pub struct ScrubSummary {
    /// Bytes read and compared.
    pub bytes: u64,
    /// Files compared.
    pub files: u64,
    /// Places found damaged, unreadable, unproven or too long.
    pub places: u64,
    /// Bytes in them.
    pub damaged: u64,
    /// Bytes of them that are right again.
    pub mended: u64,
    /// Files with a damaged tree.
    pub trees: u64,
    /// Trees of them that are right again.
    pub trees_mended: u64,
    /// Files that were edited.
    pub changed: u64,
    /// Files that are gone.
    pub missing: u64,
    /// Files that could not be opened.
    pub failed: u64,
    /// Repairs of an earlier run that could not be ended.
    pub unfinished: u64,
    /// Bytes of content that peers sent.
    pub fetched: u64,
    /// Why peers did not bring what is still missing, and who has to act.
    pub trouble: Option<Error>,
    /// How long it took.
    pub elapsed: Duration,
}

impl ScrubSummary {
    /// Whether everything is as it was recorded, or is again.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damaged == self.mended
            && self.trees == self.trees_mended
            && self.changed + self.missing + self.failed + self.unfinished == 0
    }
}

/// Re-reads what `options` name.
///
/// # Errors
/// [`Blame::Usage`] for a path that nothing is known of or a ticket that is none; [`Blame::Local`] for
/// trouble with the store, or a disk that takes no writes; [`Blame::Interrupted`], saying how far it
/// was. Damage is no error: see [`ScrubSummary`].
pub fn scrub(
    options: &ScrubOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<ScrubSummary, Error> {
    let started = Instant::now();
    let store = Store::open(disk(), &options.store).map_err(|e| failure::store(&e))?;
    let targets = targets(options, &store)?;
    let total = targets.iter().map(|t| t.content).sum();
    let pace = Pace::new(stop, options.limit_rate, total);
    let summary = ScrubSummary::default();
    let mut scrub = Scrub { options, stop, store, pace, summary };
    for target in targets {
        let outcome = scrub.target(&target, on_event);
        scrub.summary.bytes = scrub.pace.done();
        match outcome {
            Err(e) if e.blame == Blame::Interrupted => return Err(scrub.interrupted()),
            other => other?,
        }
    }
    scrub.summary.elapsed = started.elapsed();
    Ok(scrub.summary)
}

struct Scrub<'a> {
    options: &'a ScrubOptions,
    stop: &'a Stop,
    store: Store,
    pace: Pace<'a>,
    summary: ScrubSummary,
}

impl Scrub<'_> {
    fn target(&mut self, target: &Target, on_event: &mut dyn FnMut(Event)) -> Result<(), Error> {
        // A clone of handles, so that the mender does not hold on to all of this.
        let (store, options, stop) = (self.store.clone(), self.options, self.stop);
        let mut mender = Mender::new(&store, options, stop, target);
        if target.directory {
            self.directory(target, &mut mender, on_event)?;
        } else {
            let tree = Tree::open(&store, target.root, Part::Outboard);
            let mut tree = tree.map_err(|e| failure::store(&e))?;
            let item = whole(target, &tree);
            self.batch(&[item], &mut tree, &mut mender, on_event)?;
            tree.finish().map_err(|e| failure::store(&e))?;
        }
        if let Some(trouble) = mender.failure() {
            self.summary.trouble = Some(trouble);
        }
        Ok(())
    }

    /// The listing first, then what it lists.
    fn directory(
        &mut self,
        target: &Target,
        mender: &mut Mender<'_>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        let at = |e: StoreError| failure::store(&e);
        let store = self.store.clone();
        let mut tree = Tree::open(&store, target.root, Part::Outboard).map_err(at)?;
        let path = self.store.object_path(&target.root, Part::Listing);
        let there = self.store.object(&target.root, Part::Listing).map_err(at)?;
        let size = there.as_ref().and_then(|file| file.metadata().ok()).map(|meta| meta.size);
        let Some(size) = target.size.or(size).filter(|_| there.is_some()) else {
            return self.lost_listing(target, on_event);
        };
        let key = os_bytes(path.as_os_str());
        let geometry = geometry(&tree, size);
        let slot = (geometry.segments() > 1).then_some(0);
        let (id, root) = (ObjectId::Root, target.root);
        let listing = Item { id, path, key, root, geometry, slot, mtime: None };
        let counted = self.summary.files;
        let left = self.batch(&[listing], &mut tree, mender, on_event)?;
        self.summary.files = counted;
        tree.finish().map_err(at)?;
        if left > 0 {
            return self.lost_listing(target, on_event);
        }
        let mut tree = Tree::open(&self.store, target.root, Part::FileOutboards).map_err(at)?;
        let mut contents = Contents::open(&store, target, geometry.segment_size())?;
        let before = self.summary.files;
        loop {
            let (items, apart) = contents.next(BATCH)?;
            for (path, flaw, what) in apart {
                self.tell(&path, flaw, 0..0, &what, on_event);
            }
            if items.is_empty() {
                break;
            }
            self.batch(&items, &mut tree, mender, on_event)?;
        }
        if target.inside.is_some() && self.summary.files == before {
            let what = "is not in what was shared or fetched: it was added later";
            return Err(failure::usage(format!("{}: {what}", target.shown().display())));
        }
        tree.finish().map_err(at)
    }

    fn lost_listing(
        &mut self,
        target: &Target,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        let what = "the listing of what it holds is lost, so that its files can't be checked; \
                    `xylem get` of its ticket brings it back";
        self.tell(&target.path, Flaw::Failed, 0..0, what, on_event);
        Ok(())
    }

    /// Looks at some files and mends them if that is wanted. Returns how many bytes are still wrong.
    fn batch(
        &mut self,
        items: &[Item],
        tree: &mut Tree,
        mender: &mut Mender<'_>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<u64, Error> {
        let verdicts = {
            let (store, pace, outboard) = (&self.store, &self.pace, tree.outboard());
            let judge_all = || look(store, items, outboard, pace);
            pace.beside(judge_all, on_event).map_err(|e| failure::store(&e))?
        };
        let Some(verdicts) = verdicts else { return Err(self.interrupted()) };
        let mut flawed = Vec::new();
        for (item, verdict) in items.iter().zip(verdicts) {
            self.summary.files += 1;
            let (flaw, what) = match verdict {
                Verdict::Right => continue,
                Verdict::Missing => (Flaw::Missing, "is missing".to_owned()),
                Verdict::Changed(what) => (Flaw::Changed, what),
                Verdict::Failed(e) => (Flaw::Failed, failure::store(&e).message),
                Verdict::Flawed(one) => {
                    flawed.push(*one);
                    continue;
                }
            };
            self.tell(&item.path, flaw, 0..0, &what, on_event);
        }
        if flawed.is_empty() {
            return Ok(0);
        }
        let before: Vec<_> = flawed.iter().map(|one| self.tell_flawed(one, on_event)).collect();
        let bytes = |places: &[(Range<u64>, Flaw)]| {
            places.iter().map(|(bytes, _)| bytes.end - bytes.start).sum::<u64>()
        };
        if !self.options.repair {
            self.summary.unfinished += flawed.iter().filter(|one| one.unfinished).count() as u64;
            return Ok(before.iter().map(|(places, _)| bytes(places)).sum());
        }
        mender.mend(&mut flawed, tree, &mut self.summary, on_event)?;
        let mut left = 0;
        for (one, (places, nodes)) in flawed.iter().zip(&before) {
            let still = one.places();
            left += bytes(&still);
            self.tell_mended(one, places, &still, *nodes, on_event);
        }
        Ok(left)
    }

    fn tell(
        &mut self,
        path: &Path,
        flaw: Flaw,
        bytes: Range<u64>,
        what: &str,
        on_event: &mut dyn FnMut(Event),
    ) {
        match flaw {
            Flaw::Changed => self.summary.changed += 1,
            Flaw::Missing => self.summary.missing += 1,
            Flaw::Failed => self.summary.failed += 1,
            Flaw::Tree => self.summary.trees += 1,
            Flaw::Unfinished => {}
            _ => {
                self.summary.places += 1;
                self.summary.damaged += bytes.end - bytes.start;
            }
        }
        let (path, what) = (path.to_path_buf(), what.to_owned());
        on_event(Event::Scrub(ScrubEvent::Found { path, flaw, bytes, what }));
    }

    /// Tells what is wrong with a file; gives it back for later.
    fn tell_flawed(
        &mut self,
        one: &Flawed,
        on_event: &mut dyn FnMut(Event),
    ) -> (Vec<(Range<u64>, Flaw)>, u64) {
        let places = one.places();
        for (bytes, flaw) in &places {
            let what = match flaw {
                Flaw::Unreadable => "can't be read from the disk",
                Flaw::Unproven => "is damaged somewhere, and so is the tree that would tell where",
                Flaw::Longer => "is more than there was",
                _ if bytes.start >= one.size => "is cut off",
                _ => "is damaged",
            };
            self.tell(&one.item.path, *flaw, bytes.clone(), what, on_event);
        }
        let nodes = one.wrong_nodes();
        if nodes > 0 {
            let what = match nodes {
                1 => "a node of its tree is wrong or lost".to_owned(),
                _ => format!("{nodes} nodes of its tree are wrong or lost"),
            };
            let tree = self.tree_bytes(one);
            self.tell(&one.item.path, Flaw::Tree, tree, &what, on_event);
        }
        if one.unfinished && places.is_empty() {
            let what = "a repair was killed at its end: its time is not set back yet";
            self.tell(&one.item.path, Flaw::Unfinished, 0..0, what, on_event);
        }
        (places, nodes)
    }

    /// From the first wrong node to the last, in the outboard's file.
    fn tree_bytes(&self, one: &Flawed) -> Range<u64> {
        let base = one.item.slot.unwrap_or(0);
        let ends =
            one.found.mend().map(|(slot, nodes)| (slot, slot + (nodes.len() / NODE_LEN) as u64));
        let all = ends.fold((u64::MAX, 0), |all, run| (all.0.min(run.0), all.1.max(run.1)));
        let node = NODE_LEN as u64;
        (base + all.0.min(all.1)).saturating_mul(node)..(base + all.1).saturating_mul(node)
    }

    fn tell_mended(
        &mut self,
        one: &Flawed,
        places: &[(Range<u64>, Flaw)],
        still: &[(Range<u64>, Flaw)],
        nodes: u64,
        on_event: &mut dyn FnMut(Event),
    ) {
        let mut mended = |flaw: Flaw, bytes: Range<u64>| {
            let path = one.item.path.clone();
            on_event(Event::Scrub(ScrubEvent::Mended { path, flaw, bytes }));
        };
        for (bytes, flaw) in places {
            for part in without(bytes, still) {
                self.summary.mended += part.end - part.start;
                mended(*flaw, part);
            }
        }
        if nodes > 0 && one.wrong_nodes() == 0 {
            self.summary.trees_mended += 1;
            mended(Flaw::Tree, 0..0);
        }
        if one.unfinished && places.is_empty() {
            mended(Flaw::Unfinished, 0..0);
        }
    }

    fn interrupted(&self) -> Error {
        let ScrubSummary { files, places, mended, .. } = self.summary;
        let done = self.pace.done();
        let message = format!(
            "interrupted; {done} bytes were read, {files} files checked, {places} bad places \
             found, {mended} bytes mended"
        );
        Error { blame: Blame::Interrupted, message }
    }
}

/// Judges every item, small files side by side. `None` if it was stopped.
fn look(
    store: &Store,
    items: &[Item],
    outboard: Option<&xylem_store::OutboardFile>,
    pace: &Pace<'_>,
) -> Result<Option<Vec<Verdict>>, StoreError> {
    let took = |bytes| pace.took(bytes);
    let mut verdicts: Vec<Option<Verdict>> = items.iter().map(|_| None).collect();
    let is_small = |i: &usize| items[*i].geometry.size() <= SMALL;
    let (small, large): (Vec<usize>, Vec<usize>) = (0..items.len()).partition(is_small);
    let done = on_cores(small.len() as u64, &|i, buffer: &mut ScanBuffer| {
        let i = small[i as usize];
        let mut readers = Readers::Here(buffer);
        Ok(judge(store, &items[i], outboard, &mut readers, &took).map(|verdict| (i, verdict)))
    })?;
    for (i, verdict) in done {
        verdicts[i] = Some(verdict);
    }
    for i in large {
        verdicts[i] = judge(store, &items[i], outboard, &mut Readers::All, &took);
    }
    Ok(verdicts.into_iter().collect())
}

/// The file of a target that is one.
fn whole(target: &Target, tree: &Tree) -> Item {
    let size = target.size.unwrap_or(0);
    let geometry = geometry(tree, size);
    Item {
        id: ObjectId::Root,
        path: target.path.clone(),
        key: os_bytes(target.path.as_os_str()),
        root: target.root,
        geometry,
        slot: (geometry.segments() > 1).then_some(0),
        mtime: target.state.map(|FileState { mtime, .. }| mtime),
    }
}

/// The shape of an object's tree: what was fetched may have other segments than ours, which its
/// outboard's length tells.
fn geometry(tree: &Tree, size: u64) -> Geometry {
    let usual = Geometry::new(size, SegmentSize::DEFAULT);
    let there = tree.outboard().and_then(|o| o.file().metadata().ok()).map(|meta| meta.size);
    let fits = |segment: &SegmentSize| {
        Some(packed_slots(size, *segment).saturating_mul(NODE_LEN as u64)) == there
    };
    if fits(&SegmentSize::DEFAULT) {
        return usual;
    }
    let others = (0..=3).filter_map(SegmentSize::from_log2_chunks);
    let other = others.into_iter().find(fits);
    other.map_or(usual, |segment| Geometry::new(size, segment))
}

/// What of `bytes` is not in any of `still`, which ascend.
fn without(bytes: &Range<u64>, still: &[(Range<u64>, Flaw)]) -> Vec<Range<u64>> {
    let (mut left, mut at) = (Vec::new(), bytes.start);
    for (bad, _) in still.iter().filter(|(bad, _)| bad.end > bytes.start && bad.start < bytes.end) {
        if bad.start > at {
            left.push(at..bad.start);
        }
        at = at.max(bad.end);
    }
    if at < bytes.end {
        left.push(at..bytes.end);
    }
    left
}
