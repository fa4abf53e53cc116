//! Fetches files and directories: new, over an older version, with old copies, with and without `--fsync`. A fault
//! occurs at every change of the disk, and again while the fetch is resumed.

use std::fmt;
use std::path::{Path, PathBuf};

use xylem_faults::FaultMedium;
use xylem_files::{Existing, Output, SaveOptions};
use xylem_object::{ObjectId, PublicationKind};
use xylem_sim::Rng;
use xylem_sink::{Context, Destination, SaveError, Sink, Tally, make};
use xylem_store::{
    Medium, ObjectPart, Objects, OpenHow, OverwritePolicy, Store, check_tree, segments_of_outboard,
};
use xylem_transfer::TransferEvent;

use crate::counts::Counts;
use crate::disk::{Between, FAULTS, Planted, Strike, next_disk};
use crate::peers::{Company, Net};
use crate::source::{Entry, Source, Tree, file, folder, older, open, plant, remove, tree};

const COPY: &str = "/copy";
const PART: &str = "/.copy.xylem-part";
const OLD: &str = "/old";
/// Most faults of one fetch.
const MOST_STRIKES: u64 = 3;
/// Most faults of a family, besides those at every change.
const SAMPLE: usize = 60;
/// Largest loss by a kill, bytes, besides 1/256 of what was verified: the segment in progress (docs/spec/store.md,
/// "Goals"); for an update, some more (docs/reliability.md, "One machine").
const IN_HAND: u64 = 8_192;
const IN_HAND_OF_UPDATE: u64 = 64 * 1024;

/// The content to fetch, and the content before.
struct Case {
    source: Source,
    /// The existing content under the final name.
    before: Option<Tree>,
    /// An old copy elsewhere.
    like: Option<Tree>,
    durable: bool,
    planted: Planted,
}

/// How a run ended.
enum Ended {
    Done,
    /// The disk failed.
    Failed(SaveError),
    /// No peer was left.
    Nobody,
    /// Interrupted, and ended in order.
    Interrupted,
}

/// Outcome of a run.
struct Ran {
    ended: Ended,
    /// Bytes of earlier runs that it verified, if it came that far.
    resumed: Option<u64>,
    /// Bytes that it reported as verified and that must survive a kill.
    safe: u64,
}

/// State of the final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// Unchanged.
    Before,
    /// Some files are old and some new.
    Between,
    New,
    /// Damaged by a loss of power without `--fsync`.
    NotSynced,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |tree: &Tree| -> usize {
            tree.values().map(|e| if let Entry::File(bytes) = e { bytes.len() } else { 0 }).sum()
        };
        f.debug_struct("Case")
            .field("entries", &self.source.tree.len())
            .field("bytes", &bytes(&self.source.tree))
            .field("before", &self.before.as_ref().map(bytes))
            .field("like", &self.like.as_ref().map(bytes))
            .field("durable", &self.durable)
            .finish()
    }
}

impl Case {
    fn new(rng: &mut Rng, planted: Planted) -> Self {
        let new = if rng.chance(0.5) { file(rng) } else { folder(rng) };
        let before = rng.chance(0.4).then(|| older(&new, rng));
        let like = rng.chance(0.2).then(|| older(&new, rng));
        let durable = rng.chance(0.5);
        Self { source: Source::new(new), before, like, durable, planted }
    }

    /// Returns the disk before the fetch.
    fn disk(&self) -> FaultMedium {
        let medium = FaultMedium::new();
        for (path, tree) in [(COPY, &self.before), (OLD, &self.like)] {
            tree.iter().for_each(|tree| plant(&medium, Path::new(path), tree));
        }
        drop(open(&medium, true));
        let medium = medium.image();
        if self.planted == Planted::NoSync {
            medium.ignore_syncs();
        }
        medium
    }

    fn in_hand(&self) -> u64 {
        match (&self.before, &self.like) {
            (None, None) => IN_HAND,
            _ => IN_HAND_OF_UPDATE,
        }
    }

