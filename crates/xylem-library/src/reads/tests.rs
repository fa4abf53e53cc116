//! A disk that blocks until a gate opens, behind a loop that must not block.

use std::any::Any;
use std::ffi::OsStr;
use std::fs;
use std::time::Instant;

use xylem_store::{Clobber, FileKind, FileRef, FileTime, MediumFile, Meta, OpenHow, StoreError};

use xylem_object::naming::{self, ObjectId, PublicationRequest};
use xylem_object::{Publication, PublisherKey, ServeOutcome};
use xylem_packet::{Interest, InterestBuilder, Name};
use xylem_store::Store;
use xylem_tree::{SegmentIndex, Tile};

use super::*;
use crate::disk::disk;
use crate::publications::{Publications, ReceivedInterest, ServedContent};
use crate::publish::publish;
use crate::stop::Stop;
use crate::time::UnixTime;
use crate::walk::Selection;

const NOW: Duration = Duration::from_secs(5);
const LIFETIME: Duration = Duration::from_secs(4);

/// The disk behind a gate, which counts the bytes read. While the gate is closed, only threads that read may wait for it.
#[derive(Clone)]
struct Gate {
    state: Arc<(Mutex<(bool, u64)>, Condvar)>,
    is_far: bool,
    below: Arc<dyn Medium>,
}

impl Gate {
    fn closed() -> Self {
        let state = Arc::new((Mutex::new((false, 0)), Condvar::new()));
        Self { state, is_far: true, below: disk() }
    }

    fn open(&self) {
        self.state.0.lock().unwrap().0 = true;
        self.state.1.notify_all();
    }

    fn close(&self) {
        self.state.0.lock().unwrap().0 = false;
    }

    fn is_open(&self) -> bool {
        self.state.0.lock().unwrap().0
    }

    fn pass(&self, bytes: u64) {
        let is_reader = thread::current().name() == Some("xylem-read");
        assert!(is_reader || self.is_open(), "the loop waits for the disk");
        let state = self.state.0.lock().unwrap();
        let mut state = self.state.1.wait_while(state, |state| !state.0).unwrap();
        state.1 += bytes;
    }

    fn read(&self) -> u64 {
        self.state.0.lock().unwrap().1
    }
}

struct Gated(Gate, Arc<dyn MediumFile>);

