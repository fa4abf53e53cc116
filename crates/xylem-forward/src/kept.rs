//! Interests that wait for a read of the content store's second level.
//!
//! A cache on a slow disk must not stop the forwarder, so it answers "being read", and the Interest is kept here, before
//! it enters the PIT. It is not forwarded meanwhile, because the Data is probably here. When the read ends, the Interest
//! is answered, or it continues upstream as any other that the content store could not answer.
//!
//! Keeping is limited, so that a disk that hangs is no more than a cache that misses: to 64 Interests of a face, 1,024
//! in all, and one second or half of the Interest's lifetime, so that the other half is left for the answer from
//! upstream. If all places are taken, the face with most gives up its oldest Interest to a face with less, which
//! continues upstream. An Interest without a place continues upstream at once. The number of Interests also limits the
//! reads that wait, because a read is cancelled with the last Interest that waits for it.
//!
//! An Interest counts as a hit or a miss once, when it is kept no more. A face that repeats a kept Interest waits once,
//! as it does in the PIT: the repeated Interest takes the place of the earlier one.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use xylem_packet::Interest;

use crate::faces::Ingress;
use crate::forwarder::{Forwarder, micros};
use crate::storage::Storage;
use crate::{DropReason, FaceId, IncomingPacket, OutgoingPacket, Outlet, sha256};

/// Most Interests kept.
const MAX_KEPT: usize = 1_024;
/// Most Interests kept of one face.
const MAX_KEPT_OF_FACE: usize = 64;
/// How long an Interest is kept at most, in microseconds.
const MAX_WAIT: u64 = 1_000_000;
/// Most reads taken up in one call, so that the answers are sent in between.
const READS_AT_ONCE: usize = 32;

/// An Interest that is not in the PIT yet, with its link headers.
#[derive(Debug)]
pub(crate) struct KeptInterest {
    /// Interests are numbered in the order of arrival.
    number: u64,
    /// `None`: the cache that read is gone.
    read: Option<u64>,
    face: u32,
    /// The hash of the name.
    hash: u64,
    packet: Box<[u8]>,
    pit_token: Option<Box<[u8]>>,
    congestion_mark: Option<u64>,
    next_hop: Option<FaceId>,
    non_discovery: bool,
    /// When its lifetime ends, and until when it is kept, in microseconds.
    expires: u64,
    until: u64,
}

impl KeptInterest {
    fn interest(&self) -> Option<Interest<'_>> {
        Interest::decode_with(&self.packet, sha256).ok()
    }

    fn incoming(&self) -> IncomingPacket<'_> {
        IncomingPacket {
            pit_token: self.pit_token.as_deref(),
            congestion_mark: self.congestion_mark,
            next_hop: self.next_hop,
            non_discovery: self.non_discovery,
            ..IncomingPacket::bare(&self.packet)
        }
    }
}

/// All kept Interests.
#[derive(Debug, Default)]
pub(crate) struct KeptInterests {
    /// In no particular order.
    all: Vec<KeptInterest>,
    /// The number of Interests of each face that has any.
    counts: BTreeMap<u32, usize>,
    /// No Interest is due before this time.
    next_due: u64,
    last_number: u64,
    /// More reads may have ended.
    has_more: bool,
}

impl KeptInterests {
    pub(crate) fn next_timeout(&self) -> Option<u64> {
        match self.has_more {
            true => Some(0),
            false => (!self.all.is_empty()).then_some(self.next_due),
        }
    }

    fn count(&self, face: u32) -> usize {
        self.counts.get(&face).copied().unwrap_or_default()
    }

    /// Reserves a place for an Interest of this face. `Err`: there is none. `Ok` may hold an Interest that gave up its
    /// place.
    fn make_room(&mut self, face: u32) -> Result<Option<KeptInterest>, NoPlace> {
        let own = self.count(face);
        if own >= MAX_KEPT_OF_FACE {
            return Err(NoPlace);
        }
        if self.all.len() < MAX_KEPT {
            return Ok(None);
        }
        let most = self.counts.iter().max_by_key(|(_, count)| **count);
        let (&greediest, _) = most.filter(|(_, count)| **count > own + 1).ok_or(NoPlace)?;
        let theirs = self.all.iter().enumerate().filter(|(_, kept)| kept.face == greediest);
        let oldest = theirs.min_by_key(|(_, kept)| kept.number).ok_or(NoPlace)?.0;
        Ok(Some(self.remove(oldest)))
    }

    fn add(&mut self, interest: KeptInterest) {
        if self.all.is_empty() || interest.until < self.next_due {
            self.next_due = interest.until;
        }
        *self.counts.entry(interest.face).or_default() += 1;
        self.all.push(interest);
    }

    fn remove(&mut self, i: usize) -> KeptInterest {
        let removed = self.all.swap_remove(i);
        if let Some(count) = self.counts.get_mut(&removed.face) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&removed.face);
            }
        }
        removed
    }

    /// Removes the Interests that `chosen` selects, and returns them in the order of arrival.
    fn take(&mut self, chosen: impl Fn(&KeptInterest) -> bool) -> Vec<KeptInterest> {
        let mut taken = Vec::new();
        let mut i = 0;
        while let Some(kept) = self.all.get(i) {
            match chosen(kept) {
                true => taken.push(self.remove(i)),
                false => i += 1,
            }
        }
        taken.sort_unstable_by_key(|kept| kept.number);
        taken
    }

    /// Makes all Interests due, because the cache that reads for them is gone.
    pub(crate) fn forget_reads(&mut self) {
        for kept in &mut self.all {
            (kept.read, kept.until) = (None, 0);
        }
        (self.next_due, self.has_more) = (0, false);
    }
}

