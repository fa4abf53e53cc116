//! A disk that fails, fills up or loses power at any step of a change that other members made. Whatever happens, each
//! file of the user is whole, in its place or in the trash; nothing damaged counts as a change of this member; and the
//! next attempt brings the folder in step.

use super::*;
use std::collections::BTreeMap;
use std::time::Duration as Time;
use xylem_base::{Stop, UnixTime};
use xylem_faults::{DiskFault, FaultMedium};
use xylem_files::walk::Selection;
use xylem_packet::{Component, Name};
use xylem_publish::publish;
use xylem_store::Store;

const ROOT: &str = "/folder";
const KEPT: &str = "/kept";
const STAGED: &str = "/staged";
/// When the contents were written, in seconds since 1970.
const WRITTEN: i64 = 1_000_000_000;
const NOW_MS: u64 = 1_000_000_100_000;
const HOUR_MS: u64 = 3_600_000;

/// Alice's files before and after the change, of sizes by which one torn page differs from another.
const BEFORE: &[(&str, &str)] = &[
    ("d/replaced", "replaced, old"),
    ("d/removed", "removed, old"),
    ("from", "moved, old"),
    ("e/last", "the only one in its directory"),
    ("mode", "another mode"),
    ("becomes-directory", "a file, old"),
    ("both", "both, old"),
];

fn content(text: &str) -> Vec<u8> {
    text.repeat(700).into_bytes()
}

fn file(text: &str, mode: u32) -> ItemKind {
    let content = content(text);
    let (root, size) = (xylem_hash::hash(&content), content.len() as u64);
    ItemKind::File { root, size, mode, mtime: (WRITTEN, 5) }
}

/// What the next apply may find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Step(DiskFault),
    Look,
    Read,
}

struct FailingWorld {
    medium: FaultMedium,
    folder: SyncFolder,
    theirs: Index,
    /// Contents that Alice's files had or have.
    contents: BTreeMap<Vec<u8>, String>,
    now_ms: u64,
}

fn opened(medium: &FaultMedium) -> Result<SyncFolder, FolderError> {
    let medium = FileMedium::from(Arc::new(medium.clone()));
    let mut folder = SyncFolder::open(&medium, ROOT.as_ref(), KEPT.as_ref(), BOB, "bob")?;
    folder.names.insert(ALICE, "alice".to_owned());
    folder.keep_versions(VersionPolicy::default());
    Ok(folder)
}

impl FailingWorld {
    /// A folder in step, and a change of Alice's that is not applied yet.
    fn new(medium: FaultMedium) -> Self {
        Self::with_more(medium, 0)
    }

    /// As [`Self::new`], with this many further new files in the change.
    fn with_more(medium: FaultMedium, more: usize) -> Self {
        for dir in [ROOT, KEPT, STAGED, "/store"] {
            medium.create_dir(dir.as_ref(), 0o700).unwrap();
        }
        let mut theirs = Index::default();
        theirs.names.insert(ALICE, "alice".to_owned());
        let folder = opened(&medium).unwrap();
        let mut world = Self { medium, folder, theirs, contents: BTreeMap::new(), now_ms: NOW_MS };
        for dir in ["d", "e", "f"] {
            world.alice_has(dir, ItemKind::Directory { mode: 0o755 });
        }
        for (path, text) in BEFORE {
            world.alice_writes(path, text, 0o640);
        }
        world.alice_has("link", ItemKind::Symlink { target: b"from".to_vec() });
        assert!(world.apply().unwrap().complete);
        world.scan().unwrap();
        assert_eq!(world.folder.state(), world.theirs.state());
        // Bob changes a file that Alice changes, too.
        let both = Path::new(ROOT).join("both");
        world.write(&both, b"both, bob");
        world.scan().unwrap();
        world.alice_writes("d/replaced", "replaced, new", 0o640);
        for gone in ["d/removed", "from", "e/last", "e"] {
            world.alice_has(gone, ItemKind::Gone);
        }
        world.alice_writes("new", "new", 0o600);
        world.alice_writes("f/one", "twice", 0o640);
        world.alice_writes("f/two", "twice", 0o640);
        world.alice_writes("to", "moved, old", 0o640);
        world.alice_writes("both", "both, alice", 0o640);
        world.alice_has("mode", file("another mode", 0o755));
        world.alice_has("becomes-directory", ItemKind::Directory { mode: 0o755 });
        world.alice_has("link", ItemKind::Symlink { target: b"to".to_vec() });
        for n in 0..more {
            world.alice_writes(&format!("more-{n}"), &format!("more, {n}"), 0o640);
        }
        world.medium.sync_all(ROOT.as_ref()).unwrap();
        world
    }

