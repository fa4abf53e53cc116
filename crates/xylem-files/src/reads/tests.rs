//! A disk that blocks until a gate opens, behind a loop that must not block.

use std::fs;
use std::time::Instant;

use xylem_base::disk;
use xylem_store::{FileRef, OpenHow, StoreError};

use xylem_faults::Gate;

use super::*;

const NOW: Duration = Duration::from_secs(5);
const LIFETIME: Duration = Duration::from_secs(4);

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
