//! The repository against a model, over restarts, damage, forged records and a disk that fails.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use xylem_base::disk;
use xylem_faults::{DiskFault, FaultMedium};
use xylem_packet::{Component, DataBuilder, Name};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn packet_of(n: u64, content: &[u8]) -> (Name, Vec<u8>) {
    let name = Name::from_uri("/repo-test").unwrap().child(Component::segment(n));
    let mut out = Vec::new();
    DataBuilder::new(name.as_ref())
        .encode(&mut out, content, |_, value| value.extend_from_slice(&[0; 32]))
        .unwrap();
    (name, out)
}

fn open_in(directory: &Path, capacity: u64) -> RepoStore {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // The threads of the one before may still write.
        match RepoStore::open(&*disk(), directory, capacity, [7; 32]) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.expect("it opens"),
        }
    }
}

fn settle(repo: &RepoStore) -> bool {
    let since = repo.latest_flush();
    let flush = repo.flush();
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(done) = repo.flushed(since, flush) {
            return done;
        }
        assert!(Instant::now() < deadline, "no flush ever ends");
        thread::sleep(Duration::from_millis(1));
    }
}

fn found(repo: &mut RepoStore, name: &Name, can_be_prefix: bool) -> Option<Vec<u8>> {
    let mut packet = Vec::new();
    let answer = repo.get(FaceId(1), name.as_ref(), can_be_prefix, &mut packet);
    if let SecondLevelAnswer::Reading(number) = answer {
        let deadline = Instant::now() + PATIENCE;
        while repo.next_read(&mut packet) != Some(number) {
            assert!(Instant::now() < deadline, "no read ever ends");
            thread::sleep(Duration::from_millis(1));
        }
    }
    (!packet.is_empty()).then_some(packet)
}

#[test]
fn packets_and_commands_outlive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let repo = open_in(dir.path(), 1 << 20);
    let packets: Vec<_> = (0..20).map(|n| packet_of(n, &vec![n as u8; 300 * n as usize])).collect();
    for (name, packet) in &packets {
        repo.store(name.as_ref(), packet).unwrap();
    }
    assert_eq!(repo.remove(packets[3].0.as_ref()), Ok(true));
    assert_eq!(repo.remove(packets[3].0.as_ref()), Ok(false));
    repo.remember([5; 32]).unwrap();
    assert!(settle(&repo));
    let before = repo.usage();
    drop(repo);
    let mut repo = open_in(dir.path(), 1 << 20);
    assert_eq!(repo.usage(), before);
    assert!(repo.remembers(&[5; 32]) && !repo.remembers(&[6; 32]));
    for (n, (name, packet)) in packets.iter().enumerate() {
        let expected = (n != 3).then(|| packet.clone());
        assert_eq!(found(&mut repo, name, false), expected, "{n}");
    }
    let prefix = Name::from_uri("/repo-test").unwrap();
    assert_eq!(found(&mut repo, &prefix, true), Some(packets[0].1.clone()));
}

#[test]
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _repo = open_in(dir.path(), 1 << 20);
    let second = RepoStore::open(&*disk(), dir.path(), 1 << 20, [7; 32]);
    assert_eq!(second.err().map(|e| e.kind()), Some(io::ErrorKind::WouldBlock));
}

#[test]
fn the_quota_holds_and_freed_slots_are_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut repo = open_in(dir.path(), 64 << 10);
    let content = vec![1; 1_000];
    let mut stored = 0;
    while repo.store(packet_of(stored, &content).0.as_ref(), &packet_of(stored, &content).1).is_ok()
    {
        stored += 1;
    }
    assert_eq!(stored, 127 / 3, "slots of 512 octets but the first, three for each");
    for _ in 0..3 {
        for n in 0..stored {
            assert_eq!(repo.remove(packet_of(n, &content).0.as_ref()), Ok(true));
        }
        assert_eq!((repo.usage().packets, repo.usage().bytes), (0, 0));
        for n in 0..stored {
            let (name, packet) = packet_of(n, &content);
            repo.store(name.as_ref(), &packet).unwrap();
        }
        assert!(settle(&repo));
    }
    let (name, packet) = packet_of(1, &content);
    assert_eq!(found(&mut repo, &name, false), Some(packet));
    assert!(fs::metadata(dir.path().join("packets.repo")).unwrap().len() <= 64 << 10);
    drop(repo);
    // A lower quota keeps what is there and takes nothing new.
    let repo = open_in(dir.path(), 32 << 10);
    assert_eq!(repo.usage().packets, stored);
    let (name, packet) = packet_of(1_000, &content);
    assert_eq!(repo.store(name.as_ref(), &packet), Err(RepoStoreError::Full));
}

