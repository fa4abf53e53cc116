//! Records of a capture file: pcap or pcapng, from a reader, through the crate `pcap-parser`.

use std::io::{Cursor, ErrorKind, Read};
use std::time::Duration;

use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock};
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{LegacyPcapReader, Linktype, PcapBlockOwned, PcapError, PcapNGReader};

use crate::CaptureError;

/// Bytes that are read ahead.
const BUFFER: usize = 1 << 17;
/// The longest record: a datagram of 64 KiB, or what a card joins, with its headers.
pub(crate) const MAX_RECORD: usize = 1 << 20;
/// Most interfaces of one section of a pcapng capture.
pub(crate) const MAX_INTERFACES: usize = 4_096;

/// TLV-TYPE of a pcapng section header, the same in both byte orders.
const SECTION_HEADER: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];
/// Length of a pcap header.
const PCAP_HEADER: usize = 24;
/// Length of a section header without options, and of the longest that is read.
const SECTION_HEADER_LEN: usize = 28;
const MAX_SECTION_HEADER: usize = 1 << 16;
/// Octets of a section header by which its length and byte order are known.
const SECTION_START: usize = 12;

/// One captured frame with its link's headers.
pub(crate) struct Record {
    /// Since 1970.
    pub(crate) time: Duration,
    pub(crate) link: Linktype,
    pub(crate) bytes: Vec<u8>,
}

/// The records of a capture.
pub(crate) struct Records<'r> {
    reader: Box<dyn PcapReaderIterator + Send + 'r>,
    interfaces: Interfaces,
}

impl<'r> Records<'r> {
    /// Reads the beginning of a capture.
    pub(crate) fn open(mut reader: impl Read + Send + 'r) -> Result<Self, CaptureError> {
        let mut start = Vec::new();
        read_up_to(&mut reader, &mut start, SECTION_START)?;
        let is_pcapng = start.starts_with(&SECTION_HEADER);
        let header = if is_pcapng { section_len(&start)? } else { PCAP_HEADER };
        read_up_to(&mut reader, &mut start, header)?;
        if start.len() < header {
            return Err(CaptureError::NotACapture);
        }
        let whole = Cursor::new(start).chain(reader);
        let reader: Box<dyn PcapReaderIterator + Send> = match is_pcapng {
            true => Box::new(PcapNGReader::new(BUFFER, whole).map_err(|e| refused(e, 0))?),
            false => Box::new(LegacyPcapReader::new(BUFFER, whole).map_err(|e| refused(e, 0))?),
        };
        Ok(Self { reader, interfaces: Interfaces::default() })
    }

    /// Returns the next record; `None` at the end.
    pub(crate) fn next_record(&mut self) -> Result<Option<Record>, CaptureError> {
        loop {
            let offset = self.reader.consumed();
            let error = match self.reader.next() {
                Ok((used, block)) => {
                    let record = self.interfaces.read(block, offset);
                    self.reader.consume(used);
                    if let Some(record) = record? {
                        return Ok(Some(record));
                    }
                    continue;
                }
                Err(error) => error.to_owned_vec(),
            };
            match error {
                PcapError::Eof => return Ok(None),
                PcapError::Incomplete(_) => self.read_more(offset)?,
                PcapError::BufferTooSmall => self.grow()?,
                PcapError::UnexpectedEof if self.reader.data().is_empty() => return Ok(None),
                error => return Err(refused(error, offset)),
            }
        }
    }

    /// Reads on. Each call makes progress: more bytes, more room, or the end.
    fn read_more(&mut self, offset: usize) -> Result<(), CaptureError> {
        let before = self.reader.data().len();
        if self.reader.reader_exhausted() {
            return Err(CaptureError::Truncated);
        }
        self.reader.refill().map_err(|error| refused(error, offset))?;
        match self.reader.data().len() > before || self.reader.reader_exhausted() {
            true => Ok(()),
            false => self.grow(),
        }
    }

    fn grow(&mut self) -> Result<(), CaptureError> {
        match self.reader.grow(MAX_RECORD) {
            true => Ok(()),
            false => Err(CaptureError::TooLong),
        }
    }
}

/// Reads until `bytes` has this many, or the reader has no more.
fn read_up_to(
    reader: &mut impl Read,
    bytes: &mut Vec<u8>,
    wanted: usize,
) -> Result<(), CaptureError> {
    let more = u64::try_from(wanted.saturating_sub(bytes.len())).unwrap_or(u64::MAX);
    match reader.take(more).read_to_end(bytes) {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(error.into()),
        _ => Ok(()),
    }
}