    fn is_file(&self) -> bool {
        self.source.original.manifest.kind == PublicationKind::File
    }

    fn sink(&self, store: &Store) -> Result<Box<dyn Sink>, SaveError> {
        let (existing, policy) = match self.before {
            Some(_) => (Existing::Overwrite, OverwritePolicy::Replace),
            None => (Existing::Refuse, OverwritePolicy::Never),
        };
        let options = SaveOptions {
            like: self.like.iter().map(|_| PathBuf::from(OLD)).collect(),
            delete: existing == Existing::Overwrite,
            ..SaveOptions::to(Output::At(COPY.into()), existing)
        };
        let to = Destination { path: COPY.into(), part: PART.into(), policy };
        make(&options, &self.source.original.manifest, Some(to), store)
    }

    /// Makes one run. `interrupt`: after this many segments.
    fn run(
        &self,
        medium: &FaultMedium,
        company: &Company,
        interrupt: Option<u64>,
        counts: &mut Counts,
    ) -> Result<Ran, String> {
        let store = match Store::open(std::sync::Arc::new(medium.clone()), Path::new("/store")) {
            Ok(store) if self.durable => store.durable(),
            Ok(store) => store,
            Err(e) => {
                let ended = Ended::Failed(e.into());
                return Ok(Ran { ended, resumed: None, safe: 0 });
            }
        };
        counts.runs += 1;
        let mut net = Net::new(&self.source.original, company);
        let mut ran =
            Running { sink: None, begun: false, tally: Tally::default(), safe: 0, segments: 0 };
        let ended = match ran.drive(self, &store, &mut net, interrupt, counts) {
            Ok(ended) => ended?,
            Err(e) => Ended::Failed(e),
        };
        net.count(counts);
        if let Ended::Interrupted = ended {
            // As the program ends: proven nodes go to the disk.
            net.transfer.flush_nodes();
            while let Some(event) = net.event()? {
                if let (TransferEvent::Nodes { object, nodes }, Some(sink)) = (event, &mut ran.sink)
                {
                    sink.nodes(object, nodes).map_err(|e| e.to_string())?;
                }
            }
            drop(ran.sink.take());
            if self.is_file() && !medium.has_failed() {
                ran.safe = ran.tally.resumed + ran.segments;
            }
        }
        counts.done += u64::from(matches!(ended, Ended::Done));
        let resumed = ran.begun.then_some(ran.tally.resumed);
        Ok(Ran { ended, resumed, safe: ran.safe })
    }

    /// Returns the state of the final name, or why that state is not allowed. `before`: its content when the run began.
    fn named(
        &self,
        medium: &FaultMedium,
        before: &Tree,
        done: bool,
        between: Between,
    ) -> Result<Named, String> {
        let here = tree(medium, Path::new(COPY));
        let may_be_spoiled = between == Between::Power && !self.durable;
        let named = if here == self.source.tree {
            Named::New
        } else if done {
            return match may_be_spoiled {
                true => Ok(Named::NotSynced),
                false => Err(format!("reported done; {}", difference(&here, &self.source.tree))),
            };
        } else if here == *before {
            Named::Before
        } else if self.before.is_some() && !self.is_file() && self.is_between(before, &here) {
            Named::Between
        } else if may_be_spoiled {
            Named::NotSynced
        } else {
            return Err(format!("neither old nor new; {}", difference(&here, &self.source.tree)));
        };
        Ok(named)
    }

    /// Returns whether every name has its old or its published content.
    fn is_between(&self, old: &Tree, here: &Tree) -> bool {
        let new = &self.source.tree;
        let mut all = old.keys().chain(new.keys()).chain(here.keys());
        all.all(|path| here.get(path) == old.get(path) || here.get(path) == new.get(path))
    }

