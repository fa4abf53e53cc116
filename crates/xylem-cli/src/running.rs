//! [`NoteWriter`]: a note in the store about what this process does, for `xylem ui` (docs/spec/store.md).
//!
//! The note is `STORE/run/ID.json`. The file `ID.lock` beside it is locked as long as the process lives, which
//! distinguishes running processes from killed ones. A thread of its own writes the note, at most once a second: no
//! fetch waits for this write, and none fails because of it. The note contains no ticket, no key and no content.

mod note;

pub(crate) use note::ProcessNote;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use xylem_base::disk;
use xylem_node::{Event, at_changes, wall_clock};
use xylem_store::Store;

const FOLDER: &str = "run";
/// Notes that are read at most. The limit of one note's bytes follows.
const MAX_NOTES: usize = 256;
const MAX_NOTE: u64 = 1 << 20;

/// See the module's documentation. The note goes when this is dropped.
pub(crate) struct NoteWriter {
    note: Arc<Mutex<ProcessNote>>,
    changed: Option<SyncSender<()>>,
    writer: Option<JoinHandle<()>>,
}

impl NoteWriter {
    /// Starts a note that this process does `verb`; `None` if it cannot be written in this store, or the system cannot
    /// start a thread.
    pub(crate) fn begin(verb: &str, store: &Path) -> Option<Self> {
        drop(Store::open(disk(), store).ok()?);
        let files = NoteFiles::begin(store).ok()?;
        let now = wall_clock().milliseconds();
        let pid = std::process::id();
        let note = ProcessNote {
            verb: verb.into(),
            pid,
            since_ms: now,
            at_ms: now,
            ..ProcessNote::default()
        };
        files.write(&note).ok()?;
        let note = Arc::new(Mutex::new(note));
        let (changed, changes) = sync_channel(1);
        let of = note.clone();
        // The thread writes one small file, so a small stack is enough; address space may be scarce.
        let writer = thread::Builder::new().name("note".into()).stack_size(256 * 1024);
        let writer = writer.spawn(move || write_all(&files, &of, &changes)).ok()?;
        Some(Self { note, changed: Some(changed), writer: Some(writer) })
    }

    /// Updates the note by an event.
    pub(crate) fn see(&self, event: &Event) {
        let mut note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
        if note.see(event) {
            note.at_ms = wall_clock().milliseconds();
            drop(note);
            // If the channel is full, the writer is notified already. If it is closed, there is no place to write to.
            let _ = self.changed.as_ref().map(|changed| changed.try_send(()));
        }
    }
}

impl Drop for NoteWriter {
    fn drop(&mut self) {
        self.changed = None;
        let _ = self.writer.take().map(JoinHandle::join);
    }
}

/// Writes the note after each change until its last owner is gone, then removes it.
fn write_all(files: &NoteFiles, note: &Mutex<ProcessNote>, changes: &Receiver<()>) {
    at_changes(changes, || {
        let now = note.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Ignore failures: a disk that is full now may have room in a second.
        let _ = files.write(&now);
    });
    files.remove();
}

/// The files of one note.
struct NoteFiles {
    note: PathBuf,
    new: PathBuf,
    lock: PathBuf,
    /// Holds the lock.
    _held: File,
}

impl NoteFiles {
    fn begin(store: &Path) -> io::Result<Self> {
        let folder = store.join(FOLDER);
        private_dir(&folder)?;
        let random = xylem_base::random::<6>().map_err(io::Error::other)?;
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = |end: &str| folder.join(format!("{}-{random}.{end}", std::process::id()));
        let held = private_file(&path("lock"))?;
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(e)) => return Err(e),
        }
        Ok(Self { note: path("json"), new: path("new"), lock: path("lock"), _held: held })
    }

    /// Replaces the note atomically.
    fn write(&self, note: &ProcessNote) -> io::Result<()> {
        let text = serde_json::to_vec(note)?;
        let _ = fs::remove_file(&self.new);
        private_file(&self.new)?.write_all(&text)?;
        fs::rename(&self.new, &self.note)
    }

    fn remove(&self) {
        // Remove the lock last: a note without a lock counts as that of a killed process.
        for path in [&self.new, &self.note, &self.lock] {
            let _ = fs::remove_file(path);
        }
    }
}

fn private_dir(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The notes of all processes that run on a store, oldest first. Removes those of processes that were killed.
pub(crate) fn notes(store: &Path) -> Vec<ProcessNote> {
    let Ok(entries) = fs::read_dir(store.join(FOLDER)) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let is_note = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    let mut notes: Vec<ProcessNote> =
        paths.filter(is_note).take(MAX_NOTES).filter_map(|path| read(&path)).collect();
    notes.sort_by_key(|note| (note.since_ms, note.pid));
    notes
}

fn read(path: &Path) -> Option<ProcessNote> {
    let lock = path.with_extension("lock");
    let runs = match File::open(&lock) {
        Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    };
    if !runs {
        for path in [path, &path.with_extension("new"), &lock] {
            let _ = fs::remove_file(path);
        }
        return None;
    }
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_NOTE).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_note_is_there_while_its_process_runs() {
        let store = tempfile::tempdir().unwrap();
        assert!(notes(store.path()).is_empty());
        let running = NoteWriter::begin("get", store.path()).unwrap();
        let second = NoteWriter::begin("share", store.path()).unwrap();
        let verbs: Vec<String> = notes(store.path()).into_iter().map(|note| note.verb).collect();
        assert_eq!(verbs.len(), 2, "{verbs:?}");
        running.see(&Event::Unanswered { peers: Vec::new(), seconds: 1.0 });
        while !notes(store.path()).iter().any(|note| note.phase == "looking") {
            thread::sleep(Duration::from_millis(10));
        }
        drop((running, second));
        assert_eq!(fs::read_dir(store.path().join(FOLDER)).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn notes_of_killed_processes_are_removed() {
        let store = tempfile::tempdir().unwrap();
        let folder = store.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        let note = serde_json::to_vec(&ProcessNote::default()).unwrap();
        for file in ["7-a.json", "8-b.json"] {
            fs::write(folder.join(file), &note).unwrap();
        }
        fs::write(folder.join("7-a.lock"), "").unwrap();
        assert!(notes(store.path()).is_empty());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_store_without_notes_causes_no_failure() {
        let store = tempfile::tempdir().unwrap();
        fs::write(store.path().join(FOLDER), "a file").unwrap();
        assert!(NoteWriter::begin("get", store.path()).is_none());
        assert!(NoteWriter::begin("get", &store.path().join(FOLDER)).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn notes_are_private_to_the_user() {
        use std::os::unix::fs::PermissionsExt;
        let store = tempfile::tempdir().unwrap();
        let _running = NoteWriter::begin("get", store.path()).unwrap();
        let folder = store.path().join(FOLDER);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077;
        assert_eq!(mode(&folder), 0);
        for entry in fs::read_dir(&folder).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0);
        }
    }
}
