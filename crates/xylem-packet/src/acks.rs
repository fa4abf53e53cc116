//! The Ack fields of an LpPacket: the only header field that may be repeated.

use core::fmt;

use crate::tlv::{TlvReader, types};

/// Acknowledged TxSequences in the packet's order: read from a received packet, or borrowed from the builder of one.
#[derive(Clone, Copy)]
pub struct Acks<'a>(AckSource<'a>);

#[derive(Clone, Copy)]
enum AckSource<'a> {
    /// From the first Ack element to the end of the last; other fields may stand between.
    Wire(&'a [u8]),
    Numbers(&'a [u64]),
}

impl<'a> Acks<'a> {
    /// Acknowledges these numbers.
    pub const fn new(numbers: &'a [u64]) -> Self {
        Acks(AckSource::Numbers(numbers))
    }

    /// `elements` are checked header fields; each Ack among them has 8 octets.
    pub(crate) const fn checked(elements: &'a [u8]) -> Self {
        Acks(AckSource::Wire(elements))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        match self.0 {
            AckSource::Wire(wire) => wire.is_empty(),
            AckSource::Numbers(numbers) => numbers.is_empty(),
        }
    }
}

impl Default for Acks<'_> {
    fn default() -> Self {
        Acks::new(&[])
    }
}

impl<'a> IntoIterator for Acks<'a> {
    type Item = u64;
    type IntoIter = AcksIter<'a>;
    fn into_iter(self) -> AcksIter<'a> {
        match self.0 {
            AckSource::Wire(wire) => AcksIter { wire: TlvReader::new(wire), numbers: [].iter() },
            AckSource::Numbers(numbers) => {
                AcksIter { wire: TlvReader::new(&[]), numbers: numbers.iter() }
            }
        }
    }
}

/// Iterator over [`Acks`].
#[derive(Debug, Clone)]
pub struct AcksIter<'a> {
    wire: TlvReader<'a>,
    numbers: core::slice::Iter<'a, u64>,
}

impl Iterator for AcksIter<'_> {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        if let Some(number) = self.numbers.next() {
            return Some(*number);
        }
        // The fields were checked when the packet was decoded, so errors cannot occur. Ending the iteration is safe in
        // any case.
        while let Some(element) = self.wire.next_element().ok()? {
            if element.typ == types::LP_ACK {
                return <[u8; 8]>::try_from(element.value).ok().map(u64::from_be_bytes);
            }
        }
        None
    }
}

impl PartialEq for Acks<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.into_iter().eq(*other)
    }
}

impl Eq for Acks<'_> {}

impl fmt::Debug for Acks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}