impl MediumFile for Gated {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.pass(buf.len() as u64);
        self.1.read_at(buf, offset)
    }

    fn read_at_no_wait(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.0.is_open() {
            true => self.read_at(buf, offset),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn metadata(&self) -> io::Result<Meta> {
        self.0.pass(0);
        self.1.metadata()
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.1.write_at(buf, offset)
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        self.1.set_len(size)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.1.set_mode(mode)
    }

    fn set_mtime(&self, mtime: FileTime) -> io::Result<()> {
        self.1.set_mtime(mtime)
    }

    fn sync(&self) -> io::Result<()> {
        self.1.sync()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.1.try_lock()
    }
}

impl Medium for Gate {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        self.pass(0);
        Ok(Arc::new(Gated(self.clone(), self.below.open(path, how)?)))
    }

    fn open_no_wait(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        match self.is_open() {
            true => Medium::open(self, path, how),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn is_remote(&self, _: &Path) -> bool {
        self.is_far
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Medium>> {
        Ok(Arc::new(Self { below: self.below.open_dir(path)?, ..self.clone() }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Meta> {
        self.below.metadata(path)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.below.create_dir(path, mode)
    }

    fn for_each_name(&self, path: &Path, take: &mut dyn FnMut(&OsStr, FileKind)) -> io::Result<()> {
        self.below.for_each_name(path, take)
    }

    fn rename(&self, from: &Path, to: &Path, clobber: Clobber) -> io::Result<()> {
        self.below.rename(from, to, clobber)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.below.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.below.remove_dir(path)
    }

    fn symlink(&self, target: &Path, link: &Path) -> io::Result<()> {
        self.below.symlink(target, link)
    }

    fn hard_link(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let to: &Self = to.as_any().downcast_ref().ok_or(io::ErrorKind::Unsupported)?;
        self.below.hard_link(name, &*to.below, new)
    }

    fn move_to(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        let to: &Self = to.as_any().downcast_ref().ok_or(io::ErrorKind::Unsupported)?;
        self.below.move_to(name, &*to.below, new)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.below.read_link(path)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.below.set_mode(path, mode)
    }

    fn set_mtime(&self, path: &Path, mtime: FileTime) -> io::Result<()> {
        self.below.set_mtime(path, mtime)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.below.sync_dir(path)
    }
}

/// Waits until something is ready.
fn ready(reads: &Reads) -> Vec<(u64, Vec<u8>)> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let ready = reads.ready(NOW);
        if !ready.is_empty() {
            return ready;
        }
        assert!(Instant::now() < deadline, "nothing is ever ready");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Reads 8 KiB at that place as the loop does, repeating after each wake.
fn until_read(reads: &Reads, path: &Path, offset: u64) -> Result<Vec<u8>, StoreError> {
    let medium = reads.medium();
    let mut out = vec![0; 8192];
    loop {
        reads.begin(NOW, 1);
        let read = FileRef::open(&*medium, path, OpenHow::Read).and_then(|file| {
            file.metadata()?;
            file.read_full(&mut out, offset)
        });
        match read {
            Err(e) if e.is_waiting() => {
                assert!(reads.wait(NOW, 1, b"question", LIFETIME));
                assert_eq!(ready(reads), [(1, b"question".to_vec())]);
            }
            Err(e) => return Err(e),
            Ok(len) => {
                out.truncate(len);
                return Ok(out);
            }
        }
    }
}

#[test]
fn content_not_at_hand_is_read_by_threads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&path, &content).unwrap();
    let gate = Gate::closed();
    let reads = Reads::over(Arc::new(gate.clone()), &path);
    assert!(reads.is_slow());
    // The loop does not block, however long the disk takes.
    let medium = reads.medium();
    reads.begin(NOW, 7);
    let file = FileRef::open(&*medium, &path, OpenHow::Read).unwrap();
    assert!(file.read_full(&mut [0; 10], 0).unwrap_err().is_waiting());
    assert!(reads.wait(NOW, 7, b"one", LIFETIME));
    assert!(!reads.wait(NOW, 7, b"two", LIFETIME), "nothing more was wanted");
    assert!(reads.ready(NOW).is_empty());
    gate.open();
    assert_eq!(ready(&reads), [(7, b"one".to_vec())]);
    let mut out = [0; 10];
    assert_eq!(file.read_full(&mut out, 0).unwrap(), 10);
    assert_eq!(out, content[..10]);
    for offset in [0, 8192, 300_000, 399_000, 81_920] {
        let end = content.len().min(offset + 8192);
        assert_eq!(until_read(&reads, &path, offset as u64).unwrap(), content[offset..end]);
    }
    assert!(gate.read() <= 6 * 8192 + 10, "{} bytes", gate.read());
}

#[test]
fn a_failed_read_is_reported_and_then_retried() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Gate::closed();
    gate.open();
    let reads = Reads::over(Arc::new(gate), dir.path());
    let missing = dir.path().join("missing");
    let error = until_read(&reads, &missing, 0).unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    // The file is looked up again.
    fs::write(&missing, [1; 20_000]).unwrap();
    assert_eq!(until_read(&reads, &missing, 0).unwrap(), [1; 8192]);
}

#[test]
fn expired_interests_are_dropped_and_hanging_reads_do_not_block_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![3; 1_000_000]).unwrap();
    let gate = Gate::closed();
    let reads = Reads::over(Arc::new(gate.clone()), &path);
    let medium = reads.medium();
    let file = FileRef::open(&*medium, &path, OpenHow::Read).unwrap();
    for asker in 0..20 {
        reads.begin(NOW, asker);
        let offset = asker * 16_384;
        assert!(file.read_full(&mut [0; 8192], offset).unwrap_err().is_waiting());
        assert!(reads.wait(NOW, asker, b"question", LIFETIME));
    }
    // The Interests expire while all threads hang.
    assert!(reads.ready(NOW + LIFETIME).is_empty());
    gate.open();
    let deadline = Instant::now() + Duration::from_secs(30);
    while reads.shared.state().idle < THREADS {
        assert!(reads.ready(NOW + LIFETIME).is_empty(), "answered late");
        assert!(Instant::now() < deadline, "threads never rest");
        thread::sleep(Duration::from_millis(1));
    }
    // Dropping `Reads` does not wait for hanging threads.
    let gate = Gate::closed();
    let hangs = Reads::over(Arc::new(gate.clone()), &path);
    let medium = hangs.medium();
    let file = FileRef::open(&*medium, &path, OpenHow::Read).unwrap();
    assert!(file.read_full(&mut [0; 8192], 0).unwrap_err().is_waiting());
    assert!(hangs.wait(NOW, 1, b"question", LIFETIME));
    drop(hangs);
    gate.open();
}

#[test]
fn a_local_file_is_read_at_once_where_the_system_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![5; 100_000]).unwrap();
    let reads = Reads::over(disk(), &path);
    assert!(!reads.is_slow());
    // The read succeeds at once or after a thread has read: never an error, whatever the system has cached.
    assert_eq!(until_read(&reads, &path, 50_000).unwrap(), [5; 8192]);
    assert_eq!(until_read(&reads, &path, 99_000).unwrap(), [5; 1000]);
}

