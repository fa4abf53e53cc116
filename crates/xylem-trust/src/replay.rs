//! Replay protection for signed Interests: the window of accepted pairs of time and nonce for each key.
//!
//! A recorded command must not work a second time for an attacker (packet format v0.3, "Signed Interest"). NFD requires
//! that the times of one key only grow. Two programs that sign with a digest, which has no key, would then block each
//! other, and so would two packets of one program that overtake each other. Here a time may be any within the grace
//! period around the local time. A pair of time and nonce is refused if it was accepted before, or if it is older than
//! this guard can remember.
//!
//! A restart loses the pairs. A guard from [`ReplayGuard::restore`] accepts nothing stamped before its own start, so
//! earlier recordings are useless. A signer with a clock that is ahead may have used later times. [`ReplayGuard::keep`]
//! therefore provides the latest time of each such key for storage, before the command is obeyed, in steps of a second.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::{BTreeSet, HashMap};

use xylem_packet::SignatureInfo;

/// Distinguishes a signed Interest from all others of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandStamp {
    /// SignatureNonce: random.
    pub nonce: [u8; 8],
    /// SignatureTime: milliseconds since 1970.
    pub time_ms: u64,
    /// SignatureSeqNum, if the receiver requires one.
    pub sequence: Option<u64>,
}

impl CommandStamp {
    /// A stamp with nonce and time, without sequence number.
    pub const fn new(nonce: [u8; 8], time_ms: u64) -> Self {
        CommandStamp { nonce, time_ms, sequence: None }
    }
}

/// Why a signed Interest is refused although its signature may be valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// No SignatureTime, so a new packet cannot be distinguished from a recorded one.
    #[error("the signature has no time")]
    NoTime,
    /// SignatureTime differs from the local clock by more than the grace period.
    #[error("the signature's time is too far from this machine's clock")]
    Clock,
    /// Accepted before, or older than the guard can remember.
    #[error("the signature was used before")]
    Replayed,
}

/// Maximum difference between a signer's clock and the local one: NFD's grace period.
const GRACE_MS: u64 = 120_000;
/// Maximum number of pairs remembered per key.
const PAIRS_PER_KEY: usize = 1000;
/// Maximum number of keys remembered.
const KEYS: usize = 1000;
/// Stored times of keys with clocks that are ahead are rounded up to this, so that not every command causes a write.
const STEP_MS: u64 = 1000;
/// Format of the stored state: `version = 1 (1) | floor (8) | count × (key (32) | time (8))`.
const VERSION: u8 = 1;

/// Remembers what was accepted, within fixed limits. It refuses everything that it had to forget. A full guard may thus
/// refuse a late packet, but never accepts a recorded one.
#[derive(Debug, Default)]
pub struct ReplayGuard {
    keys: HashMap<[u8; 32], KeyReplayWindow>,
    /// For a key without a window, no time up to this one is accepted, because a forgotten key may have used it.
    floor_ms: u64,
    /// The state has changed in a way that a restart must not lose.
    unsaved: bool,
}

/// The pairs that one key has used.
#[derive(Debug, Default)]
struct KeyReplayWindow {
    pairs: BTreeSet<(u64, [u8; 16])>,
    /// No time up to this one is accepted any more.
    floor_ms: u64,
    /// No time up to this one is accepted after a restart. Zero while no time was ahead of the local clock.
    ahead_ms: u64,
}

impl KeyReplayWindow {
    fn newest(&self) -> u64 {
        self.pairs.last().map_or(self.floor_ms, |(time, _)| *time)
    }

    fn forget_oldest(&mut self) {
        if let Some((time, _)) = self.pairs.pop_first() {
            self.floor_ms = self.floor_ms.max(time);
        }
    }
}

impl ReplayGuard {
    /// A guard that has accepted nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A guard that starts now with the state that an earlier guard stored, as far as that is intact.
    pub fn restore(saved: &[u8], now_ms: u64) -> Self {
        let mut guard = Self { floor_ms: now_ms, ..Self::default() };
        let Some((&[VERSION, ref floor @ ..], keys)) = saved.split_first_chunk::<9>() else {
            return guard;
        };
        guard.floor_ms = now_ms.max(u64::from_be_bytes(*floor));
        for key in keys.as_chunks::<40>().0.iter().take(KEYS) {
            let (Some(key), Some(time)) = (key.first_chunk::<32>(), key.last_chunk()) else {
                break;
            };
            let ahead_ms = u64::from_be_bytes(*time);
            let floor_ms = ahead_ms.max(guard.floor_ms);
            guard
                .keys
                .insert(*key, KeyReplayWindow { floor_ms, ahead_ms, ..KeyReplayWindow::default() });
        }
        guard
    }

