//! The cache over a disk that fails, is damaged, or hangs.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use xylem_faults::{DiskFault, FaultMedium, Gate};
use xylem_packet::{Component, DataBuilder, Name};

use super::*;

const ASKER: FaceId = FaceId(1);
/// After this long a test gives up waiting for a thread.
const PATIENCE: Duration = Duration::from_secs(60);

fn packet(n: u64) -> (Name, Vec<u8>) {
    let name = Name::from_uri("/x").unwrap().child(Component::segment(n));
    let mut out = Vec::new();
    DataBuilder::new(name.as_ref())
        .encode(&mut out, &[n as u8; 900], |_, value| value.extend_from_slice(&[0; 32]))
        .unwrap();
    (name, out)
}

fn ask(cache: &mut DiskCache, asker: FaceId, n: u64) -> SecondLevelAnswer {
    let (name, expected) = packet(n);
    let mut found = Vec::new();
    let answer = cache.get(asker, name.as_ref(), false, &mut found);
    let at_hand = answer == SecondLevelAnswer::Found;
    assert_eq!(found, if at_hand { expected } else { Vec::new() });
    answer
}

/// Waits for the next read; returns its number and packet.
fn next_read(cache: &mut DiskCache) -> (u64, Vec<u8>) {
    let deadline = Instant::now() + PATIENCE;
    let mut packet = Vec::new();
    loop {
        if let Some(number) = cache.next_read(&mut packet) {
            return (number, packet);
        }
        assert!(Instant::now() < deadline, "no read ever ends");
        thread::sleep(Duration::from_millis(1));
    }
}

fn got(cache: &mut DiskCache, n: u64) -> bool {
    match ask(cache, ASKER, n) {
        SecondLevelAnswer::Found => true,
        SecondLevelAnswer::Absent => false,
        SecondLevelAnswer::Reading(number) => {
            let (read, found) = next_read(cache);
            assert_eq!(read, number);
            assert!(found.is_empty() || found == packet(n).1, "what was put");
            !found.is_empty()
        }
    }
}

fn put(cache: &mut DiskCache, range: std::ops::Range<u64>) {
    for n in range {
        let (name, packet) = packet(n);
        cache.put(name.as_ref(), &packet);
    }
}

/// Waits until the disk has done what it was given.
fn settle(cache: &DiskCache) {
    let deadline = Instant::now() + PATIENCE;
    while !cache.shared.state().is_settled() {
        assert!(Instant::now() < deadline, "the disk is never done");
        thread::sleep(Duration::from_millis(1));
    }
}

fn put_all(cache: &mut DiskCache, range: std::ops::Range<u64>) {
    for n in range {
        put(cache, n..n + 1);
        settle(cache);
    }
}

#[test]
fn packets_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = DiskCache::open(xylem_base::disk(), directory.path(), 1 << 20).unwrap();
    put(&mut cache, 0..10);
    assert!((0..10).all(|n| got(&mut cache, n)) && !got(&mut cache, 10));
    settle(&cache);
    assert!((0..10).all(|n| got(&mut cache, n)) && !got(&mut cache, 10));
    let mut cache = DiskCache::open(xylem_base::disk(), directory.path(), 1 << 20).unwrap();
    assert!((0..10).all(|n| got(&mut cache, n)) && cache.len() == 10);
    let prefix = Name::from_uri("/x").unwrap();
    let mut get = |can_be_prefix| cache.get(ASKER, prefix.as_ref(), can_be_prefix, &mut Vec::new());
    assert_eq!((get(true), get(false)), (SecondLevelAnswer::Found, SecondLevelAnswer::Absent));
    assert_eq!(cache.erase(prefix.as_ref(), 4), 4);
    assert_eq!(cache.erase(prefix.as_ref(), u64::MAX), 6);
    let left = cache.get(ASKER, prefix.as_ref(), true, &mut Vec::new());
    assert!(left == SecondLevelAnswer::Absent && cache.is_empty());
}

