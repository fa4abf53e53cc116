//! The pending Interest table: who asked for what, and whom it was asked of.
//!
//! An entry is known by name, CanBePrefix and MustBeFresh. It has room for one asker, one asked and
//! a short name, which is what most entries need; further ones and the rest of long names lie in
//! slabs of their own. A steady flow of Interests allocates nothing, and a flood meets three limits:
//! entries, further records, bytes of names.

use xylem_packet::tlv::types;
use xylem_packet::{Component, Data, Interest, MAX_PIT_TOKEN, NackReason, NameRef};

use crate::name_hash::{MAX_HASHED, NameHasher, NameHashes};
use crate::names::{Names, StoredName};
use crate::sha256;
use crate::slab::{NONE, Slab};
use crate::storage::{Flat, Slots, Storage};
use crate::table::{Slot, Table};
use crate::wheel::{Link, Links, Wheel};

/// Octets of a PIT token that lie in the record itself.
const SHORT_TOKEN: usize = 8;

/// A neighbour's PIT token; empty if it gave none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Token {
    len: u8,
    /// The token, or the number of the piece where it begins.
    octets: [u8; SHORT_TOKEN],
}

/// Room for a token on its way out.
pub(crate) struct TokenBuffer([u8; MAX_PIT_TOKEN]);

impl TokenBuffer {
    pub(crate) const fn new() -> Self {
        TokenBuffer([0; MAX_PIT_TOKEN])
    }
}

/// Who asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct InRecord {
    pub(crate) face: u32,
    pub(crate) nonce: [u8; 4],
    /// Microseconds.
    pub(crate) expires: u64,
    token: Token,
}

/// Whom it was asked of.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutRecord {
    pub(crate) face: u32,
    pub(crate) nonce: [u8; 4],
    /// Microseconds.
    pub(crate) sent: u64,
    /// Milliseconds within which the same Interest is not sent again.
    pub(crate) suppression: u16,
    refused: Refusal,
}

impl OutRecord {
    pub(crate) fn new(face: u32, nonce: [u8; 4], sent: u64, suppression: u16) -> Self {
        OutRecord { face, nonce, sent, suppression, refused: Refusal::None }
    }

    /// Has an answer of any kind come?
    pub(crate) fn is_refused(&self) -> bool {
        self.refused != Refusal::None
    }

    pub(crate) fn refuse(&mut self, reason: NackReason) {
        self.refused = match reason {
            NackReason::CONGESTION => Refusal::Congestion,
            NackReason::DUPLICATE => Refusal::Duplicate,
            NackReason::NO_ROUTE => Refusal::NoRoute,
            _ => Refusal::Other,
        };
    }

    pub(crate) fn answer(&mut self) {
        self.refused = Refusal::Answered;
    }

    pub(crate) fn refusal(&self) -> Refusal {
        self.refused
    }
}

/// A Nack that came, from mild to severe; unknown reasons are severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Refusal {
    #[default]
    None,
    Congestion,
    Duplicate,
    NoRoute,
    Other,
    /// Not a Nack but the Data: the entry lives on only for others who were asked.
    Answered,
}

impl Refusal {
    pub(crate) fn reason(self) -> NackReason {
        match self {
            Refusal::Congestion => NackReason::CONGESTION,
            Refusal::Duplicate => NackReason::DUPLICATE,
            Refusal::NoRoute => NackReason::NO_ROUTE,
            Refusal::None | Refusal::Other | Refusal::Answered => NackReason::NONE,
        }
    }
}

/// A pending Interest.
#[derive(Debug, Default)]
pub struct Entry {
    name: StoredName,
    components: u16,
    can_be_prefix: bool,
    must_be_fresh: bool,
    by_digest: bool,
    has_in: bool,
    has_out: bool,
    first_in: InRecord,
    more_in: Rest,
    first_out: OutRecord,
    more_out: Rest,
    timer: Link,
    /// Under what the ASF strategy measures; 0: not at all.
    pub(crate) measured_as: u32,
}

/// The first of further records.
#[derive(Debug)]
struct Rest(u32);

impl Default for Rest {
    fn default() -> Self {
        Rest(NONE)
    }
}

type Entries<S> = Table<Entry, <S as Storage>::Pit, <S as Storage>::Buckets>;

impl<S: Slots<Slot<Entry>>, B: Flat<u32>> Links for Table<Entry, S, B> {
    #[inline]
    fn link(&self, id: u32) -> &Link {
        &self.get(id).timer
    }
    #[inline]
    fn link_mut(&mut self, id: u32) -> &mut Link {
        &mut self.get_mut(id).timer
    }
}