    /// The same world after the disk became this one, and with a new process.
    fn restarted(&self, medium: FaultMedium) -> Self {
        let folder = opened(&medium).unwrap();
        let (theirs, contents) = (self.theirs.clone(), self.contents.clone());
        Self { medium, folder, theirs, contents, now_ms: self.now_ms }
    }

    fn alice_has(&mut self, path: &str, kind: ItemKind) {
        let number = self.theirs.items.values().map(|item| item.version.number_of(&ALICE)).max();
        let number = number.unwrap_or(0) + 1;
        let item = self.theirs.items.entry(path.into()).or_insert_with(IndexItem::none);
        item.changed(kind, ALICE, 1_000 * WRITTEN as u64 + number, number);
    }

    fn alice_writes(&mut self, path: &str, text: &str, mode: u32) {
        self.contents.insert(content(text), text.to_owned());
        self.alice_has(path, file(text, mode));
    }

    /// Writes a file as another program does: nothing is synced.
    fn write(&self, path: &Path, bytes: &[u8]) {
        let _ = self.medium.remove_file(path);
        let file = self.medium.open(path, OpenHow::CreateNew { mode: 0o640 }).unwrap();
        assert_eq!(file.write_at(bytes, 0).unwrap(), bytes.len());
    }

    /// Plans what to take over, and stages what a fetch brings.
    fn stage(&mut self) -> (Plan, HashMap<Hash, Vec<u8>>) {
        let plan = self.folder.plan(&self.theirs).unwrap();
        let wanted = plan.wanted(&self.theirs).unwrap();
        let wanted: HashMap<Hash, Vec<u8>> =
            wanted.into_keys().map(|root| (root, root.to_string().into_bytes())).collect();
        for bytes in self.contents.keys() {
            let root = xylem_hash::hash(bytes);
            if wanted.contains_key(&root) {
                self.write(&Path::new(STAGED).join(root.to_string()), bytes);
            }
        }
        (plan, wanted)
    }

    fn apply(&mut self) -> Result<Applied, FolderError> {
        let (plan, wanted) = self.stage();
        self.folder.apply(plan, STAGED.as_ref(), &wanted, self.now_ms)
    }

    fn scan(&mut self) -> Result<(), FolderError> {
        let root = self.publish();
        self.folder.record_scan("/store".as_ref(), &root, b"", self.now_ms)
    }

    /// Publishes the folder, and returns its root.
    fn publish(&mut self) -> Hash {
        self.now_ms += HOUR_MS;
        let store = Store::open(self.folder.medium().shared(), "/store".as_ref()).unwrap();
        let selection = Selection { in_step: true, ..Selection::default() };
        let name = |_: &[u8]| -> Name { [Component::generic(b"x")].into_iter().collect() };
        let now = UnixTime::new(Time::from_secs(1));
        let published =
            publish(&store, ROOT.as_ref(), &name, &selection, now, &Stop::new(), &mut |_| {});
        published.unwrap().0.manifest.root
    }