#[test]
fn the_oldest_packets_go_and_disk_use_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = DiskCache::open(xylem_base::disk(), directory.path(), 20_000).unwrap();
    put_all(&mut cache, 0..200);
    assert!((190..200).all(|n| got(&mut cache, n)) && !got(&mut cache, 170));
    let sizes = std::fs::read_dir(directory.path()).unwrap();
    let used: u64 = sizes.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(used <= 20_000, "{used} bytes");
    let mut cache = DiskCache::open(xylem_base::disk(), directory.path(), 20_000).unwrap();
    assert!((192..200).all(|n| got(&mut cache, n)));
    put_all(&mut cache, 200..220);
    assert!((212..220).all(|n| got(&mut cache, n)));
}

#[test]
fn damage_costs_only_the_packets_hit() {
    for at in (0..4000).step_by(97) {
        let directory = tempfile::tempdir().unwrap();
        let mut cache = DiskCache::open(xylem_base::disk(), directory.path(), 1 << 20).unwrap();
        put_all(&mut cache, 0..5);
        let path = path_of(directory.path(), 1);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at] ^= 0x40;
        std::fs::write(&path, &bytes).unwrap();
        // `got` compares the bytes; the other packets are intact.
        assert_eq!((0..5).filter(|n| got(&mut cache, *n)).count(), 4, "byte {at}");
        assert_eq!(cache.len(), 4, "the damaged one is forgotten");
        let mut again = DiskCache::open(xylem_base::disk(), directory.path(), 1 << 20).unwrap();
        assert!((0..5).filter(|n| got(&mut again, *n)).count() <= 4);
        std::fs::write(&path, &bytes[..at]).unwrap();
        let mut cut = DiskCache::open(xylem_base::disk(), directory.path(), 1 << 20).unwrap();
        let whole = at / (bytes.len() / 5);
        assert_eq!((0..5).filter(|n| got(&mut cut, *n)).count(), whole, "cut at {at}");
        put_all(&mut cut, 3..9);
        assert!((3..9).all(|n| got(&mut cut, n)));
    }
}

#[test]
fn a_file_that_shrinks_is_a_cache_that_misses() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = DiskCache::open(xylem_base::disk(), directory.path(), 1 << 20).unwrap();
    put_all(&mut cache, 0..5);
    std::fs::OpenOptions::new()
        .write(true)
        .open(path_of(directory.path(), 1))
        .unwrap()
        .set_len(1_500)
        .unwrap();
    // The loop does not see whether bytes are missing or only not in memory. The thread does.
    assert_eq!((0..5).filter(|n| got(&mut cache, *n)).collect::<Vec<_>>(), [0]);
    assert_eq!(cache.len(), 1);
}

#[test]
fn a_disk_that_fails_is_a_cache_that_misses() {
    let directory = tempfile::tempdir().unwrap();
    let mut cache = DiskCache::open(xylem_base::disk(), directory.path(), 3_000).unwrap();
    put_all(&mut cache, 0..1);
    std::fs::remove_dir_all(directory.path()).unwrap();
    // The open file still works; new ones cannot be made.
    put_all(&mut cache, 1..20);
    assert!(got(&mut cache, 0) && !got(&mut cache, 19));
}

/// What is put after a write failed takes the place of what was lost, so that the file has no gap at which the next
/// start would end.
#[test]
fn a_full_disk_leaves_no_gap() {
    let medium = FaultMedium::new();
    let directory = Path::new("/cache");
    medium.create_dir(directory, 0o700).unwrap();
    let open = || DiskCache::open(Arc::new(medium.clone()), directory, 1 << 20).unwrap();
    let mut cache = open();
    put_all(&mut cache, 0..5);
    medium.set_space(Some(1_500));
    put_all(&mut cache, 5..10);
    medium.set_space(None);
    put_all(&mut cache, 10..15);
    let there: Vec<u64> = (0..15).filter(|n| got(&mut cache, *n)).collect();
    assert!(
        there.starts_with(&[0, 1, 2, 3, 4]) && there.ends_with(&[10, 11, 12, 13, 14]),
        "{there:?}"
    );
    assert_eq!(cache.len(), there.len());
    let mut cache = open();
    assert_eq!((0..15).filter(|n| got(&mut cache, *n)).collect::<Vec<_>>(), there);
    medium.fail_after(0, DiskFault::Full);
    put_all(&mut cache, 15..16);
    assert!(!got(&mut cache, 15) && medium.has_failed());
    medium.heal();
    put_all(&mut cache, 16..17);
    assert!(!got(&mut cache, 15) && got(&mut cache, 16));
}