/// Wrong bytes are read once more. Bytes read along with them are not, because each read may have a price.
#[test]
fn only_wrong_bytes_are_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![7; 4 << 20]).unwrap();
    let gate = Gate::closed();
    gate.open();
    let reads = Reads::over(Arc::new(gate.clone()), &path);
    let read = |offset| assert_eq!(until_read(&reads, &path, offset).unwrap(), [7; 8192]);
    (0..4 << 20).step_by(8192).for_each(read);
    let before = gate.read();
    assert!(reads.shared.state().held.iter().any(|held| held.bytes.len() > 8192), "read ahead");
    let number = reads.shared.state().open[0].1.number();
    let wrong = [0, 1 << 20, (2 << 20) + 8192, (4 << 20) - 8192];
    for offset in wrong {
        reads.shared.forget(number, &(offset..offset + 8192));
        reads.shared.forget(number + 1, &(0..4 << 20));
    }
    // Jumps from place to place, so that nothing is read ahead.
    read(3 << 20);
    for offset in wrong {
        read((offset + 8192) % (4 << 20));
        read(offset);
        read(offset.saturating_sub(8192));
    }
    assert_eq!(gate.read() - before, 8192 * wrong.len() as u64);
}

/// Reads at that place of a file that more is written to.
fn until_grown(reads: &Reads, file: &FileRef, len: usize, offset: u64) -> Vec<u8> {
    let mut out = vec![0; len];
    loop {
        reads.begin(NOW, 1);
        match file.read_full(&mut out, offset) {
            Err(e) => {
                assert!(e.is_waiting(), "{e}");
                assert!(reads.wait(NOW, 1, b"question", LIFETIME));
                ready(reads);
            }
            Ok(len) => {
                out.truncate(len);
                return out;
            }
        }
    }
}