#[test]
fn a_damaged_record_is_free_space_and_its_content_is_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packets.repo");
    // A whole record of another repository within a packet, at the beginning of a slot.
    let other = tempfile::tempdir().unwrap();
    let forged_repo = RepoStore::open(&*disk(), other.path(), 1 << 20, [9; 32]).unwrap();
    let (forged_name, forged) = packet_of(77, b"forged");
    forged_repo.store(forged_name.as_ref(), &forged).unwrap();
    assert!(settle(&forged_repo));
    let record = fs::read(other.path().join("packets.repo")).unwrap()[512..].to_vec();
    let repo = open_in(dir.path(), 1 << 20);
    let (_, empty) = packet_of(0, &[0; 600]);
    let content_at = REPO_HEADER + empty.windows(600).position(|w| w == [0; 600]).unwrap();
    let mut content = vec![0; 600];
    content.truncate(512 - content_at);
    content.extend_from_slice(&record);
    content.resize(600.max(content.len()), 0);
    let (name, packet) = packet_of(0, &content);
    repo.store(name.as_ref(), &packet).unwrap();
    let (second, its_packet) = packet_of(1, b"whole");
    repo.store(second.as_ref(), &its_packet).unwrap();
    assert!(settle(&repo));
    drop(repo);
    let mut file = fs::read(&path).unwrap();
    assert!(file[1024..].starts_with(&record), "the forgery begins a slot");
    file[512 + 40] ^= 1;
    fs::write(&path, &file).unwrap();
    let mut repo = open_in(dir.path(), 1 << 20);
    assert_eq!(found(&mut repo, &name, false), None);
    assert_eq!(found(&mut repo, &forged_name, false), None);
    assert_eq!(found(&mut repo, &second, false), Some(its_packet));
    assert_eq!(repo.usage().packets, 1);
    // Damage while it runs is noticed at the next read.
    let at = repo.handle.shared.state().index[second.as_ref().value()].slot as usize * 512;
    file[at + 40] ^= 1;
    fs::write(&path, &file).unwrap();
    assert_eq!(found(&mut repo, &second, false), None);
    assert!(!repo.contains(second.as_ref()));
    assert_eq!(repo.usage(), RepoUsage { packets: 0, bytes: 0, capacity: 1 << 20 });
    assert!(settle(&repo));
    assert!(fs::read(&path).unwrap()[at..].starts_with(&[0; REPO_HEADER]), "it is cleared");
}

#[test]
fn another_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("packets.repo"), vec![1; 4096]).unwrap();
    let opened = RepoStore::open(&*disk(), dir.path(), 1 << 20, [7; 32]);
    assert_eq!(opened.err().map(|e| e.kind()), Some(io::ErrorKind::InvalidData));
}

#[test]
fn a_disk_that_fails_is_reported_by_the_flush() {
    let medium = FaultMedium::new();
    let directory = Path::new("/repo");
    let mut repo = RepoStore::open(&medium, directory, 1 << 20, [7; 32]).unwrap();
    let (name, packet) = packet_of(1, b"x");
    repo.store(name.as_ref(), &packet).unwrap();
    assert!(settle(&repo));
    medium.fail_after(0, DiskFault::Full);
    let (lost, its_packet) = packet_of(2, b"y");
    repo.store(lost.as_ref(), &its_packet).unwrap();
    assert!(!settle(&repo));
    assert_eq!(found(&mut repo, &lost, false), None);
    assert_eq!(found(&mut repo, &name, false), Some(packet.clone()));
    let before_failure = 1;
    assert_eq!(repo.flushed(before_failure, 2), Some(false));
    // Once the disk works again, so do changes, but what failed does not count as done afterwards.
    medium.heal();
    repo.store(lost.as_ref(), &its_packet).unwrap();
    assert!(settle(&repo));
    assert_eq!(found(&mut repo, &lost, false), Some(its_packet));
    assert_eq!(repo.flushed(before_failure, repo.latest_flush()), Some(false));
}

/// The file as a crash leaves it that comes before the old record is cleared.
fn with_record_of(before: &Path, after: &Path, slot: usize) {
    let file = fs::read(before.join("packets.repo")).unwrap();
    let mut later = fs::read(after.join("packets.repo")).unwrap();
    later[slot * 512..][..REPO_HEADER].copy_from_slice(&file[slot * 512..][..REPO_HEADER]);
    fs::write(after.join("packets.repo"), later).unwrap();
}