/// A cache on a disk behind an open gate, and what it sends to wake the loop.
struct GatedCache {
    directory: tempfile::TempDir,
    gate: Gate,
    cache: DiskCache,
    wakes: Receiver<()>,
}

fn gated(is_far: bool, capacity: u64) -> GatedCache {
    let directory = tempfile::tempdir().unwrap();
    let gate = Gate::closed().with_distance(is_far);
    gate.open();
    let cache = DiskCache::open(Arc::new(gate.clone()), directory.path(), capacity).unwrap();
    let (sender, wakes) = channel();
    let sender = Mutex::new(sender);
    cache.wake_by(Arc::new(move || sender.lock().unwrap().send(()).unwrap_or_default()));
    GatedCache { directory, gate, cache, wakes }
}

/// The gate panics if this thread would have to wait for the disk.
#[test]
fn a_disk_that_hangs_holds_up_neither_reads_nor_writes() {
    for is_far in [true, false] {
        let GatedCache { directory, gate, mut cache, wakes } = gated(is_far, 1 << 20);
        put_all(&mut cache, 0..10);
        gate.close();
        let SecondLevelAnswer::Reading(first) = ask(&mut cache, ASKER, 3) else { panic!() };
        let again = ask(&mut cache, ASKER, 3);
        assert_eq!(again, SecondLevelAnswer::Reading(first), "one read for both");
        let SecondLevelAnswer::Reading(second) = ask(&mut cache, FaceId(2), 4) else { panic!() };
        // Writes wait in memory, where they are found.
        put(&mut cache, 10..20);
        assert!((10..20).all(|n| ask(&mut cache, ASKER, n) == SecondLevelAnswer::Found));
        assert!(cache.next_read(&mut Vec::new()).is_none() && wakes.try_recv().is_err());
        gate.open();
        let read = BTreeSet::from([next_read(&mut cache), next_read(&mut cache)]);
        assert_eq!(read, BTreeSet::from([(first, packet(3).1), (second, packet(4).1)]));
        assert!(cache.next_read(&mut Vec::new()).is_none());
        wakes.recv_timeout(PATIENCE).expect("the loop was woken");
        settle(&cache);
        assert!((0..20).all(|n| got(&mut cache, n)));
        drop(cache);
        let mut cache = DiskCache::open(Arc::new(gate), directory.path(), 1 << 20).unwrap();
        assert!((0..20).all(|n| got(&mut cache, n)));
    }
}

#[test]
fn what_a_hanging_disk_does_not_take_is_not_cached() {
    let GatedCache { directory: _directory, gate, mut cache, .. } = gated(true, 1 << 26);
    gate.close();
    put(&mut cache, 0..10_000);
    let held = cache.len();
    assert!((1_000..=4_096).contains(&held), "{held} packets");
    let there = |cache: &mut DiskCache, n| ask(cache, ASKER, n) == SecondLevelAnswer::Found;
    assert!((0..held as u64).all(|n| there(&mut cache, n)) && !there(&mut cache, held as u64));
    gate.open();
    settle(&cache);
    put(&mut cache, 10_000..10_010);
    settle(&cache);
    assert!((10_000..10_010).all(|n| got(&mut cache, n)) && cache.len() == held + 10);
    // Small files: the loop begins no file before the last one was made.
    let GatedCache { directory, gate, mut cache, .. } = gated(true, 5_000);
    put_all(&mut cache, 0..6);
    gate.close();
    put(&mut cache, 6..1_000);
    assert!(cache.len() <= 4, "{} packets", cache.len());
    gate.open();
    settle(&cache);
    put_all(&mut cache, 1_000..1_010);
    assert!((1_007..1_010).all(|n| got(&mut cache, n)));
    assert!(std::fs::read_dir(directory.path()).unwrap().count() <= 2);
}

