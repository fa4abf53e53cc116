//! [`check_store`]: checks that the contents of a store are right and complete.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::Serialize;
use xylem_base::{Blame, Failure, Stop, json, os_bytes, os_path};
use xylem_files::record::{self, RecordNote};
use xylem_files::{LibraryEvent, ListedError, ListedFiles, checkpoint_log, signed, sums, trees};
use xylem_hash::{Hash, Hasher};
use xylem_object::Ticket;
use xylem_object::listing::{EntryKind, is_reserved};
use xylem_publish::rebuild;
use xylem_store::{
    CatalogRecord, ObjectInfo, ObjectPart, Objects, RecordOrigin, Store, StoreError, Unfinished,
    UnfinishedKind, segments_of_outboard,
};
use xylem_tree::SegmentSize;

use super::error::UpkeepError;
use super::{PathState, open, open_writable, standing};

/// Bytes of a listing hashed at once.
const PIECE: usize = 1 << 20;

/// How to check a store.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// The store's directory.
    pub store: PathBuf,
    /// Rebuild damaged and missing trees from their files, if these still have the same root, and remove damaged
    /// records.
    pub repair_tree: bool,
}

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Bytes contradict their root, their signature or their checksum.
    Damaged,
    /// A needed part is missing.
    Missing,
    /// It was damaged or missing and is right again.
    Repaired,
    /// Left by an interrupted run; harmless.
    Leftover,
}

/// One finding.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename = "finding")]
pub struct CheckFinding {
    /// Its kind.
    pub kind: FindingKind,
    /// The store's file.
    #[serde(serialize_with = "json::path")]
    pub path: PathBuf,
    /// Description in words.
    pub what: String,
}

/// Counts of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename = "store_checked")]
pub struct CheckSummary {
    /// Records.
    pub records: u64,
    /// Trees.
    pub trees: u64,
    /// Listings.
    pub listings: u64,
    /// Manifests.
    pub manifests: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes cached by mounts. They are not checked here: they are verified whenever they are read.
    pub cached: u64,
    /// Parts still damaged or missing.
    pub bad: u64,
    /// Parts repaired.
    pub repaired: u64,
}

/// Damaged files of a store, each with a description in words.
pub type DamagedFiles = Vec<(PathBuf, String)>;

/// Checks every record, tree, listing and manifest of a store, and their references. Users' files are read only for
/// repairs. `others` lists the damaged ones of the files that other crates keep in the store's directory, such as mail.
///
/// # Errors
/// See [`UpkeepError`]. Damage is no error.
pub fn check_store(
    options: &CheckOptions,
    others: &dyn Fn(&Path) -> Result<DamagedFiles, StoreError>,
    stop: &Stop,
    on_finding: &mut dyn FnMut(CheckFinding),
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<CheckSummary, UpkeepError> {
    let dir = &options.store;
    let store = if options.repair_tree { open_writable(dir)? } else { open(dir)? };
    let mut check = StoreCheck {
        store: &store,
        stop,
        on_finding,
        known: HashMap::new(),
        found: Vec::new(),
        summary: CheckSummary::default(),
    };
    check.records(options.repair_tree)?;
    check.parts()?;
    check.references()?;
    if options.repair_tree {
        check.repair(on_event)?;
    }
    check.report();
    check.report_damaged(others(dir)?);
    check.report_damaged(checkpoint_log::damaged(&store)?);
    for (path, size) in store.leftovers()? {
        let what = format!("{size} bytes of an interrupted run; `xylem store gc` removes old ones");
        check.report_one(FindingKind::Leftover, path, what);
    }
    check.unknown_fetches()?;
    check.summary.cached = check.store.unfinished()?.iter().map(cached).sum();
    Ok(check.summary)
}

fn cached(one: &Unfinished) -> u64 {
    if one.kind == UnfinishedKind::Cache { one.bytes } else { 0 }
}

struct StoreCheck<'a> {
    store: &'a Store,
    stop: &'a Stop,
    on_finding: &'a mut dyn FnMut(CheckFinding),
    /// Records by root.
    known: HashMap<Hash, Vec<CatalogRecord>>,
    /// Findings by root, held until it is known whether they can be repaired.
    found: Vec<(Hash, CheckFinding)>,
    summary: CheckSummary,
}

