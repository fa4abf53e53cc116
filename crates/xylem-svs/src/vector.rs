//! State vectors: how much each member has published.
//!
//! ```text
//! StateVector      := 201 LENGTH *StateVectorEntry
//! StateVectorEntry := 202 LENGTH Name SeqNo                    versions 1 and 2; SeqNo is 204
//!                   | 202 LENGTH Name *SeqNoEntry              version 3
//! SeqNoEntry       := 210 LENGTH BootstrapTime SeqNo           numbers 212 and 214
//! ```
//! (named-data/StateVectorSync, "State Vector Specification".)

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use xylem_packet::tlv::{self, Element, TlvReader};
use xylem_packet::{DecodeError, Name, NameRef};

use crate::SyncVersion;

/// TLV-TYPE of a state vector; in version 1 that of a name component as well.
pub(crate) const STATE_VECTOR: u32 = 201;
const STATE_VECTOR_ENTRY: u32 = 202;
const SEQ_NO: u32 = 204;
const SEQ_NO_ENTRY: u32 = 210;
const BOOTSTRAP_TIME: u32 = 212;
const SEQ_NO_3: u32 = 214;

/// Maximum number of entries in a vector. A packet of 8,800 bytes has room for some 1,100.
pub const MAX_ENTRIES: usize = 2048;

/// Largest sequence number: the largest exact integer in JavaScript. With a larger one NDNts would refuse the whole
/// vector.
pub const MAX_SEQUENCE: u64 = (1 << 53) - 1;

/// One life of one member: publications are numbered from 1 in each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupMember {
    /// The member's name.
    pub name: Name,
    /// When its numbers began, in seconds since 1970; 0 in versions 1 and 2, which do not contain it.
    pub boot: u64,
}

impl GroupMember {
    /// The member of this name and bootstrap time.
    pub const fn new(name: Name, boot: u64) -> Self {
        GroupMember { name, boot }
    }
}

/// Reasons for which bytes are no state vector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// Not the TLV that was expected.
    #[error(transparent)]
    Tlv(#[from] DecodeError),
    /// More than [`MAX_ENTRIES`] numbers.
    #[error("the state vector has more than {MAX_ENTRIES} numbers")]
    TooMany,
    /// A sequence number above [`MAX_SEQUENCE`].
    #[error("sequence number {0} is too large")]
    Sequence(u64),
}

/// The latest sequence number of each member, 1 or more; an absent member has none.
///
/// Vectors are a join semilattice: [`Self::merge`] is commutative, associative and idempotent, so vectors may arrive in
/// any order, and any number of times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateVector {
    entries: BTreeMap<GroupMember, u64>,
}

impl StateVector {
    /// The empty vector.
    pub const fn new() -> Self {
        StateVector { entries: BTreeMap::new() }
    }

    /// The latest number of `member`; 0 if there is none.
    pub fn get(&self, member: &GroupMember) -> u64 {
        self.entries.get(member).copied().unwrap_or(0)
    }

    /// Stores `sequence` if it is larger than the known number; 0 changes nothing.
    pub fn raise(&mut self, member: GroupMember, sequence: u64) {
        if sequence == 0 {
            return;
        }
        match self.entries.entry(member) {
            Entry::Occupied(mut known) => {
                let larger = sequence.max(*known.get());
                known.insert(larger);
            }
            Entry::Vacant(place) => {
                place.insert(sequence);
            }
        }
    }

    /// Takes the larger number of each member.
    pub fn merge(&mut self, other: &StateVector) {
        for (member, sequence) in other.iter() {
            self.raise(member.clone(), sequence);
        }
    }

    /// Members and numbers, names in canonical order.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupMember, u64)> {
        self.entries.iter().map(|(member, sequence)| (member, *sequence))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends the element.
    pub fn encode(&self, version: SyncVersion, out: &mut Vec<u8>) {
        let mut value = Vec::new();
        let mut entries = self.iter().peekable();
        while let Some((member, sequence)) = entries.next() {
            let mut entry = Vec::new();
            member.name.encode(&mut entry);
            match version {
                SyncVersion::V1 | SyncVersion::V2 => {
                    tlv::write_number_element(&mut entry, SEQ_NO, sequence);
                }
                SyncVersion::V3 => {
                    encode_numbers(member.boot, sequence, &mut entry);
                    while let Some((next, sequence)) =
                        entries.next_if(|(next, _)| next.name == member.name)
                    {
                        encode_numbers(next.boot, sequence, &mut entry);
                    }
                }
            }
            tlv::write_element(&mut value, STATE_VECTOR_ENTRY, &entry);
        }
        tlv::write_element(out, STATE_VECTOR, &value);
    }

    /// Maximum bytes that [`Self::encode`] appends for this member within a vector.
    pub(crate) fn entry_len(member: &GroupMember) -> usize {
        // Two numbers of at most eight octets, and types and lengths around them.
        member.name.encoded_len().saturating_add(26)
    }