#[test]
fn a_face_with_many_reads_leaves_threads_to_others() {
    let GatedCache { directory: _directory, gate, mut cache, .. } = gated(true, 1 << 24);
    put_all(&mut cache, 0..50);
    put(&mut cache, 50..300);
    settle(&cache);
    gate.close();
    let reads: Vec<_> = (0..200).map(|n| ask(&mut cache, ASKER, n)).collect();
    assert!(reads.iter().all(|read| matches!(read, SecondLevelAnswer::Reading(_))));
    let SecondLevelAnswer::Reading(other) = ask(&mut cache, FaceId(2), 250) else { panic!() };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let state = cache.shared.state();
        let (many, one) = (state.reading_of(1), state.reading_of(2));
        drop(state);
        assert!(many <= 4, "{many} threads");
        if one == 1 {
            break;
        }
        assert!(Instant::now() < deadline, "the other one waits for the first");
        thread::sleep(Duration::from_millis(1));
    }
    // Cancelled reads are not done, and not returned.
    for read in &reads {
        let SecondLevelAnswer::Reading(number) = *read else { panic!() };
        cache.cancel(number);
    }
    gate.open();
    assert_eq!(next_read(&mut cache), (other, packet(250).1));
    while cache.shared.state().reading_of(1) > 0 {
        assert!(Instant::now() < deadline, "reads never end");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(cache.next_read(&mut Vec::new()).is_none());
    assert!(gate.read() <= 9 * 1_100, "{} bytes", gate.read());
}

#[test]
fn a_packet_erased_while_it_is_read_is_not_returned() {
    let GatedCache { directory: _directory, gate, mut cache, wakes } = gated(true, 1 << 20);
    put_all(&mut cache, 0..2);
    gate.close();
    let SecondLevelAnswer::Reading(number) = ask(&mut cache, ASKER, 0) else { panic!() };
    assert_eq!(cache.erase(packet(0).0.as_ref(), 1), 1);
    // Dropping the cache does not wait for the disk either.
    let other = gated(true, 1 << 20);
    let (other_gate, mut other) = (other.gate, other.cache);
    put_all(&mut other, 0..2);
    other_gate.close();
    put(&mut other, 2..4);
    assert!(matches!(ask(&mut other, ASKER, 0), SecondLevelAnswer::Reading(_)));
    drop(other);
    other_gate.open();
    gate.open();
    wakes.recv_timeout(PATIENCE).expect("the loop was woken");
    assert_eq!(next_read(&mut cache), (number, Vec::new()));
    assert!(got(&mut cache, 1));
}

#[derive(Debug, Clone)]
enum CacheStep {
    Put { n: u64, version: u8 },
    Get { n: u64, asker: u64 },
    Prefix,
    Cancel { nth: usize },
    Gate { is_open: bool },
    Settle,
    Erase { n: u64 },
    Damage { at: usize },
    Restart,
}

fn cache_step() -> impl Strategy<Value = CacheStep> {
    prop_oneof![
        12 => (0..24_u64, any::<u8>()).prop_map(|(n, version)| CacheStep::Put { n, version }),
        12 => (0..24_u64, 1..4_u64).prop_map(|(n, asker)| CacheStep::Get { n, asker }),
        2 => Just(CacheStep::Prefix),
        2 => any::<usize>().prop_map(|nth| CacheStep::Cancel { nth }),
        4 => any::<bool>().prop_map(|is_open| CacheStep::Gate { is_open }),
        4 => Just(CacheStep::Settle),
        1 => (0..24_u64).prop_map(|n| CacheStep::Erase { n }),
        1 => (0..6_000_usize).prop_map(|at| CacheStep::Damage { at }),
        1 => Just(CacheStep::Restart),
    ]
}