    /// Makes a run without faults, among honest peers, which must get all.
    fn finish(
        &self,
        medium: &FaultMedium,
        floor: u64,
        seed: u64,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let ran = self.run(medium, &Company::honest(seed), None, counts)?;
        match ran.ended {
            Ended::Done => {}
            Ended::Failed(e) => return Err(format!("the undisturbed run failed: {e}")),
            Ended::Nobody | Ended::Interrupted => return Err("the undisturbed run ended".into()),
        }
        self.keeps(&ran, floor)?;
        let here = tree(medium, Path::new(COPY));
        if here != self.source.tree {
            return Err(format!("wrong in the end; {}", difference(&here, &self.source.tree)));
        }
        match medium.metadata(Path::new(PART)) {
            Err(_) => Ok(()),
            Ok(_) => Err("something is left over".into()),
        }
    }

    fn keeps(&self, ran: &Ran, floor: u64) -> Result<(), String> {
        match ran.resumed.filter(|resumed| *resumed < floor) {
            Some(resumed) => Err(format!("{floor} bytes were safe, {resumed} were found")),
            None => Ok(()),
        }
    }

    /// Makes one fetch with a fault, resumes it with further faults, up to [`MOST_STRIKES`] in all, and completes it.
    fn chain(
        &self,
        first: Strike,
        between: Between,
        steps: u64,
        rng: &mut Rng,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let mut disk = self.disk();
        let (mut strike, mut between) = (first, between);
        let (mut floor, mut told, mut synced) = (0, Vec::new(), true);
        let strikes = 1 + rng.below(MOST_STRIKES);
        for n in 0..strikes {
            let company = Company::mixed(rng);
            let interrupt = rng.chance(0.1).then(|| rng.below(12));
            told.push(match interrupt {
                Some(at) => format!("{strike:?} or Ctrl-C at segment {at}, then {between:?}"),
                None => format!("{strike:?}, then {between:?}"),
            });
            let told = |e: String| format!("{e}\n  after {}", told.join("; "));
            let before = tree(&disk, Path::new(COPY));
            strike.arm(&disk);
            let ran = self.run(&disk, &company, interrupt, counts).map_err(told)?;
            let struck = strike.settle(&disk, counts);
            self.judge_end(&ran, strike, struck, &company).map_err(told)?;
            self.keeps(&ran, floor).map_err(told)?;
            let done = matches!(ran.ended, Ended::Done);
            disk = next_disk(&disk, between, self.planted, rng.next_u64(), counts);
            let named = self.named(&disk, &before, done, between).map_err(told)?;
            // Without `--fsync` a loss of power may damage named content until it is written again.
            synced &= self.durable || between == Between::Process;
            if synced {
                outboards_are_whole(&disk).map_err(told)?;
            }
            if named == Named::NotSynced {
                counts.not_synced += 1;
                if self.before.is_none() {
                    // The user finds the damage (with `verify`), removes the content and fetches it again.
                    remove(&disk, Path::new(COPY));
                }
            } else if done || (named == Named::New && self.before.is_none()) {
                return Ok(());
            }
            let is_kept = between == Between::Process && named == Named::Before;
            floor = match is_kept {
                true if ran.resumed.is_some() => ran.safe,
                true => floor,
                false => 0,
            };
            if self.planted == Planted::NodesVanish {
                remove(&disk, Path::new("/store/partial"));
            }
            if rng.chance(0.2) && self.flip(&disk, rng) {
                counts.flips += 1;
                floor = 0;
            }
            if n + 1 < strikes {
                strike = Strike::anywhere(steps, rng);
                between = if rng.chance(0.5) { Between::Process } else { Between::Power };
            }
        }
        let told = |e: String| format!("{e}\n  after {}", told.join("; "));
        self.finish(&disk, floor, rng.next_u64(), counts).map_err(&told)?;
        if synced { outboards_are_whole(&disk).map_err(told) } else { Ok(()) }
    }