    /// Parses an element at the beginning of `wire`; bytes after it are ignored (mapping data of the publish-subscribe
    /// layer). Names may stand in any order, and more than once.
    ///
    /// # Errors
    /// `Tlv`, `TooMany` as soon as there are too many, `Sequence`.
    pub fn decode(wire: &[u8], version: SyncVersion) -> Result<Self, VectorError> {
        let element = TlvReader::new(wire).next_element()?.ok_or(DecodeError::Truncated)?;
        expect(STATE_VECTOR, &element)?;
        Self::decode_value(element.value, version)
    }

    /// [`Self::decode`] of the element's value.
    pub(crate) fn decode_value(value: &[u8], version: SyncVersion) -> Result<Self, VectorError> {
        let mut vector = StateVector::new();
        let mut numbers = 0usize;
        let mut reader = TlvReader::new(value);
        while let Some(element) = reader.next_element()? {
            if element.typ != STATE_VECTOR_ENTRY {
                unknown(STATE_VECTOR, &element)?;
                continue;
            }
            decode_entry(element.value, version, |name, boot, sequence| {
                numbers = numbers.saturating_add(1);
                if numbers > MAX_ENTRIES {
                    return Err(VectorError::TooMany);
                }
                if sequence > MAX_SEQUENCE {
                    return Err(VectorError::Sequence(sequence));
                }
                vector.raise(GroupMember::new(name.to_name(), boot), sequence);
                Ok(())
            })?;
        }
        Ok(vector)
    }
}

impl FromIterator<(GroupMember, u64)> for StateVector {
    fn from_iter<I: IntoIterator<Item = (GroupMember, u64)>>(entries: I) -> Self {
        let mut vector = StateVector::new();
        entries.into_iter().for_each(|(member, sequence)| vector.raise(member, sequence));
        vector
    }
}

fn encode_numbers(boot: u64, sequence: u64, out: &mut Vec<u8>) {
    let mut entry = Vec::new();
    tlv::write_number_element(&mut entry, BOOTSTRAP_TIME, boot);
    tlv::write_number_element(&mut entry, SEQ_NO_3, sequence);
    tlv::write_element(out, SEQ_NO_ENTRY, &entry);
}

/// Parses one StateVectorEntry: its name, then its numbers.
fn decode_entry(
    value: &[u8],
    version: SyncVersion,
    mut found: impl FnMut(NameRef<'_>, u64, u64) -> Result<(), VectorError>,
) -> Result<(), VectorError> {
    let mut reader = TlvReader::new(value);
    let first = reader.next_element()?.ok_or(DecodeError::Truncated)?;
    expect(tlv::types::NAME, &first)?;
    let name = NameRef::from_value(first.value)?;
    let mut any = false;
    while let Some(element) = reader.next_element()? {
        match (version, element.typ) {
            (SyncVersion::V1 | SyncVersion::V2, SEQ_NO) => {
                if any {
                    let inside = STATE_VECTOR_ENTRY;
                    return Err(DecodeError::Repeated { inside, typ: SEQ_NO }.into());
                }
                any = true;
                found(name, 0, number(&element)?)?;
            }
            (SyncVersion::V3, SEQ_NO_ENTRY) => {
                let (boot, sequence) = decode_numbers(element.value)?;
                found(name, boot, sequence)?;
            }
            _ => unknown(STATE_VECTOR_ENTRY, &element)?,
        }
    }
    if version != SyncVersion::V3 && !any {
        return Err(DecodeError::Missing { inside: STATE_VECTOR_ENTRY, typ: SEQ_NO }.into());
    }
    Ok(())
}

fn decode_numbers(value: &[u8]) -> Result<(u64, u64), VectorError> {
    let mut reader = TlvReader::new(value);
    let mut next = |typ| -> Result<u64, VectorError> {
        let missing = DecodeError::Missing { inside: SEQ_NO_ENTRY, typ };
        let element = reader.next_element()?.ok_or(missing)?;
        expect(typ, &element)?;
        number(&element)
    };
    let numbers = (next(BOOTSTRAP_TIME)?, next(SEQ_NO_3)?);
    while let Some(element) = reader.next_element()? {
        unknown(SEQ_NO_ENTRY, &element)?;
    }
    Ok(numbers)
}

fn expect(expected: u32, element: &Element<'_>) -> Result<(), VectorError> {
    if element.typ == expected {
        return Ok(());
    }
    Err(DecodeError::WrongType { expected, found: element.typ }.into())
}

fn number(element: &Element<'_>) -> Result<u64, VectorError> {
    let wrong = DecodeError::BadLength { typ: element.typ, len: element.value.len() };
    Ok(tlv::read_number(element.value).ok_or(wrong)?)
}

fn unknown(inside: u32, element: &Element<'_>) -> Result<(), VectorError> {
    if tlv::is_critical(element.typ) {
        return Err(DecodeError::UnknownCritical { inside, typ: element.typ }.into());
    }
    Ok(())
}