fn versioned(n: u64, version: u8) -> Vec<u8> {
    let (name, _) = packet(n);
    let mut out = Vec::new();
    let content = vec![version; 400 + 2 * usize::from(version)];
    DataBuilder::new(name.as_ref())
        .encode(&mut out, &content, |_, value| value.extend_from_slice(&[0; 32]))
        .unwrap();
    out
}

/// A read of the model: the packet that the cache had when it began, and how many Interests wait.
struct ModelRead {
    n: u64,
    change: u64,
    packet: Option<Vec<u8>>,
    waiting: usize,
}

/// A cache, and what it must have.
struct ModelledCache {
    directory: tempfile::TempDir,
    gate: Gate,
    is_open: bool,
    cache: DiskCache,
    capacity: u64,
    /// All packets fit and none is damaged, so the cache has what the model has.
    is_exact: bool,
    cached: BTreeMap<u64, Vec<u8>>,
    /// What was put last, also if it was erased: it reappears after a restart.
    last: BTreeMap<u64, Vec<u8>>,
    ever: BTreeSet<(u64, Vec<u8>)>,
    changes: BTreeMap<u64, u64>,
    reading: BTreeMap<u64, ModelRead>,
}

impl ModelledCache {
    fn change(&self, n: u64) -> u64 {
        self.changes.get(&n).copied().unwrap_or_default()
    }

    fn put(&mut self, n: u64, packet: Vec<u8>) {
        self.cache.put(super::tests::packet(n).0.as_ref(), &packet);
        self.ever.insert((n, packet.clone()));
        self.last.insert(n, packet.clone());
        self.cached.insert(n, packet);
        *self.changes.entry(n).or_default() += 1;
    }

    fn erase(&mut self, n: u64) {
        let erased = self.cache.erase(packet(n).0.as_ref(), u64::MAX);
        let there = self.cached.remove(&n).is_some();
        assert!(!self.is_exact || erased == u64::from(there));
        *self.changes.entry(n).or_default() += 1;
    }

    fn get(&mut self, n: u64, asker: u64) {
        let mut found = Vec::new();
        let answer = self.cache.get(FaceId(asker), packet(n).0.as_ref(), false, &mut found);
        let expected = self.cached.get(&n).cloned();
        match answer {
            SecondLevelAnswer::Found if self.is_exact => assert_eq!(Some(found), expected),
            SecondLevelAnswer::Found => assert!(self.ever.contains(&(n, found))),
            SecondLevelAnswer::Absent => {
                assert!(found.is_empty() && (!self.is_exact || expected.is_none()));
            }
            SecondLevelAnswer::Reading(number) => {
                assert!(found.is_empty() && (!self.is_exact || expected.is_some()));
                let change = self.change(n);
                let new = ModelRead { n, change, packet: expected, waiting: 0 };
                let read = self.reading.entry(number).or_insert(new);
                // Where not all packets fit, the cache may still have an earlier one.
                assert!(read.n == n && (!self.is_exact || read.change == change));
                read.waiting += 1;
            }
        }
    }

    fn get_any(&mut self) {
        let (mut found, prefix) = (Vec::new(), Name::from_uri("/x").unwrap());
        match self.cache.get(ASKER, prefix.as_ref(), true, &mut found) {
            SecondLevelAnswer::Found if self.is_exact => {
                assert!(self.cached.values().any(|packet| *packet == found));
            }
            SecondLevelAnswer::Found => {
                assert!(self.ever.iter().any(|(_, packet)| *packet == found))
            }
            SecondLevelAnswer::Absent => assert!(!self.is_exact || self.cached.is_empty()),
            // The model does not know which one. Another Interest may wait for it.
            SecondLevelAnswer::Reading(number) => self.cache.cancel(number),
        }
    }