    /// All files below a directory.
    fn files(&self, dir: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut dirs, mut files) = (vec![PathBuf::from(dir)], BTreeMap::new());
        while let Some(dir) = dirs.pop() {
            for item in self.medium.list_dir(&dir).unwrap_or_default() {
                let path = dir.join(item.name);
                match item.kind {
                    FileKind::Directory => dirs.push(path),
                    FileKind::File => {
                        drop(files.insert(path.clone(), self.medium.read(&path).unwrap()))
                    }
                    _ => {}
                }
            }
        }
        files
    }

    /// Checks that nothing of the user's is lost or damaged.
    fn check_whole(&self, what: &str) {
        let own = Path::new(ROOT).join(xylem_files::ours::OWN);
        let trash = own.join("trash");
        let all = self.files(ROOT);
        let mut there: Vec<&[u8]> = Vec::new();
        for (path, bytes) in &all {
            let is_known = self.contents.contains_key(bytes) || bytes == b"both, bob";
            if !path.starts_with(&own) {
                assert!(is_known, "{what}: {} is damaged", path.display());
            }
            if !path.starts_with(&own) || path.starts_with(&trash) {
                there.push(bytes);
            }
        }
        let users =
            BEFORE.iter().filter(|(path, _)| *path != "both").map(|(_, text)| content(text));
        for bytes in users.chain([b"both, bob".to_vec()]) {
            let name = String::from_utf8_lossy(&bytes[..9]).into_owned();
            assert!(
                there.contains(&&bytes[..]),
                "{what}: {name} is lost; there are {:?}",
                all.keys()
            );
        }
    }

    /// Brings the folder in step, without faults.
    fn recover(&mut self, before: &BTreeMap<Vec<u8>, IndexItem>, what: &str) {
        self.scan().unwrap_or_else(|e| panic!("{what}: {e}"));
        // What the scan found is the state before the change or after it, and no change of this member.
        for entry in self.folder.stored.entries().unwrap() {
            let (path, item) = entry.unwrap();
            let known = [before.get(&path), self.theirs.items.get(&path)];
            let is_known = known.iter().flatten().any(|known| known.content == item.content)
                || path.starts_with(b"both");
            assert!(
                is_known,
                "{what}: {} became a change of this member: {item:?}",
                String::from_utf8_lossy(&path)
            );
        }
        for _ in 0..4 {
            self.now_ms += HOUR_MS;
            let applied = self.apply().unwrap_or_else(|e| panic!("{what}: {e}"));
            self.scan().unwrap();
            if applied.complete {
                break;
            }
        }
        self.check_whole(what);
        for (path, item) in &self.theirs.items {
            let at = Path::new(ROOT).join(os_path(path));
            assert!(
                path == b"both" || self.folder.matches_index(&at, &item.kind).unwrap(),
                "{what}: {} is not in step; obstacles {:?}",
                at.display(),
                self.folder.obstacles.iter().collect::<Vec<_>>()
            );
        }
        let contents = self.files(ROOT);
        let at = |path: &str| contents.get(&Path::new(ROOT).join(path)).cloned();
        for (path, text) in [("new", "new"), ("f/two", "twice"), ("d/replaced", "replaced, new")] {
            assert_eq!(at(path), Some(content(text)), "{what}: {path}");
        }
    }

    fn items(&self) -> BTreeMap<Vec<u8>, IndexItem> {
        self.folder.stored.entries().unwrap().map(Result::unwrap).collect()
    }
}

/// Runs the change with this fault at every place where it can occur.
fn at_every_place(fault: Fault, exchange: bool, then: &dyn Fn(&FailingWorld, &str, u64)) {
    let medium = FaultMedium::new();
    if !exchange {
        medium.refuse_exchange();
    }
    at_every_place_of(&FailingWorld::new(medium), fault, then);
}

/// As [`at_every_place`], of the change of this world.
fn at_every_place_of(base: &FailingWorld, fault: Fault, then: &dyn Fn(&FailingWorld, &str, u64)) {
    let before = base.items();
    for n in 0.. {
        let what = format!("{fault:?} {n}");
        let mut world = base.restarted(base.medium.image());
        let (plan, wanted) = world.stage();
        match fault {
            Fault::Step(fault) => world.medium.fail_after(n, fault),
            Fault::Look => world.medium.fail_look_after(n),
            Fault::Read => world.medium.fail_read_after(n),
        }
        let done = world.folder.apply(plan, STAGED.as_ref(), &wanted, world.now_ms);
        let has_failed = world.medium.has_failed();
        world.medium.heal();
        then(&world, &what, n);
        if !matches!(fault, Fault::Step(DiskFault::Dead | DiskFault::Torn)) || !has_failed {
            world.check_whole(&what);
            world.recover(&before, &what);
        }
        if !has_failed {
            assert!(done.unwrap().complete, "{what}");
            assert!(n > 5, "{fault:?}: only {n} places");
            return;
        }
    }
}

fn killed(world: &FailingWorld, before: &BTreeMap<Vec<u8>, IndexItem>, what: &str) {
    let mut next = world.restarted(world.medium.image());
    next.check_whole(what);
    next.recover(before, what);
}

#[test]
fn a_step_that_fails_loses_nothing() {
    for exchange in [true, false] {
        at_every_place(Fault::Step(DiskFault::Once), exchange, &|_, _, _| {});
    }
}

#[test]
fn a_look_or_read_that_fails_loses_nothing() {
    at_every_place(Fault::Look, true, &|_, _, _| {});
    at_every_place(Fault::Read, true, &|_, _, _| {});
}