#[test]
fn a_replaced_packet_stays_away_after_a_crash() {
    // The new record is behind the old one, or before it.
    for has_room_before in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let copy = tempfile::tempdir().unwrap();
        let repo = open_in(dir.path(), 64 << 10);
        let (first, its_packet) = packet_of(0, &[1; 900]);
        repo.store(first.as_ref(), &its_packet).unwrap();
        let (name, old) = packet_of(1, &[2; 900]);
        repo.store(name.as_ref(), &old).unwrap();
        if has_room_before {
            repo.remove(first.as_ref()).unwrap();
        }
        let slot = repo.handle.shared.state().index[name.as_ref().value()].slot as usize;
        assert!(settle(&repo));
        fs::copy(dir.path().join("packets.repo"), copy.path().join("packets.repo")).unwrap();
        let (_, new) = packet_of(1, &[3; 900]);
        repo.store(name.as_ref(), &new).unwrap();
        let new_slot = repo.handle.shared.state().index[name.as_ref().value()].slot as usize;
        assert_eq!(new_slot < slot, has_room_before);
        assert!(settle(&repo));
        let before = repo.usage();
        drop(repo);
        drop(open_in(dir.path(), 64 << 10));
        with_record_of(copy.path(), dir.path(), slot);
        let mut repo = open_in(dir.path(), 64 << 10);
        assert_eq!(repo.usage(), before);
        assert_eq!(found(&mut repo, &name, false), Some(new));
        assert_eq!(repo.remove(name.as_ref()), Ok(true));
        assert!(settle(&repo));
        drop(repo);
        let mut repo = open_in(dir.path(), 64 << 10);
        assert_eq!(found(&mut repo, &name, false), None, "nothing comes back");
    }
}

#[test]
fn what_was_flushed_outlives_a_loss_of_power() {
    let directory = Path::new("/repo");
    for seed in 0..40 {
        let medium = FaultMedium::new();
        let repo = RepoStore::open(&medium, directory, 64 << 10, [7; 32]).unwrap();
        let packets: Vec<_> = (0..30).map(|n| packet_of(n, &vec![n as u8; 900])).collect();
        packets[..20].iter().for_each(|(name, p)| repo.store(name.as_ref(), p).unwrap());
        packets[..10].iter().for_each(|(name, _)| assert!(repo.remove(name.as_ref()).unwrap()));
        let replacing: Vec<_> = (0..30).map(|n| packet_of(n, &[200; 900])).collect();
        replacing[15..18].iter().for_each(|(name, p)| repo.store(name.as_ref(), p).unwrap());
        repo.remember([1; 32]).unwrap();
        assert!(settle(&repo));
        packets[20..].iter().for_each(|(name, p)| repo.store(name.as_ref(), p).unwrap());
        repo.remove(packets[10].0.as_ref()).unwrap();
        replacing[18..20].iter().for_each(|(name, p)| repo.store(name.as_ref(), p).unwrap());
        // The thread that writes is at any place.
        let after = medium.power_loss(seed);
        let mut repo = RepoStore::open(&after, directory, 64 << 10, [7; 32]).unwrap();
        assert!(repo.remembers(&[1; 32]));
        for (n, (name, packet)) in packets.iter().enumerate() {
            match (n, found(&mut repo, name, false)) {
                (10, _) => {}
                (..10, there) => assert_eq!(there, None, "removed: {n}"),
                (15..18, there) => {
                    assert_eq!(there.as_ref(), Some(&replacing[n].1), "replaced: {n}");
                }
                // The replacement is there, or what it replaces, or that was cleared alone.
                (18..20, there) => {
                    assert!(there.is_none_or(|it| it == *packet || it == replacing[n].1), "{n}");
                }
                (11..20, there) => assert_eq!(there.as_ref(), Some(packet), "flushed: {n}"),
                (_, there) => assert!(there.is_none_or(|there| there == *packet), "{n}"),
            }
            repo.remove(name.as_ref()).unwrap();
        }
        assert!(settle(&repo));
        drop(repo);
        let repo = RepoStore::open(&after.image(), directory, 64 << 10, [7; 32]).unwrap();
        assert_eq!(repo.usage().packets, 0, "nothing comes back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_time: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn it_holds_what_a_map_holds(
        steps in proptest::collection::vec((0..4u8, 0..12u64, 0..3_000usize), 1..60)
    ) {
        let open = |medium: &FaultMedium| {
            RepoStore::open(medium, Path::new("/repo"), 64 << 10, [7; 32]).unwrap()
        };
        let mut medium = FaultMedium::new();
        let mut repo = open(&medium);
        let mut model = BTreeMap::new();
        for (step, n, len) in steps {
            let (name, packet) = packet_of(n, &vec![len as u8; len]);
            match step {
                0 | 1 => {
                    if repo.store(name.as_ref(), &packet).is_ok() {
                        model.insert(n, packet);
                    }
                }
                2 => {
                    prop_assert_eq!(repo.remove(name.as_ref()), Ok(model.remove(&n).is_some()));
                }
                _ => {
                    prop_assert!(settle(&repo));
                    medium = medium.image();
                    repo = open(&medium);
                }
            }
            prop_assert_eq!(repo.usage().packets, model.len() as u64);
            let slots: u64 = model.values().map(|packet| slots_of(packet.len())).sum();
            prop_assert_eq!(repo.usage().bytes, slots * SLOT);
        }
        for n in 0..12 {
            let (name, _) = packet_of(n, b"");
            prop_assert_eq!(found(&mut repo, &name, false), model.get(&n).cloned());
        }
    }
}