impl StoreCheck<'_> {
    fn report_one(&mut self, kind: FindingKind, path: PathBuf, what: String) {
        (self.on_finding)(CheckFinding { kind, path, what });
    }

    fn damaged(&mut self, root: &Hash, part: ObjectPart, what: String) {
        let path = self.store.object_path(root, part);
        self.found.push((*root, CheckFinding { kind: FindingKind::Damaged, path, what }));
    }

    fn report(&mut self) {
        for (_, finding) in std::mem::take(&mut self.found) {
            self.summary.bad += u64::from(finding.kind != FindingKind::Repaired);
            (self.on_finding)(finding);
        }
    }

    /// Reports data of interrupted fetches without a record here, in the folders of shared and fetched files. They may
    /// belong to another store, so they are not removed.
    fn unknown_fetches(&mut self) -> Result<(), UpkeepError> {
        let unfinished = self.store.unfinished()?;
        let ours: BTreeSet<&Path> = unfinished.iter().map(|one| one.path.as_path()).collect();
        let known = self.known.values().flatten().map(|known| os_path(&known.path));
        let folders = known.chain(ours.iter().map(|path| path.to_path_buf()));
        let folders: BTreeSet<PathBuf> =
            folders.filter_map(|path| Some(path.parent()?.to_path_buf())).collect();
        for folder in folders {
            // A missing folder contains nothing to report.
            for item in self.store.medium().list_dir(&folder).unwrap_or_default() {
                let path = folder.join(&item.name);
                if is_reserved(&os_bytes(&item.name)) && !ours.contains(path.as_path()) {
                    let what = "left by an interrupted fetch that this store has no record of; remove it if no \
                                other store uses it";
                    self.report_one(FindingKind::Leftover, path, what.to_owned());
                }
            }
        }
        Ok(())
    }

    fn report_damaged(&mut self, files: DamagedFiles) {
        for (path, what) in files {
            self.summary.bad += 1;
            self.report_one(FindingKind::Damaged, path, what);
        }
    }

    fn records(&mut self, remove: bool) -> Result<(), UpkeepError> {
        for (path, what) in self.store.unexplained_names()? {
            if remove && self.store.remove_damaged_record(&path)? {
                self.summary.repaired += 1;
                let what = format!(
                    "{what}; removed; sharing or fetching its path again makes a new one, which leaves nothing \
                             out unless --exclude names it"
                );
                self.report_one(FindingKind::Repaired, path, what);
            } else {
                self.summary.bad += 1;
                self.report_one(FindingKind::Damaged, path, what.to_owned());
            }
        }
        for known in self.store.known()? {
            let known = known?;
            self.summary.records += 1;
            self.known.entry(known.root).or_default().push(known);
        }
        Ok(())
    }

    fn parts(&mut self) -> Result<(), UpkeepError> {
        let mut parts = Vec::new();
        self.store.list(&mut |info| parts.push(info))?;
        parts.sort_unstable_by_key(|info| (*info.root.as_bytes(), info.part as u8));
        for info in parts {
            if self.stop.raised() {
                return Err(UpkeepError::Interrupted);
            }
            self.part(&info)?;
        }
        Ok(())
    }

    fn part(&mut self, info: &ObjectInfo) -> Result<(), UpkeepError> {
        let found = match info.part {
            ObjectPart::Outboard => self.outboard(info),
            ObjectPart::FileOutboards => self.file_outboards(info),
            ObjectPart::Listing => self.listing(info),
            ObjectPart::Manifest => self.manifest(info),
            ObjectPart::Sums => self.sums(info),
            // A part of this kind is never finished.
            ObjectPart::Content => Ok(None),
        };
        self.summary.bytes += info.size;
        match found {
            Ok(None) => {}
            Ok(Some(what)) => self.damaged(&info.root, info.part, what),
            // Unreadable by the disk: this is damage, and the rest is still checked.
            Err(e @ (StoreError::Io { .. } | StoreError::Corrupt { .. })) => {
                self.damaged(&info.root, info.part, e.to_string());
            }
            // Collected or replaced meanwhile.
            Err(StoreError::NotFound { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    fn outboard(&mut self, info: &ObjectInfo) -> Result<Option<String>, StoreError> {
        self.summary.trees += 1;
        let Some(segments) = segments_of_outboard(info.size) else {
            return Ok(Some(format!("no tree has {} bytes", info.size)));
        };
        let Some(file) = self.store.object(&info.root, info.part)? else { return Ok(None) };
        trees::flaw(&file, segments, &info.root)
    }

    fn listing(&mut self, info: &ObjectInfo) -> Result<Option<String>, StoreError> {
        self.summary.listings += 1;
        let Some(file) = self.store.object(&info.root, ObjectPart::Listing)? else {
            return Ok(None);
        };
        let (mut hasher, mut piece, mut at) = (Hasher::new(), vec![0; PIECE], 0);
        loop {
            let got = file.read_full(&mut piece, at)?;
            if got == 0 {
                break;
            }
            hasher.update(&piece[..got]);
            at += got as u64;
        }
        if hasher.finalize() != info.root {
            return Ok(Some("its bytes do not hash to the root that is its name".to_owned()));
        }
        Ok(None)
    }

    /// Checks the outboards of a directory's files; their places follow from the listing.
    fn file_outboards(&mut self, info: &ObjectInfo) -> Result<Option<String>, StoreError> {
        let Some(file) = self.store.object(&info.root, ObjectPart::Listing)? else {
            return Ok(Some("the listing that describes it is missing".to_owned()));
        };
        let len = file.metadata()?.size;
        let Some(nodes) = self.store.object(&info.root, info.part)? else { return Ok(None) };
        let from = self.known.get(&info.root);
        let shared = from.is_some_and(|all| all.iter().any(|k| k.origin == RecordOrigin::Shared));
        let mut first = None;
        // The publisher's segment size is in the manifest; it is nearly always the default.
        for log2 in (0..=SegmentSize::MAX_LOG2_CHUNKS).rev() {
            let Some(size) = SegmentSize::from_log2_chunks(log2) else { continue };
            let listing = match ListedFiles::open(file.clone(), len, &info.root, size) {
                Ok(listing) => listing,
                Err(ListedError::Store(e)) => return Err(e),
                // Reported already, for the listing.
                Err(ListedError::NotTheRoot(_)) => return Ok(None),
                Err(ListedError::Bad(_)) => {
                    let what = "its listing has the right root but is not valid";
                    return Ok(Some(what.to_owned()));
                }
            };
            let (what, trees) = trees::packed(&nodes, &listing, size, shared)?;
            if what.is_none() {
                self.summary.trees += trees;
                return Ok(None);
            }
            first = first.or(what);
        }
        Ok(first)
    }

    fn manifest(&mut self, info: &ObjectInfo) -> Result<Option<String>, StoreError> {
        self.summary.manifests += 1;
        let tickets = self.known.get(&info.root).into_iter().flatten();
        let tickets =
            tickets.filter_map(|k| RecordNote::decode(&k.note).ticket?.parse::<Ticket>().ok());
        let tickets: Vec<Ticket> = tickets.collect();
        signed::flaw(self.store, &info.root, &tickets)
    }

    fn sums(&self, info: &ObjectInfo) -> Result<Option<String>, StoreError> {
        let Some(file) = self.store.object(&info.root, ObjectPart::Sums)? else { return Ok(None) };
        Ok(sums::check(&file)?.map(str::to_owned))
    }

    /// Returns whether a directory has files of more than one segment, and hence packed outboards.
    fn has_packed(&self, root: &Hash) -> Result<bool, StoreError> {
        let size = SegmentSize::DEFAULT;
        let Some(file) = self.store.object(root, ObjectPart::Listing)? else { return Ok(false) };
        let len = file.metadata()?.size;
        // A damaged listing was reported already.
        let Ok(listing) = ListedFiles::open(file, len, root, size) else { return Ok(false) };
        for found in listing.entries() {
            if let EntryKind::File { size: bytes, .. } = found?.entry.kind
                && bytes > size.bytes() as u64
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reports parts that records need and that are missing.
    fn references(&mut self) -> Result<(), UpkeepError> {
        let mut missing = Vec::new();
        for (root, all) in &self.known {
            let Some(known) = all.first() else { continue };
            // A growing file has no stored tree.
            if record::is_growing(self.store, known) {
                continue;
            }
            let packed = known.directory && self.has_packed(root)?;
            let packed = packed.then_some(&ObjectPart::FileOutboards);
            for &part in needed(known).iter().chain(packed) {
                if self.store.info(root, part)?.is_none() {
                    missing.push((*root, part, os_path(&known.path)));
                }
            }
        }
        missing.sort_by(|a, b| a.2.cmp(&b.2));
        for (root, part, path) in missing {
            let what = format!("it is missing; {} needs it", path.display());
            let path = self.store.object_path(&root, part);
            self.found.push((root, CheckFinding { kind: FindingKind::Missing, path, what }));
        }
        Ok(())
    }

    /// Rebuilds the trees of damaged roots from unchanged files, and checks again.
    fn repair(&mut self, on_event: &mut dyn FnMut(LibraryEvent)) -> Result<(), UpkeepError> {
        let bad: BTreeSet<[u8; 32]> = self.found.iter().map(|(root, _)| *root.as_bytes()).collect();
        for root in bad.into_iter().map(Hash::from_bytes) {
            let Some(path) = self.rebuild_root(&root, on_event)? else { continue };
            self.found.retain(|(of, _)| *of != root);
            for part in ObjectPart::ALL {
                if let Some(info) = self.store.info(&root, part)? {
                    self.part(&info)?;
                }
            }
            if self.found.iter().all(|(of, _)| *of != root) {
                self.summary.repaired += 1;
                let what = format!("rebuilt from {}", path.display());
                let path = self.store.object_path(&root, ObjectPart::Outboard);
                self.found.push((root, CheckFinding { kind: FindingKind::Repaired, path, what }));
            }
        }
        Ok(())
    }

    /// Hashes the unchanged files recorded under `root`; returns the path of the first that has it.
    fn rebuild_root(
        &self,
        root: &Hash,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<Option<PathBuf>, UpkeepError> {
        let all = self.known.get(root).map(Vec::as_slice).unwrap_or_default();
        for known in all.iter().filter(|k| standing(self.store, k) == PathState::Unchanged) {
            let path = os_path(&known.path);
            match rebuild(self.store, &path, self.stop, on_event) {
                Ok(made) if made == *root => return Ok(Some(path)),
                Err(e) if e.blame() == Blame::Interrupted => return Err(UpkeepError::Interrupted),
                // Another file of the same root may be right.
                _ => {}
            }
        }
        Ok(None)
    }
}

/// Returns the parts without which a recorded path cannot be served.
fn needed(known: &CatalogRecord) -> &'static [ObjectPart] {
    match known.directory {
        true => &[ObjectPart::Listing, ObjectPart::Outboard],
        // A file of one segment has no tree besides its root.
        false if known.size <= SegmentSize::DEFAULT.bytes() as u64 => &[],
        false => &[ObjectPart::Outboard],
    }
}