/// An Interest cannot be kept.
struct NoPlace;

impl<S: Storage> Forwarder<S> {
    /// Keeps an Interest, with its name hashed in `hashes`, until this read has ended. Returns false if there is no place
    /// for it.
    #[cold]
    pub(crate) fn keep(
        &mut self,
        now: u64,
        from: Ingress,
        interest: &Interest<'_>,
        read: u64,
        incoming: &IncomingPacket<'_>,
        out: &mut impl Outlet,
    ) -> Result<bool, DropReason> {
        let lifetime = interest.lifetime_ms().saturating_mul(1000).min(self.max_lifetime);
        let wait = (lifetime / 2).min(MAX_WAIT);
        let hash = self.hashes.whole();
        self.kept.last_number += 1;
        let mut new = KeptInterest {
            number: self.kept.last_number,
            read: Some(read),
            face: from.face,
            hash,
            packet: incoming.packet.into(),
            pit_token: incoming.pit_token.map(Box::from),
            congestion_mark: incoming.congestion_mark,
            next_hop: incoming.next_hop,
            non_discovery: incoming.non_discovery,
            expires: now.saturating_add(lifetime),
            until: now.saturating_add(wait),
        };
        if let Some(earlier) = self.kept.all.iter_mut().find(|kept| {
            (kept.face, kept.hash) == (from.face, hash)
                && kept.interest().is_some_and(|kept| {
                    kept.name() == interest.name()
                        && kept.can_be_prefix() == interest.can_be_prefix()
                })
        }) {
            self.content_store.cancel_read(Some(read));
            let nonce = earlier.interest().and_then(|earlier| earlier.nonce());
            if nonce.is_some() && nonce == interest.nonce() {
                return Err(DropReason::Duplicate);
            }
            // It waits for the read that has begun, and no longer than that: a face that repeats its Interest often would
            // wait for a disk that hangs for ever.
            (new.number, new.read) = (earlier.number, earlier.read);
            new.until = new.until.min(earlier.until);
            self.kept.next_due = self.kept.next_due.min(new.until);
            *earlier = new;
            return Ok(true);
        }
        let room = if wait == 0 { Err(NoPlace) } else { self.kept.make_room(from.face) };
        let Ok(displaced) = room else {
            self.content_store.cancel_read(Some(read));
            return Ok(false);
        };
        self.kept.add(new);
        if let Some(displaced) = displaced {
            self.content_store.cancel_read(displaced.read);
            self.resume(now, displaced, out);
        }
        Ok(true)
    }

    /// Answers Interests with Data that the second level has read, and forwards those with a failed read. To be called
    /// when the second level reports the end of a read.
    pub fn take_up_reads(&mut self, now: Duration, out: &mut impl Outlet) {
        let now = micros(now);
        for _ in 0..READS_AT_ONCE {
            let Some(read) = self.content_store.next_read() else {
                self.kept.has_more = false;
                return;
            };
            self.faces.now = now;
            for kept in self.kept.take(|kept| kept.read == Some(read)) {
                self.answer_kept(now, kept, out);
            }
        }
        self.kept.has_more = true;
    }

    /// Answers a kept Interest from the packet that was read last, or lets it continue.
    fn answer_kept(&mut self, now: u64, kept: KeptInterest, out: &mut impl Outlet) {
        let interest = kept.interest().filter(|_| now < kept.expires);
        let packet = interest.and_then(|interest| self.content_store.answer_read(&interest));
        let Some(packet) = packet else { return self.resume(now, kept, out) };
        self.counters.cs_hits += 1;
        let pit_token = kept.pit_token.as_deref();
        let leaving = OutgoingPacket { packet, pit_token, ..OutgoingPacket::default() };
        self.faces.send_data(kept.face, leaving, out);
    }

    /// Forwards the Interests that have waited long enough.
    pub(crate) fn resume_due(&mut self, now: u64, out: &mut impl Outlet) {
        if self.kept.all.is_empty() || now < self.kept.next_due {
            return;
        }
        self.faces.now = now;
        let due = self.kept.take(|kept| kept.until <= now);
        let next = self.kept.all.iter().map(|kept| kept.until).min();
        self.kept.next_due = next.unwrap_or_default();
        for kept in due {
            self.content_store.cancel_read(kept.read);
            self.resume(now, kept, out);
        }
    }

    /// Forwards an Interest that is kept no more, unless its lifetime is over or memory has the Data by now.
    fn resume(&mut self, now: u64, kept: KeptInterest, out: &mut impl Outlet) {
        let hits = self.counters.cs_hits;
        if now < kept.expires
            && let Some(ingress) = self.faces.ingress(FaceId(u64::from(kept.face)))
            && let Some(interest) = kept.interest()
        {
            let expires = Some(kept.expires);
            let result = self.pursue(now, ingress, &interest, expires, &kept.incoming(), out);
            if let Err(reason) = result {
                self.count_drop(ingress, reason);
            }
        }
        self.counters.cs_misses += u64::from(self.counters.cs_hits == hits);
    }

    /// Drops the kept Interests of a face.
    pub(crate) fn forget_kept_of(&mut self, face: u32) {
        if self.kept.count(face) == 0 {
            return;
        }
        for kept in self.kept.take(|kept| kept.face == face) {
            self.content_store.cancel_read(kept.read);
            self.counters.cs_misses += 1;
        }
    }
}