    /// Checks that a run ended for its actual reason.
    fn judge_end(
        &self,
        ran: &Ran,
        strike: Strike,
        struck: bool,
        company: &Company,
    ) -> Result<(), String> {
        match &ran.ended {
            Ended::Failed(e) => {
                let line = e.to_string();
                let full = matches!(strike, Strike::Change(_, xylem_faults::DiskFault::Full));
                match () {
                    () if !struck => Err(format!("failed for nothing: {line}")),
                    () if line.contains('\n') => Err(format!("not one line: {line}")),
                    () if line.contains("no space left") != full => {
                        Err(format!("names another reason: {line}"))
                    }
                    () => Ok(()),
                }
            }
            Ended::Nobody if company.has_honest() => Err("gave up an honest peer".into()),
            Ended::Done if struck && strike.is_the_end() => {
                // Steps after the final rename may fail silently: leftovers are removed later.
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Changes one byte of what was left to be resumed, data or tree.
    fn flip(&self, medium: &FaultMedium, rng: &mut Rng) -> bool {
        let mut files = Vec::new();
        for top in [PART, "/store/partial"] {
            for (inner, entry) in tree(medium, Path::new(top)) {
                if let Entry::File(bytes) = entry
                    && !bytes.is_empty()
                {
                    let path = Path::new(top).join(&inner);
                    // Joining an empty path leaves a slash at the end.
                    files.push((path.components().collect::<PathBuf>(), bytes.len()));
                }
            }
        }
        if files.is_empty() {
            return false;
        }
        let (path, len) = &files[rng.index(files.len())];
        let at = rng.below(*len as u64);
        let file = medium.open(path, OpenHow::ReadWrite).expect("it is there");
        let mut byte = [0];
        file.read_at(&mut byte, at).expect("a healthy disk");
        file.write_at(&[byte[0] ^ (1 << rng.below(8))], at).expect("a healthy disk");
        // Synced, so that a later loss of power does not revert it.
        file.sync().is_ok()
    }
}

/// A run under way.
struct Running {
    sink: Option<Box<dyn Sink>>,
    /// Whether the sink has verified what is there.
    begun: bool,
    tally: Tally,
    safe: u64,
    /// Bytes of content passed to the sink.
    segments: u64,
}

impl Running {
    fn drive(
        &mut self,
        case: &Case,
        store: &Store,
        net: &mut Net,
        interrupt: Option<u64>,
        counts: &mut Counts,
    ) -> Result<Result<Ended, String>, SaveError> {
        let mut segments = 0;
        loop {
            loop {
                let event = match net.event() {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(e) => return Ok(Err(e)),
                };
                let now = net.now();
                let transfer = &mut net.transfer;
                let (tally, on_event) = (&mut self.tally, &mut |_| {});
                let mut cx = Context { transfer, tally, on_event, now, holdings: None };
                match (event, &mut self.sink) {
                    (TransferEvent::Manifest { manifest, .. }, None) => {
                        if manifest != case.source.original.manifest {
                            return Ok(Err("a manifest that nobody signed".into()));
                        }
                        self.sink.insert(case.sink(store)?).begin(&mut cx)?;
                        self.begun = true;
                    }
                    (TransferEvent::Segment { object, segment }, Some(sink)) => {
                        let truth = &case.source.original.objects[&object];
                        let range = truth.geometry.segment_range(segment.index);
                        let right = &truth.content[range.start as usize..range.end as usize];
                        if segment.content[..] != *right {
                            return Ok(Err("a wrong byte counts as verified".into()));
                        }
                        let len = segment.content.len() as u64;
                        sink.segment(object, segment, &mut cx)?;
                        self.segments += if object == ObjectId::Sums { 0 } else { len };
                        segments += 1;
                    }
                    (TransferEvent::Nodes { object, nodes }, Some(sink)) => {
                        sink.nodes(object, nodes)?;
                    }
                    (TransferEvent::ObjectComplete(object), Some(sink)) => {
                        sink.complete(object, &mut cx)?;
                    }
                    (TransferEvent::Failed(_), _) => return Ok(Ok(Ended::Nobody)),
                    (_, _) => {}
                }
            }
            let mut again = None;
            if let Some(sink) = &mut self.sink {
                let now = net.now();
                let (transfer, tally, on_event) = (&mut net.transfer, &mut self.tally, &mut |_| {});
                let mut cx = Context { transfer, tally, on_event, now, holdings: None };
                again = sink.poll(&mut cx)?;
                if case.is_file() {
                    let Tally { fetched, resumed, reused, .. } = self.tally;
                    let said = fetched + resumed + reused;
                    self.safe = said.saturating_sub(said / 256 + case.in_hand());
                }
                if sink.is_done() {
                    sink.finish()?;
                    return Ok(Ok(Ended::Done));
                }
            }
            if interrupt.is_some_and(|at| segments > at) {
                return Ok(Ok(Ended::Interrupted));
            }
            if let Err(e) = net.turn(again, counts) {
                return Ok(Err(e));
            }
        }
    }
}

/// Checks that every outboard with a final name is complete.
pub(crate) fn outboards_are_whole(medium: &FaultMedium) -> Result<(), String> {
    let store = open(medium, false);
    let mut all = Vec::new();
    store.list(&mut |info| all.push(info)).map_err(|e| e.to_string())?;
    for info in all.into_iter().filter(|info| info.part == ObjectPart::Outboard) {
        let bytes =
            store.object_bytes(&info.root, info.part, 1 << 24).map_err(|e| e.to_string())?;
        let (bytes, segments) = (bytes.unwrap_or_default(), segments_of_outboard(info.size));
        let found = check_tree(&mut &bytes[..], segments.unwrap_or_default(), &info.root);
        if !found.is_ok_and(|found| found.is_whole()) {
            return Err("an outboard that has its name is not whole".into());
        }
    }
    Ok(())
}

fn difference(here: &Tree, wanted: &Tree) -> String {
    let what = |entry: Option<&Entry>| match entry {
        Some(Entry::File(bytes)) => format!("{} bytes", bytes.len()),
        Some(entry) => format!("{entry:?}"),
        None => "nothing".into(),
    };
    let all = here.keys().chain(wanted.keys());
    let differ = all.filter(|path| here.get(*path) != wanted.get(*path));
    let lines = differ
        .map(|path| format!("{path:?} is {} for {}", what(here.get(path)), what(wanted.get(path))));
    lines.collect::<Vec<_>>().join(", ")
}

/// Fetches one thing without faults, and then with one at every change of the disk.
pub(crate) fn family(seed: u64, planted: Planted, counts: &mut Counts) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let case = Case::new(&mut rng, planted);
    let told = |e: String| format!("{e}\n  {case:?}");
    let disk = case.disk();
    let before = disk.steps();
    case.finish(&disk, 0, rng.next_u64(), counts).map_err(told)?;
    outboards_are_whole(&disk).map_err(told)?;
    if planted == Planted::NamedByte {
        let path = case.source.tree.iter().find_map(|(path, entry)| {
            matches!(entry, Entry::File(bytes) if !bytes.is_empty()).then_some(path)
        });
        if let Some(path) = path {
            let path: PathBuf = Path::new(COPY).join(path).components().collect();
            let mut bytes = disk.read(&path).map_err(|e| e.to_string())?;
            bytes[0] ^= 1;
            disk.write(&path, &bytes).map_err(|e| e.to_string())?;
        }
        return case.named(&disk, &Tree::new(), true, Between::Process).map(drop);
    }
    let steps = disk.steps() - before;
    let mut strikes: Vec<(Strike, Between)> = Vec::new();
    for at in 0..=steps {
        strikes.push((Strike::Change(at, FAULTS[0]), Between::Process));
        strikes.push((Strike::Change(at, FAULTS[1]), Between::Power));
    }
    let mut others: Vec<(Strike, Between)> = Vec::new();
    for at in 0..=steps {
        for fault in FAULTS {
            for between in [Between::Process, Between::Power] {
                others.push((Strike::Change(at, fault), between));
            }
        }
        others.push((Strike::Read(at), Between::Process));
    }
    rng.shuffle(&mut others);
    strikes.extend(others.into_iter().take(SAMPLE));
    for (strike, between) in strikes {
        case.chain(strike, between, steps, &mut rng, counts).map_err(told)?;
    }
    Ok(())
}