#[test]
fn a_full_disk_loses_nothing() {
    for exchange in [true, false] {
        at_every_place(Fault::Step(DiskFault::Full), exchange, &|_, _, _| {});
    }
}

#[test]
fn a_process_that_ends_anywhere_loses_nothing() {
    for exchange in [true, false] {
        let before = FailingWorld::new(FaultMedium::new()).items();
        at_every_place(Fault::Step(DiskFault::Torn), exchange, &|world, what, _| {
            killed(world, &before, &format!("{what}, killed"));
        });
    }
}

/// A few files are flushed one by one, many all at once.
#[test]
fn a_power_cut_anywhere_loses_nothing() {
    for (more, seeds) in [(0, 4), (FEW, 1)] {
        let base = FailingWorld::with_more(FaultMedium::new(), more);
        let before = base.items();
        at_every_place_of(&base, Fault::Step(DiskFault::Dead), &|world, what, n| {
            for seed in 0..seeds {
                let what = format!("{what}, {more} more files, power cut {seed}");
                let mut next = world.restarted(world.medium.power_cut_in_order(4 * n + seed));
                next.check_whole(&what);
                next.recover(&before, &what);
            }
        });
    }
}

/// Saves of the index, after a scan and for other members.
#[test]
fn an_index_that_cannot_be_saved_stays_as_it_was() {
    let base = FailingWorld::new(FaultMedium::new());
    base.write(&Path::new(ROOT).join("mine"), b"both, bob");
    let before = base.items();
    for fault in [DiskFault::Once, DiskFault::Full, DiskFault::Torn, DiskFault::Dead] {
        for n in 0.. {
            let what = format!("{fault:?} {n}");
            let mut world = base.restarted(base.medium.image());
            let root = world.publish();
            world.medium.fail_after(n, fault);
            let saved = world.folder.record_scan("/store".as_ref(), &root, b"", world.now_ms);
            let told = saved.and_then(|()| world.folder.publish_index());
            let has_failed = world.medium.has_failed();
            assert!(told.is_ok() || has_failed, "{what}");
            world.medium.heal();
            let mut images = vec![world.medium.image()];
            images.extend((0..4).map(|seed| world.medium.power_cut(4 * n + seed)));
            for medium in images {
                // What the device does not have was not announced: the scan finds it again.
                let mut next = world.restarted(medium);
                next.scan().unwrap();
                let mut items = next.items();
                assert_eq!(items.remove(b"mine".as_slice()).unwrap().content.by, BOB, "{what}");
                assert_eq!(items.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
                let same = items.iter().all(|(path, item)| before[path].version == item.version);
                assert!(same, "{what}: {items:?}");
            }
            if !has_failed {
                assert!(n > 5, "{fault:?}: only {n} places");
                break;
            }
        }
    }
}

#[test]
fn a_restored_version_and_what_it_replaces_survive_any_step() {
    let place = Path::new("/folder/d/replaced");
    for exchange in [true, false] {
        let mut base = FailingWorld::new(FaultMedium::new());
        assert!(base.apply().unwrap().complete);
        if !exchange {
            base.medium.refuse_exchange();
        }
        for fault in [DiskFault::Once, DiskFault::Full, DiskFault::Torn] {
            for n in 0.. {
                let what = format!("{fault:?} {n}");
                let medium = base.medium.image();
                let on = FileMedium::from(Arc::new(medium.clone()));
                let all = crate::kept_versions(&on, ROOT.as_ref(), b"d/replaced").unwrap();
                medium.fail_after(n, fault);
                let path = b"d/replaced";
                let done = crate::restore(&on, ROOT.as_ref(), path, &all[0], base.now_ms);
                let has_failed = medium.has_failed();
                let world = base.restarted(medium.image());
                let there = world.files(ROOT);
                let is_there = |text: &str| there.values().any(|bytes| *bytes == content(text));
                assert!(is_there("replaced, old") && is_there("replaced, new"), "{what}");
                // A disk that dies between two renames leaves the file in the trash alone.
                let may_miss = !exchange && fault == DiskFault::Torn;
                let in_place = there.get(place);
                let known = ["replaced, old", "replaced, new"].map(content);
                assert!(in_place.map_or(may_miss, |bytes| known.contains(bytes)), "{what}");
                if !has_failed {
                    assert_eq!(done.unwrap(), crate::Restored::Replaced, "{what}");
                    break;
                }
            }
        }
    }
}