    /// A guard that starts now after the stored state was lost. The earlier guard may have accepted times of a signer
    /// with a clock that is ahead. Nothing is therefore accepted for as long as a clock may be ahead.
    pub fn after_loss(now_ms: u64) -> Self {
        Self { floor_ms: now_ms.saturating_add(GRACE_MS), ..Self::default() }
    }

    /// Passes the state that a restart must not lose to `write`, if it has changed. It has to be on disk before the
    /// command just accepted is obeyed.
    ///
    /// # Errors
    /// Those of `write`; the next call tries again.
    pub fn persist<E>(
        &mut self,
        now_ms: u64,
        write: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.unsaved {
            return Ok(());
        }
        let mut saved = vec![VERSION];
        saved.extend_from_slice(&self.floor_ms.to_be_bytes());
        for (key, window) in self.keys.iter().filter(|(_, window)| window.ahead_ms > now_ms) {
            saved.extend_from_slice(key);
            saved.extend_from_slice(&window.ahead_ms.to_be_bytes());
        }
        write(&saved)?;
        self.unsaved = false;
        Ok(())
    }

    /// Accepts a signature once. `key` identifies the signer: the bytes of its KeyLocator, or nothing for the digests.
    /// Call this only after the signature was verified, so that no other sender can fill the window. `now_ms`:
    /// milliseconds since 1970.
    ///
    /// # Errors
    /// See [`ReplayError`]; the guard is then unchanged.
    pub fn accept(
        &mut self,
        key: &[u8],
        info: &SignatureInfo<'_>,
        now_ms: u64,
    ) -> Result<(), ReplayError> {
        let time = info.time_ms.ok_or(ReplayError::NoTime)?;
        if time.abs_diff(now_ms) > GRACE_MS {
            return Err(ReplayError::Clock);
        }
        let key = *xylem_hash::hash(key).as_bytes();
        // Nonces may have any length, so a digest of nonce and sequence number is kept.
        let mut nonce = [0; 16];
        let mut hasher = xylem_hash::Hasher::new();
        hasher.update(&info.sequence.unwrap_or(0).to_be_bytes()).update(info.nonce.unwrap_or(&[]));
        nonce.copy_from_slice(&hasher.finalize().as_bytes()[..16]);

        let floor = self.keys.get(&key).map_or(self.floor_ms, |window| window.floor_ms);
        let known = self.keys.get(&key).is_some_and(|w| w.pairs.contains(&(time, nonce)));
        if known || time <= floor {
            return Err(ReplayError::Replayed);
        }
        if self.keys.len() >= KEYS && !self.keys.contains_key(&key) {
            self.forget_a_key();
        }
        let start = self.floor_ms;
        let window = self
            .keys
            .entry(key)
            .or_insert_with(|| KeyReplayWindow { floor_ms: start, ..KeyReplayWindow::default() });
        window.pairs.insert((time, nonce));
        if time > now_ms && time > window.ahead_ms {
            window.ahead_ms = time.next_multiple_of(STEP_MS);
            self.unsaved = true;
        }
        // Times older than the grace period are refused anyway.
        while window.pairs.len() > PAIRS_PER_KEY
            || window.pairs.first().is_some_and(|(t, _)| t.saturating_add(GRACE_MS) < now_ms)
        {
            window.forget_oldest();
        }
        Ok(())
    }