#[test]
fn what_is_written_later_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nodes");
    fs::write(&path, [[0; 32], [1; 32]].concat()).unwrap();
    let gate = Gate::closed();
    gate.open();
    let reads = Reads::over(Arc::new(gate.clone()), &path);
    let file = FileRef::open(&gate, &path, OpenHow::Read).unwrap();
    let (nodes, fixed) =
        (reads.growing(&file, ReadKind::GrowingNodes), reads.growing(&file, ReadKind::Fixed));
    let before = [[0; 32], [1; 32]].concat();
    assert_eq!(until_grown(&reads, &nodes.file, 96, 0), before);
    assert_eq!(until_grown(&reads, &fixed.file, 96, 32), [1; 32]);
    let after = [[2; 32], [1; 32], [3; 32]].concat();
    fs::write(&path, &after).unwrap();
    assert_eq!(until_grown(&reads, &nodes.file, 96, 0), before, "it was not said to have grown");
    nodes.grew();
    fixed.grew();
    assert_eq!(until_grown(&reads, &nodes.file, 96, 0), after);
    assert_eq!(until_grown(&reads, &fixed.file, 96, 32), after[32..]);
    // What was read once is held, however late.
    let held = gate.read();
    reads.ready(NOW + 100 * HELD_FOR);
    assert_eq!(until_grown(&reads, &nodes.file, 96, 0), after);
    assert_eq!(gate.read(), held);
}

/// Answers an Interest for this request, as the serving loop does.
fn answered(all: &mut Publications, prefix: &Name, request: PublicationRequest) -> ServeOutcome {
    let (name, mut packet) = (naming::encode(prefix.as_ref(), &request), Vec::new());
    InterestBuilder::new(name.as_ref()).nonce([1; 4]).encode(&mut packet).unwrap();
    let interest = Interest::decode(&packet).unwrap();
    let asked = ReceivedInterest { now: NOW, by: 1, interest: &interest, packet: &packet };
    all.answer(&asked, &mut Vec::new()).1.unwrap()
}

#[test]
fn trees_listings_and_opening_wait_on_threads() {
    let dir = tempfile::tempdir().unwrap();
    let (file, folder) = (dir.path().join("file"), dir.path().join("folder"));
    fs::write(&file, vec![1; 1_000_000]).unwrap();
    fs::create_dir(&folder).unwrap();
    for n in 0..100 {
        fs::write(folder.join(format!("{n:03}")), vec![n; 20_000]).unwrap();
    }
    let gate = Gate { is_far: false, ..Gate::closed() };
    let segment =
        |object, index| PublicationRequest::Segment { object, index: SegmentIndex(index) };
    let tile = |object| PublicationRequest::Tile { object, tile: Tile { tier: 0, index: 0 } };
    let requests = [
        (&file, segment(ObjectId::Root, 20)),
        (&file, tile(ObjectId::Root)),
        (&folder, segment(ObjectId::Root, 0)),
        (&folder, segment(ObjectId::File(70), 2)),
    ];
    for (path, request) in requests {
        gate.open();
        let store = Store::open(Arc::new(gate.clone()), &dir.path().join("store")).unwrap();
        let key = PublisherKey::from_bytes(&[7; 32]);
        let name = |file: &[u8]| naming::default_name(&key.public(), file);
        let (selection, now) = (Selection::default(), UnixTime::new(NOW));
        let (published, prefix) =
            publish(&store, path, &name, &selection, now, &Stop::new(), &mut |_| {}).unwrap();
        let packet = published.sign(&prefix, &key).unwrap();
        let publication = Publication::new(prefix.clone(), packet, &key.public()).unwrap().into();
        let serving = Box::new(published.serve_without_waiting(store.medium().clone()));
        let mut all = Publications::default();
        all.add(ServedContent::Still { publication, serving });
        gate.close();
        assert_eq!(answered(&mut all, &prefix, request), ServeOutcome::NotYet, "{request:?}");
        assert!(all.ready(NOW).is_empty());
        gate.open();
        let deadline = Instant::now() + Duration::from_secs(30);
        while all.ready(NOW).is_empty() {
            assert!(Instant::now() < deadline, "{request:?} is never ready");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(answered(&mut all, &prefix, request), ServeOutcome::Data, "{request:?}");
    }
}