/// The length of the section header that begins a pcapng capture.
fn section_len(start: &[u8]) -> Result<usize, CaptureError> {
    let (Some(len), Some(order)) = (number_at(start, 4), start.get(8..12)) else {
        return Err(CaptureError::NotACapture);
    };
    let len = match order {
        [0x4D, 0x3C, 0x2B, 0x1A] => u32::from_le_bytes(len),
        [0x1A, 0x2B, 0x3C, 0x4D] => u32::from_be_bytes(len),
        _ => return Err(CaptureError::NotACapture),
    };
    match usize::try_from(len) {
        Ok(len @ SECTION_HEADER_LEN..=MAX_SECTION_HEADER) => Ok(len),
        _ => Err(CaptureError::NotACapture),
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn refused<I>(error: PcapError<I>, offset: usize) -> CaptureError {
    match error {
        PcapError::Eof | PcapError::UnexpectedEof | PcapError::Incomplete(_) => {
            CaptureError::Truncated
        }
        PcapError::BufferTooSmall => CaptureError::TooLong,
        PcapError::HeaderNotRecognized => CaptureError::NotACapture,
        PcapError::ReadError => CaptureError::Read(ErrorKind::Other.into()),
        PcapError::NomError(..) | PcapError::OwnedNomError(..) => match offset {
            0 => CaptureError::NotACapture,
            offset => CaptureError::Malformed { offset },
        },
    }
}

/// The interfaces of a capture, as far as it describes them.
#[derive(Default)]
struct Interfaces {
    /// Of a pcapng section, in the order of their numbers. A pcap capture has one.
    known: Vec<Interface>,
}

/// Link type of an interface, and what its times mean.
#[derive(Clone, Copy)]
struct Interface {
    link: Linktype,
    /// Parts of a second.
    resolution: u128,
    /// Seconds to add to each time.
    offset: i64,
}

impl Interface {
    fn of_pcapng(described: &InterfaceDescriptionBlock<'_>) -> Self {
        // 2 or 10 to this power (pcapng, "if_tsresol"); a power that no clock has counts as microseconds.
        let (base, power): (u128, _) = match described.if_tsresol {
            binary @ 0x80.. => (2, binary & 0x7F),
            decimal => (10, decimal),
        };
        let resolution = base.checked_pow(power.into()).unwrap_or(1_000_000);
        Self { link: described.linktype, resolution, offset: described.if_tsoffset }
    }

    /// The time since 1970 that this many parts of a second are.
    fn time(self, parts: u64) -> Duration {
        let parts = u128::from(parts);
        let seconds = parts.checked_div(self.resolution).unwrap_or(0);
        let rest = parts.checked_rem(self.resolution).unwrap_or(0);
        let nanos = rest.saturating_mul(1_000_000_000).checked_div(self.resolution).unwrap_or(0);
        let seconds = u64::try_from(seconds).unwrap_or(u64::MAX).saturating_add_signed(self.offset);
        Duration::from_secs(seconds).saturating_add(nanoseconds(nanos))
    }
}

fn nanoseconds(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

impl Interfaces {
    /// Takes one block; returns the packet that it holds.
    fn read(
        &mut self,
        block: PcapBlockOwned<'_>,
        offset: usize,
    ) -> Result<Option<Record>, CaptureError> {
        let malformed = || CaptureError::Malformed { offset };
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let resolution =
                    if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                self.known = vec![Interface { link: header.network, resolution, offset: 0 }];
                Ok(None)
            }
            PcapBlockOwned::Legacy(packet) => {
                let interface = self.known.first().ok_or_else(malformed)?;
                let parts = u128::from(packet.ts_usec).saturating_mul(1_000_000_000);
                let nanos = parts.checked_div(interface.resolution).unwrap_or(0);
                let time =
                    Duration::from_secs(packet.ts_sec.into()).saturating_add(nanoseconds(nanos));
                Ok(Some(Record { time, link: interface.link, bytes: packet.data.to_vec() }))
            }
            PcapBlockOwned::NG(block) => self.read_pcapng(&block, offset),
        }
    }

    fn read_pcapng(
        &mut self,
        block: &Block<'_>,
        offset: usize,
    ) -> Result<Option<Record>, CaptureError> {
        let malformed = || CaptureError::Malformed { offset };
        match block {
            // Interfaces are numbered anew in each section.
            Block::SectionHeader(_) => self.known.clear(),
            Block::InterfaceDescription(_) if self.known.len() >= MAX_INTERFACES => {
                return Err(CaptureError::TooManyInterfaces);
            }
            Block::InterfaceDescription(described) => {
                self.known.push(Interface::of_pcapng(described));
            }
            Block::EnhancedPacket(packet) => {
                let number = usize::try_from(packet.if_id).map_err(|_| malformed())?;
                let interface = self.known.get(number).ok_or_else(malformed)?;
                let time =
                    interface.time(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low));
                let bytes = packet.packet_data().to_vec();
                return Ok(Some(Record { time, link: interface.link, bytes }));
            }
            // A packet of the first interface, without a time.
            Block::SimplePacket(packet) => {
                let link = self.known.first().ok_or_else(malformed)?.link;
                let bytes = packet.packet_data().to_vec();
                return Ok(Some(Record { time: Duration::ZERO, link, bytes }));
            }
            _ => {}
        }
        Ok(None)
    }
}