    fn cancel(&mut self, nth: usize) {
        let count = self.reading.len().max(1);
        let Some(number) = self.reading.keys().nth(nth % count).copied() else { return };
        self.cache.cancel(number);
        if let Some(read) = self.reading.get_mut(&number) {
            read.waiting -= 1;
            if read.waiting == 0 {
                self.reading.remove(&number);
            }
        }
    }

    fn take_reads(&mut self) {
        let mut found = Vec::new();
        while let Some(number) = self.cache.next_read(&mut found) {
            let read = self.reading.remove(&number).expect("each is returned once");
            let is_changed = read.change != self.change(read.n);
            match self.is_exact {
                true if is_changed => assert!(found.is_empty()),
                true => assert_eq!(Some(&found), read.packet.as_ref()),
                false => assert!(found.is_empty() || self.ever.contains(&(read.n, found.clone()))),
            }
            found.clear();
        }
    }

    fn settle(&mut self) {
        settle(&self.cache);
        let deadline = Instant::now() + PATIENCE;
        while !self.reading.is_empty() {
            self.take_reads();
            assert!(Instant::now() < deadline, "reads never end");
            thread::yield_now();
        }
    }

    fn damage(&mut self, at: usize) {
        self.settle();
        self.is_exact = false;
        for entry in std::fs::read_dir(self.directory.path()).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
                std::fs::write(&path, &bytes).unwrap();
            }
        }
    }

    fn restart(&mut self) {
        self.settle();
        let medium = Arc::new(self.gate.clone());
        self.cache = DiskCache::open(medium, self.directory.path(), self.capacity).unwrap();
        self.cached = self.last.clone();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any order of calls, on a disk that hangs now and then and damages files, with restarts: the loop never waits, the
    /// cache returns what was put last and not erased, and each read ends once.
    #[test]
    fn a_cache_on_a_bad_disk_returns_only_what_was_put(
        is_far in any::<bool>(),
        capacity in prop_oneof![Just(4_000_u64), Just(12_000), Just(1 << 20), Just(1 << 20)],
        steps in proptest::collection::vec(cache_step(), 1..150),
    ) {
        let GatedCache { directory, gate, cache, .. } = gated(is_far, capacity);
        let mut m = ModelledCache {
            directory,
            gate,
            is_open: true,
            cache,
            capacity,
            is_exact: capacity == 1 << 20,
            cached: BTreeMap::new(),
            last: BTreeMap::new(),
            ever: BTreeSet::new(),
            changes: BTreeMap::new(),
            reading: BTreeMap::new(),
        };
        for step in steps {
            m.take_reads();
            match step {
                CacheStep::Put { n, version } => m.put(n, versioned(n, version)),
                CacheStep::Get { n, asker } => m.get(n, asker),
                CacheStep::Prefix => m.get_any(),
                CacheStep::Cancel { nth } => m.cancel(nth),
                CacheStep::Gate { is_open } => {
                    m.is_open = is_open;
                    if is_open { m.gate.open() } else { m.gate.close() }
                }
                CacheStep::Erase { n } => m.erase(n),
                CacheStep::Settle if m.is_open => m.settle(),
                CacheStep::Damage { at } if m.is_open => m.damage(at),
                CacheStep::Restart if m.is_open => m.restart(),
                CacheStep::Settle | CacheStep::Damage { .. } | CacheStep::Restart => {}
            }
            prop_assert!(!m.is_exact || m.cache.len() == m.cached.len());
        }
        m.gate.open();
        m.settle();
        (0..24).for_each(|n| m.get(n, 1));
        m.settle();
        let files = std::fs::read_dir(m.directory.path()).unwrap();
        let used: u64 = files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        prop_assert!(used <= capacity, "{used} bytes");
    }
}