    /// Forgets the key with the oldest newest time.
    fn forget_a_key(&mut self) {
        let oldest = self.keys.iter().min_by_key(|(_, window)| window.newest());
        let newest = |window: &KeyReplayWindow| window.newest().max(window.ahead_ms);
        if let Some((key, newest)) = oldest.map(|(key, window)| (*key, newest(window))) {
            self.floor_ms = self.floor_ms.max(newest);
            self.keys.remove(&key);
            self.unsaved = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::SignatureType;

    const NOW: u64 = 1_700_000_000_000;

    fn accept(
        guard: &mut ReplayGuard,
        key: &[u8],
        time: u64,
        nonce: &[u8],
    ) -> Result<(), ReplayError> {
        let mut info = SignatureInfo::new(SignatureType::DIGEST_SHA256, None);
        info.time_ms = Some(time);
        info.nonce = Some(nonce);
        guard.accept(key, &info, NOW)
    }

    #[test]
    fn a_stamp_is_accepted_once() {
        let mut guard = ReplayGuard::new();
        assert_eq!(accept(&mut guard, b"a", NOW, b"1"), Ok(()));
        assert_eq!(accept(&mut guard, b"a", NOW, b"1"), Err(ReplayError::Replayed));
        assert_eq!(accept(&mut guard, b"a", NOW, b"2"), Ok(()));
        assert_eq!(accept(&mut guard, b"b", NOW, b"1"), Ok(()));
        // A packet that was overtaken, or one of another program that uses the same digest.
        assert_eq!(accept(&mut guard, b"a", NOW - 5, b"1"), Ok(()));
    }

    #[test]
    fn clocks_may_differ_by_two_minutes() {
        let mut guard = ReplayGuard::new();
        for (time, expected) in [
            (NOW - GRACE_MS, Ok(())),
            (NOW + GRACE_MS, Ok(())),
            (NOW - GRACE_MS - 1, Err(ReplayError::Clock)),
            (NOW + GRACE_MS + 1, Err(ReplayError::Clock)),
            (0, Err(ReplayError::Clock)),
            (u64::MAX, Err(ReplayError::Clock)),
        ] {
            assert_eq!(accept(&mut guard, b"", time, b"n"), expected, "{time}");
        }
        let info = SignatureInfo::new(SignatureType::DIGEST_SHA256, None);
        assert_eq!(guard.accept(b"", &info, NOW), Err(ReplayError::NoTime));
    }

    #[test]
    fn forgotten_stamps_are_refused() {
        let mut guard = ReplayGuard::new();
        for i in 0..3 * PAIRS_PER_KEY as u64 {
            assert_eq!(accept(&mut guard, b"a", NOW - 3000 + i, b"n"), Ok(()));
        }
        for i in 0..3 * PAIRS_PER_KEY as u64 {
            let again = accept(&mut guard, b"a", NOW - 3000 + i, b"n");
            assert_eq!(again, Err(ReplayError::Replayed), "{i}");
        }
        assert_eq!(guard.keys.values().next().unwrap().pairs.len(), PAIRS_PER_KEY);
    }

    /// Commands accepted before a restart are refused after it, whatever the signer's clock. New commands are accepted
    /// at once.
    #[test]
    fn a_restart_accepts_no_recorded_command() {
        let mut guard = ReplayGuard::new();
        let mut disk = Vec::new();
        let mut writes = 0;
        let keys: [(&[u8], u64); 3] =
            [(b"slow", NOW - 90_000), (b"right", NOW - 100), (b"fast", NOW + 90_000)];
        for (key, time) in keys {
            for i in 0..100 {
                assert_eq!(accept(&mut guard, key, time + i, b"n"), Ok(()));
                let write = |saved: &[u8]| -> Result<(), ()> {
                    writes += 1;
                    disk = saved.to_vec();
                    Ok(())
                };
                guard.persist(NOW, write).unwrap();
            }
        }
        assert!((1..=3).contains(&writes), "{writes} writes for 300 commands");
        let began = NOW + 100;
        let mut guard = ReplayGuard::restore(&disk, began);
        for (key, time) in keys {
            for i in 0..100 {
                assert_eq!(accept(&mut guard, key, time + i, b"n"), Err(ReplayError::Replayed));
            }
        }
        assert_eq!(accept(&mut guard, b"right", began + 1, b"n"), Ok(()));
        assert_eq!(
            accept(&mut guard, b"new", began + 1, b"n"),
            Ok(()),
            "another's clock is theirs"
        );
        assert_eq!(accept(&mut guard, b"fast", NOW + 91_000 + 1, b"n"), Ok(()));
        // If the stored state is missing or garbage, everything stamped before the start is still refused.
        for rubbish in [&[][..], &[9; 100], &[VERSION], &disk[..disk.len() - 1]] {
            let mut guard = ReplayGuard::restore(rubbish, NOW);
            assert_eq!(accept(&mut guard, b"right", NOW, b"n"), Err(ReplayError::Replayed));
        }
    }

    #[test]
    fn a_write_that_fails_is_tried_again() {
        let mut guard = ReplayGuard::new();
        assert_eq!(accept(&mut guard, b"a", NOW + 5, b"n"), Ok(()));
        assert_eq!(guard.persist(NOW, |_| Err("full")), Err("full"));
        assert_eq!(guard.persist(NOW, |_| Err("full")), Err("full"));
        assert_eq!(guard.persist(NOW, |_| Ok::<_, ()>(())), Ok(()));
        assert_eq!(guard.persist(NOW, |_| Err("nothing is new")), Ok(()));
    }

    #[test]
    fn a_forgotten_key_accepts_no_recorded_command() {
        let mut guard = ReplayGuard::new();
        for i in 0..2 * KEYS as u64 {
            assert_eq!(accept(&mut guard, &i.to_be_bytes(), NOW - 2000 + i, b"n"), Ok(()));
        }
        assert_eq!(guard.keys.len(), KEYS);
        for i in 0..2 * KEYS as u64 {
            let again = accept(&mut guard, &i.to_be_bytes(), NOW - 2000 + i, b"n");
            assert_eq!(again, Err(ReplayError::Replayed), "{i}");
        }
    }
}