/// Why a record cannot be kept.
#[derive(Debug)]
pub(crate) struct Full;

pub(crate) struct Pit<S: Storage> {
    entries: Entries<S>,
    names: Names<S::Pieces>,
    ins: Slab<InRecord, S::InRecords>,
    outs: Slab<OutRecord, S::OutRecords>,
    wheel: Wheel,
    /// How many entries with CanBePrefix have n components, so that Data is looked up only under
    /// prefix lengths that somebody asked for; the last counts all that are longer.
    prefixes_of_length: [u32; MAX_HASHED + 2],
}

impl<S: Storage> Pit<S> {
    pub(crate) fn new(capacity: usize, name_bytes: usize) -> Self {
        Pit {
            entries: Table::new(capacity),
            names: Names::new(name_bytes),
            ins: Slab::new(capacity),
            outs: Slab::new(capacity),
            wheel: Wheel::new(),
            prefixes_of_length: [0; MAX_HASHED + 2],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.entries.memory() + self.names.memory() + self.ins.memory() + self.outs.memory()
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &Entry {
        self.entries.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Entry {
        self.entries.get_mut(id)
    }

    /// Hash of an entry's name.
    #[inline]
    pub(crate) fn hash_of(&self, id: u32) -> u64 {
        self.entries.hash_of(id)
    }

    /// The entry for an Interest; `hash` is its name's.
    #[inline]
    pub(crate) fn find(&self, interest: &Interest<'_>, hash: u64) -> Option<u32> {
        let value = interest.name().value();
        self.entries.find(hash, |entry| {
            entry.can_be_prefix == interest.can_be_prefix()
                && entry.must_be_fresh == interest.must_be_fresh()
                && self.names.equal(&entry.name, value)
        })
    }

    /// A new entry without records; the caller has made sure that there is none yet.
    #[inline]
    pub(crate) fn insert(&mut self, interest: &Interest<'_>, hash: u64) -> Result<u32, Full> {
        if self.entries.is_full() {
            return Err(Full);
        }
        let name = interest.name();
        let entry = Entry {
            name: self.names.store(name.value()).ok_or(Full)?,
            // A packet's name has fewer than 8800 / 2.
            components: name.len() as u16,
            can_be_prefix: interest.can_be_prefix(),
            must_be_fresh: interest.must_be_fresh(),
            by_digest: ends_with_digest(name),
            ..Entry::default()
        };
        if entry.can_be_prefix {
            self.prefixes_of_length[name.len().min(MAX_HASHED + 1)] += 1;
        }
        self.entries.insert(hash, entry).ok_or(Full)
    }

    /// Lets the entry run out at `time` (microseconds).
    #[inline]
    pub(crate) fn arm(&mut self, id: u32, time: u64) {
        self.wheel.arm(&mut self.entries, id, time);
    }

    /// Ends an entry, whose records have been released.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.wheel.cancel(&mut self.entries, id);
        let entry = self.entries.get_mut(id);
        if entry.can_be_prefix {
            self.prefixes_of_length[usize::from(entry.components).min(MAX_HASHED + 1)] -= 1;
        }
        self.names.release(&mut entry.name);
        self.entries.remove(id);
    }

    /// Replaces `found` by the entries that `data` answers. `hashes` are those of its name.
    #[inline]
    pub(crate) fn matches(
        &self,
        hasher: &NameHasher,
        data: &Data<'_>,
        hashes: &NameHashes,
        found: &mut impl Flat<u32>,
    ) {
        found.truncate(0);
        let name = data.name();
        let value = name.value();
        // Computed when the first Interest asks for it.
        let mut digest = None;
        for id in self.entries.with_hash(hashes.whole()) {
            let entry = self.entries.get(id);
            let fits = if self.names.equal(&entry.name, value) {
                true
            } else {
                // Only then is the digest worth computing.
                entry.by_digest
                    && entry.name.len() == value.len() + 34
                    && self.names.starts_with(&entry.name, value)
                    && {
                        let digest =
                            digest.get_or_insert_with(|| data.implicit_digest_with(sha256));
                        let mut wanted = [0; 32];
                        self.names.copy_from(&entry.name, value.len() + 2, &mut wanted);
                        wanted == *digest
                    }
            };
            if fits {
                found.push(id);
            }
        }
        for len in (0..name.len().min(MAX_HASHED + 1)).rev() {
            if self.prefixes_of_length[len] != 0
                && let Some(hash) = hashes.of(len)
            {
                self.prefixes(len, hash, value, found);
            }
        }
        if self.prefixes_of_length[MAX_HASHED + 1] != 0 && name.len() > MAX_HASHED + 1 {
            hasher.walk(name, |len, hash| {
                if (MAX_HASHED + 1..name.len()).contains(&len) {
                    self.prefixes(len, hash, value, found);
                }
            });
        }
    }

    fn prefixes(&self, len: usize, hash: u64, value: &[u8], found: &mut impl Flat<u32>) {
        for id in self.entries.with_hash(hash) {
            let entry = self.entries.get(id);
            if entry.can_be_prefix
                && usize::from(entry.components) == len
                && self.names.is_prefix_of(&entry.name, value)
            {
                found.push(id);
            }
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<u64> {
        self.wheel.next_timeout()
    }

    /// Replaces `expired` by the entries that have run out by `now` (microseconds). They live until
    /// they are removed.
    pub(crate) fn expire(&mut self, now: u64, expired: &mut impl Flat<u32>) {
        expired.truncate(0);
        self.wheel.expire(&mut self.entries, now, expired);
    }
}

/// The records of an entry.
impl<S: Storage> Pit<S> {
    #[inline]
    pub(crate) fn ins(&self, id: u32) -> impl Iterator<Item = &InRecord> + '_ {
        let entry = self.entries.get(id);
        let first = entry.has_in.then_some(&entry.first_in);
        first.into_iter().chain(self.ins.chain(entry.more_in.0).map(|id| self.ins.get(id)))
    }

    #[inline]
    pub(crate) fn outs(&self, id: u32) -> impl Iterator<Item = &OutRecord> + '_ {
        let entry = self.entries.get(id);
        let first = entry.has_out.then_some(&entry.first_out);
        first.into_iter().chain(self.outs.chain(entry.more_out.0).map(|id| self.outs.get(id)))
    }

    /// The record of a face that was asked.
    #[inline]
    pub(crate) fn out_of(&mut self, id: u32, face: u32) -> Option<&mut OutRecord> {
        let entry = self.entries.get_mut(id);
        if entry.has_out && entry.first_out.face == face {
            return Some(&mut entry.first_out);
        }
        let more = entry.more_out.0;
        let id = self.outs.chain(more).find(|id| self.outs.get(*id).face == face)?;
        Some(self.outs.get_mut(id))
    }

    /// Notes who asked; true if that face had asked already.
    #[inline]
    pub(crate) fn set_in(
        &mut self,
        id: u32,
        face: u32,
        nonce: [u8; 4],
        expires: u64,
        token: Option<&[u8]>,
    ) -> Result<bool, Full> {
        let token = self.keep_token(token)?;
        let record = InRecord { face, nonce, expires, token };
        let entry = self.entries.get_mut(id);
        if entry.has_in && entry.first_in.face == face {
            let old = core::mem::replace(&mut entry.first_in, record);
            self.release_token(old.token);
            return Ok(true);
        }
        let more = entry.more_in.0;
        let known = self.ins.chain(more).find(|id| self.ins.get(*id).face == face);
        if let Some(known) = known {
            let old = core::mem::replace(self.ins.get_mut(known), record);
            self.release_token(old.token);
            return Ok(true);
        }
        let entry = self.entries.get_mut(id);
        if !entry.has_in {
            (entry.has_in, entry.first_in) = (true, record);
            return Ok(false);
        }
        match self.ins.append(more, record) {
            Some(first) => {
                entry.more_in.0 = first;
                Ok(false)
            }
            None => {
                self.release_token(token);
                Err(Full)
            }
        }
    }

    /// Notes whom it was asked of; gives the nonce of an earlier question to the same face. Where
    /// there is no room for another record, none is kept, and its answer will be unsolicited.
    #[inline]
    pub(crate) fn set_out(&mut self, id: u32, record: OutRecord) -> Option<[u8; 4]> {
        if let Some(known) = self.out_of(id, record.face) {
            return Some(core::mem::replace(known, record).nonce);
        }
        let entry = self.entries.get_mut(id);
        if !entry.has_out {
            (entry.has_out, entry.first_out) = (true, record);
        } else if let Some(first) = self.outs.append(entry.more_out.0, record) {
            entry.more_out.0 = first;
        }
        None
    }

    /// Can another face be asked?
    pub(crate) fn has_room_for_out(&self, id: u32) -> bool {
        !self.entries.get(id).has_out || !self.outs.is_full()
    }

    /// Forgets those who asked, calling `each` with their faces.
    #[inline]
    pub(crate) fn release_ins(&mut self, id: u32, mut each: impl FnMut(u32)) {
        let entry = self.entries.get_mut(id);
        if core::mem::take(&mut entry.has_in) {
            each(entry.first_in.face);
            let token = core::mem::take(&mut entry.first_in.token);
            let mut more = core::mem::take(&mut entry.more_in).0;
            self.release_token(token);
            while more != NONE {
                let (record, next) = (*self.ins.get(more), self.ins.next(more));
                each(record.face);
                self.release_token(record.token);
                self.ins.release(more);
                more = next;
            }
        }
    }

    /// Forgets one who asked; true if somebody else waits.
    pub(crate) fn release_in(&mut self, id: u32, face: u32) -> bool {
        let entry = self.entries.get_mut(id);
        let more = entry.more_in.0;
        if entry.has_in && entry.first_in.face == face {
            let old = entry.first_in;
            if more == NONE {
                entry.has_in = false;
            } else {
                entry.first_in = *self.ins.get(more);
                entry.more_in.0 = self.ins.next(more);
                self.ins.release(more);
            }
            self.release_token(old.token);
        } else {
            let mut before = NONE;
            let mut at = more;
            while at != NONE && self.ins.get(at).face != face {
                (before, at) = (at, self.ins.next(at));
            }
            if at != NONE {
                let (old, next) = (*self.ins.get(at), self.ins.next(at));
                if before == NONE {
                    self.entries.get_mut(id).more_in.0 = next;
                } else {
                    self.ins.set_next(before, next);
                }
                self.ins.release(at);
                self.release_token(old.token);
            }
        }
        self.entries.get(id).has_in
    }

    /// Forgets those who were asked, calling `each` with the records.
    #[inline]
    pub(crate) fn release_outs(&mut self, id: u32, mut each: impl FnMut(&OutRecord)) {
        let entry = self.entries.get_mut(id);
        if core::mem::take(&mut entry.has_out) {
            each(&entry.first_out);
            let mut more = core::mem::take(&mut entry.more_out).0;
            while more != NONE {
                each(self.outs.get(more));
                let next = self.outs.next(more);
                self.outs.release(more);
                more = next;
            }
        }
    }

    /// `token` has at most [`MAX_PIT_TOKEN`] octets, or is cut.
    #[inline]
    fn keep_token(&mut self, token: Option<&[u8]>) -> Result<Token, Full> {
        let Some(token) = token else { return Ok(Token::default()) };
        let token = &token[..token.len().min(MAX_PIT_TOKEN)];
        let mut kept = Token { len: token.len() as u8, ..Token::default() };
        if token.len() <= SHORT_TOKEN {
            kept.octets[..token.len()].copy_from_slice(token);
        } else {
            let first = self.names.store_rest(token).ok_or(Full)?;
            kept.octets[..4].copy_from_slice(&first.to_le_bytes());
        }
        Ok(kept)
    }

    #[inline]
    fn release_token(&mut self, token: Token) {
        if usize::from(token.len) > SHORT_TOKEN {
            self.names.release_rest(token.first_piece());
        }
    }

    /// The token of a record, put into `buffer` if it is long.
    #[inline]
    pub(crate) fn token<'a>(
        &self,
        record: &'a InRecord,
        buffer: &'a mut TokenBuffer,
    ) -> Option<&'a [u8]> {
        let len = usize::from(record.token.len);
        match len {
            0 => None,
            1..=SHORT_TOKEN => Some(&record.token.octets[..len]),
            _ => {
                self.names.copy_rest(record.token.first_piece(), &mut buffer.0[..len]);
                Some(&buffer.0[..len])
            }
        }
    }
}

impl Token {
    fn first_piece(&self) -> u32 {
        let [a, b, c, d, ..] = self.octets;
        u32::from_le_bytes([a, b, c, d])
    }
}

/// Does an Interest's name ask for one Data packet by its digest?
pub(crate) fn ends_with_digest(name: NameRef<'_>) -> bool {
    // Cheap first: a digest component takes 34 bytes.
    name.value().len() >= 34
        && name
            .last()
            .is_some_and(|last: Component<'_>| last.typ() == types::IMPLICIT_SHA256_DIGEST)
}
