//! Publishing and repairing, with a fault at every change of the disk.

use std::path::Path;

use xylem_base::{Blame, Failure, Stop};
use xylem_check::scrub::{ScrubOptions, ScrubSummary, scrub};
use xylem_check::{Keep, Remote, Wanted};
use xylem_faults::{DiskFault, FaultMedium};
use xylem_hash::Hash;
use xylem_object::Ticket;
use xylem_sim::Rng;
use xylem_sink::SaveError;
use xylem_store::{Medium, OpenHow, Store};
use xylem_transfer::TransferEvent;
use xylem_tree::{Geometry, SegmentSize};

use crate::counts::Counts;
use crate::disk::{Between, FAULTS, Planted, Strike, next_disk};
use crate::fetching::outboards_are_whole;
use crate::peers::{Company, Net};
use crate::source::{Entry, HERE, Source, Tree, file, folder, open, plant, share, tree};

/// Most faults of a family.
const SAMPLE: usize = 150;

/// Returns every change with every fault, shuffled, at most [`SAMPLE`].
fn strikes(steps: u64, rng: &mut Rng) -> Vec<Strike> {
    let changes = (0..=steps).flat_map(|at| FAULTS.map(|fault| Strike::Change(at, fault)));
    let mut all: Vec<Strike> = changes.chain((0..20).map(Strike::Read)).collect();
    rng.shuffle(&mut all);
    all.truncate(SAMPLE);
    all
}

/// Checks that a failure is one line with the right reason.
fn judge(line: &str, strike: Strike, struck: bool) -> Result<(), String> {
    let full = matches!(strike, Strike::Change(_, DiskFault::Full));
    match () {
        () if !struck => Err(format!("failed for nothing: {line}")),
        () if line.contains('\n') => Err(format!("not one line: {line}")),
        () if line.contains("no space left") != full => Err(format!("another reason: {line}")),
        () => Ok(()),
    }
}

fn store(medium: &FaultMedium, durable: bool) -> Result<Store, String> {
    let store = Store::open(std::sync::Arc::new(medium.clone()), Path::new("/store"));
    let store = store.map_err(|e| e.to_string())?;
    Ok(if durable { store.durable() } else { store })
}

fn published(medium: &FaultMedium, durable: bool, counts: &mut Counts) -> Result<Hash, String> {
    counts.runs += 1;
    let root = share(&store(medium, durable)?).map_err(|e| e.to_string())?.0.manifest.root;
    counts.done += 1;
    Ok(root)
}

/// Published files are never changed, and a later run publishes them under the same root.
pub(crate) fn publishing(seed: u64, _: Planted, counts: &mut Counts) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let new = if rng.chance(0.5) { file(&mut rng) } else { folder(&mut rng) };
    let durable = rng.chance(0.5);
    let disk = || {
        let medium = FaultMedium::new();
        plant(&medium, Path::new(HERE), &new);
        drop(open(&medium, true));
        medium.image()
    };
    let medium = disk();
    let before = medium.steps();
    let root = published(&medium, durable, counts)?;
    let steps = medium.steps() - before;
    for strike in strikes(steps, &mut rng) {
        let between = if rng.chance(0.5) { Between::Process } else { Between::Power };
        let told = |e: String| format!("{e}\n  after {strike:?}, then {between:?}, {durable}");
        let medium = disk();
        strike.arm(&medium);
        let outcome = published(&medium, durable, counts);
        let struck = strike.settle(&medium, counts);
        if let Err(line) = outcome {
            judge(&line, strike, struck).map_err(told)?;
        }
        let seed = rng.next_u64();
        let image = next_disk(&medium, between, Planted::Nothing, seed, counts);
        if tree(&image, Path::new(HERE)) != new {
            return Err(told("what is published was changed".into()));
        }
        if durable || between == Between::Process {
            outboards_are_whole(&image).map_err(told)?;
        }
        if published(&image, durable, counts).map_err(told)? != root {
            return Err(told("another root".into()));
        }
    }
    Ok(())
}

/// Why no peer delivered missing pieces.
#[derive(Debug)]
struct Gone(String);

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Gone {}

impl Failure for Gone {
    fn blame(&self) -> Blame {
        Blame::Network
    }
}

/// Peers with the content that is damaged here, liars among them.
struct Others<'a> {
    source: &'a Source,
    company: Company,
    counts: &'a mut Counts,
    wrong: Option<String>,
    /// How often the source was left because it does not have all.
    left: u32,
}

impl Remote for Others<'_> {
    fn target(&mut self, _: &[Ticket], _: usize) {}

    fn connect(
        &mut self,
        _: &mut Option<Box<dyn Failure>>,
        _: &Stop,
    ) -> Result<Option<Geometry>, Box<dyn Failure>> {
        // A source that was left is not offered endlessly.
        if self.left > 3 {
            return Ok(None);
        }
        let size = self.source.original.manifest.size;
        Ok(Some(Geometry::new(size, SegmentSize::DEFAULT)))
    }

    fn fetch(
        &mut self,
        wanted: Vec<Wanted>,
        keep: &mut Keep<'_>,
        _: &Stop,
    ) -> Result<Option<Box<dyn Failure>>, Box<dyn Failure>> {
        let mut net = Net::new(&self.source.original, &self.company);
        for Wanted { object, root, geometry, segments, verifier } in wanted {
            let added = net.transfer.add_object(object, root, geometry, segments, [], verifier);
            added.expect("within the limits");
        }
        while !net.transfer.is_idle() {
            let turned = net.turn(None, self.counts);
            loop {
                match turned.clone().and_then(|()| net.event()) {
                    Ok(None) => break,
                    Ok(Some(TransferEvent::Failed(why))) => {
                        return Ok(Some(Box::new(Gone(why.to_string()))));
                    }
                    Ok(Some(event)) => keep(event).map_err(SaveError::from)?,
                    Err(wrong) => {
                        self.wrong = Some(wrong.clone());
                        return Err(Box::new(Gone(wrong)));
                    }
                }
            }
        }
        net.count(self.counts);
        Ok(None)
    }

    fn leave(&mut self) {}

    fn give_up_source(&mut self) {
        self.left += 1;
    }

    fn misbehaved(&self) -> bool {
        false
    }
}

/// Repairs once. The outer `Err` is a violation, the inner one a permitted failure.
fn repaired(
    medium: &FaultMedium,
    source: &Source,
    company: Company,
    counts: &mut Counts,
) -> Result<Result<ScrubSummary, String>, String> {
    counts.runs += 1;
    let store = match store(medium, false) {
        Ok(store) => store,
        Err(line) => return Ok(Err(line)),
    };
    let options = ScrubOptions {
        paths: Vec::new(),
        repair: true,
        tickets: Vec::new(),
        medium: xylem_base::FileMedium::default(),
    };
    let mut others = Others { source, company, counts, wrong: None, left: 0 };
    let outcome = scrub(&store, &options, &mut others, None, &Stop::new(), &mut |_| {});
    if let Some(wrong) = others.wrong {
        return Err(wrong);
    }
    counts.done += u64::from(outcome.is_ok());
    Ok(outcome.map_err(|e| e.to_string()))
}

/// A repair changes nothing that was right, and completes in the end.
pub(crate) fn repairing(seed: u64, _: Planted, counts: &mut Counts) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let new: Tree = loop {
        let new = file(&mut rng);
        if matches!(&new[Path::new("")], Entry::File(bytes) if bytes.len() > 20_000) {
            break new;
        }
    };
    let Entry::File(right) = new[Path::new("")].clone() else { return Ok(()) };
    let source = Source::new(new.clone());
    let medium = FaultMedium::new();
    plant(&medium, Path::new(HERE), &new);
    share(&open(&medium, true)).map_err(|e| e.to_string())?;
    let mut decayed = right.clone();
    for _ in 0..1 + rng.below(4) {
        let at = rng.index(decayed.len() - 600);
        let len = 1 + rng.index(600);
        decayed[at..at + len].iter_mut().for_each(|byte| *byte ^= 0x5a);
    }
    let (path, meta) = (Path::new(HERE), medium.metadata(Path::new(HERE)));
    let meta = meta.map_err(|e| e.to_string())?;
    let decay = |medium: &FaultMedium| {
        let file = medium.open(path, OpenHow::ReadWrite)?;
        for (i, piece) in decayed.chunks(4096).enumerate() {
            file.write_at(piece, i as u64 * 4096)?;
        }
        file.sync()?;
        medium.set_mtime(path, meta.mtime)
    };
    decay(&medium).map_err(|e| e.to_string())?;
    let (disk, seed) = (medium.image(), rng.next_u64());
    let medium = disk.image();
    let before = medium.steps();
    finish(&medium, &source, &right, seed, counts)?;
    for strike in strikes(medium.steps() - before, &mut rng) {
        let told = |e: String| format!("{e}\n  after {strike:?}");
        let (medium, company) = (disk.image(), Company::mixed(&mut rng));
        strike.arm(&medium);
        let honest = company.has_honest();
        let outcome = repaired(&medium, &source, company, counts).map_err(told)?;
        let struck = strike.settle(&medium, counts);
        if let Err(line) = outcome
            && (struck || honest)
        {
            judge(&line, strike, struck).map_err(told)?;
        }
        let image = medium.image();
        let here = image.read(path).map_err(|e| told(e.to_string()))?;
        let mut bytes = here.iter().zip(&right).zip(&decayed);
        if here.len() != right.len() || !bytes.all(|((h, r), d)| h == r || h == d) {
            return Err(told("what was right was changed".into()));
        }
        finish(&image, &source, &right, rng.next_u64(), counts).map_err(told)?;
    }
    Ok(())
}

fn finish(
    medium: &FaultMedium,
    source: &Source,
    right: &[u8],
    seed: u64,
    counts: &mut Counts,
) -> Result<(), String> {
    let summary = repaired(medium, source, Company::honest(seed), counts)??;
    let here = medium.read(Path::new(HERE)).map_err(|e| e.to_string())?;
    match summary.is_clean() && here == right {
        true => Ok(()),
        false => Err(format!("not repaired: {summary:?}")),
    }
}
