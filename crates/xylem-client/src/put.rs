//! Publishes a file so that any NDN program can fetch it: as versioned segments with RDR metadata (docs/spec/rdr.md),
//! and if it fits, also as one packet.
//!
//! The file stays in its place and is read as Interests ask for it. Each segment is signed when it is requested. Memory
//! is bounded by one read buffer. Nothing sent is kept here: caches do that.

mod ahead;
mod stretch;

use std::fs::File;
use std::time::Duration;

use xylem_object::packets::METADATA_FRESHNESS_MS;
use xylem_packet::tlv::types;
use xylem_packet::{
    Component, ContentType, Data, DataBuilder, Interest, MAX_PACKET, Name, NameRef,
};
use xylem_trust::Signer;

use crate::rdr::{self, Metadata};
use crate::{Application, ClientError, ForwarderMessage, PacketOutbox, PacketOverflow, satisfies};
use ahead::SignedAhead;
use stretch::BufferedFile;

/// Bytes of content in a segment, by convention of NDN programs.
pub const SEGMENT_SIZE: usize = 8000;
/// FreshnessPeriod of a signed report that there is no such segment. A client that asks for a prefix can get the report
/// from a cache instead of the object (python-ndn's catchunks), so it is stale almost at once.
const REFUSAL_FRESHNESS_MS: u64 = 10;

/// How to segment and sign the content.
#[derive(Clone, Debug)]
pub struct PutSettings {
    /// `Some(true)`: segments only. `Some(false)`: there has to be one packet of exactly the name as well. `None`:
    /// there is one if the content fits.
    pub segments: Option<bool>,
    /// Bytes of content in each segment.
    pub segment_size: usize,
    /// FreshnessPeriod of the content's packets.
    pub freshness: Duration,
    /// End after this many Interests were answered.
    pub count: Option<u64>,
}

/// Serves a file: makes each packet when it is requested.
pub struct Producer {
    /// The name without version.
    name: Name,
    /// Name of the packet that holds the whole content, if there is one.
    whole: Option<Name>,
    /// Prefix of the segments.
    prefix: Name,
    last: u64,
    segment_size: usize,
    freshness_ms: u64,
    signer: Signer,
    content: BufferedFile,
    /// The metadata packet.
    metadata: Vec<u8>,
    packet: Vec<u8>,
    ahead: SignedAhead,
    answered: u64,
    enough: u64,
}

impl Producer {
    /// Publishes `size` bytes of `content` as `name`. If the name has no version, its segments get `version`, in
    /// microseconds since 1970. Content in one packet has segments and metadata as well: RDR clients look for nothing
    /// else.
    ///
    /// # Errors
    /// Content or names that fit no packet, and a file that can't be read.
    pub fn new(
        name: &Name,
        options: &PutSettings,
        signer: Signer,
        content: File,
        size: u64,
        version: u64,
    ) -> Result<Self, ClientError> {
        let content = BufferedFile::new(content, size);
        let segment_size = options.segment_size.clamp(1, MAX_PACKET);
        let mut object = Self {
            name: name.clone(),
            whole: None,
            prefix: name.clone(),
            last: 0,
            segment_size,
            freshness_ms: u64::try_from(options.freshness.as_millis()).unwrap_or(u64::MAX),
            signer,
            content,
            metadata: Vec::new(),
            packet: Vec::new(),
            ahead: SignedAhead::default(),
            answered: 0,
            enough: options.count.unwrap_or(u64::MAX),
        };
        if options.segments != Some(true) && object.content.size <= MAX_PACKET as u64 {
            match object.make_whole(name) {
                Ok(()) => object.whole = Some(name.clone()),
                Err(error) if options.segments == Some(false) => return Err(error),
                Err(_) => {}
            }
        } else if options.segments == Some(false) {
            return Err(PacketOverflow::WholeObject.into());
        }
        object.prepare_segments(version)?;
        Ok(object)
    }

    /// Chooses the version, signs the metadata, and checks that segments fit into packets.
    fn prepare_segments(&mut self, version: u64) -> Result<(), ClientError> {
        if rdr::version_of(self.name.as_ref()).is_some() {
            self.name = self.name.as_ref().parent().to_name();
        } else {
            self.prefix.push(Component::version(version));
        }
        let size = self.content.size;
        let last = size.saturating_sub(1) / self.segment_size as u64;
        self.last = last;
        let metadata = Metadata {
            name: self.prefix.as_ref(),
            final_block_id: Some(Component::segment(last)),
            segment_size: Some(self.segment_size as u64),
            size: Some(size),
        };
        let mut content = Vec::new();
        metadata.encode(&mut content);
        let mut name = rdr::discovery_name(self.name.as_ref());
        if let Some(version) = self.prefix.as_ref().last() {
            name.push(version);
        }
        name.push(Component::segment(0));
        let builder = DataBuilder::new(name.as_ref())
            .freshness_ms(METADATA_FRESHNESS_MS)
            .final_block_id(Component::segment(0));
        self.signer.data(builder, &content, &mut self.metadata).map_err(PacketOverflow::Object)?;
        // The last segment has the longest number, the first the most content.
        self.segment(last)?;
        let longest = self.packet.len();
        self.segment(0)?;
        let number = Component::segment(last).encoded_len() - Component::segment(0).encoded_len();
        match self.packet.len().max(longest) + number {
            len if len > MAX_PACKET => Err(PacketOverflow::Segment(len).into()),
            _ => Ok(()),
        }
    }

    /// The name of the packet, or of the segments with its version.
    #[must_use]
    pub fn published(&self) -> &Name {
        self.whole.as_ref().unwrap_or(&self.prefix)
    }

    /// Number of segments; `None`: one packet holds the content.
    #[must_use]
    pub fn segments(&self) -> Option<u64> {
        self.whole.is_none().then_some(self.last + 1)
    }

    /// Signs all packets.
    #[must_use]
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Interests that were answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// The prefix to register at the forwarder.
    #[must_use]
    pub fn served(&self) -> NameRef<'_> {
        self.name.as_ref()
    }

    /// Puts the packet with the whole content into `packet`.
    fn make_whole(&mut self, name: &Name) -> Result<(), ClientError> {
        let content = self.content.read(0, MAX_PACKET).map_err(ClientError::Content)?;
        self.packet.clear();
        let builder = DataBuilder::new(name.as_ref()).freshness_ms(self.freshness_ms);
        Ok(self.signer.data(builder, content, &mut self.packet).map_err(PacketOverflow::Object)?)
    }

    /// Puts segment `number` into `packet`. When segments are requested in order, signs several together ahead of time,
    /// which costs less.
    fn segment(&mut self, number: u64) -> Result<(), ClientError> {
        let in_a_row = std::mem::replace(&mut self.ahead.expected, number + 1) == number;
        if self.ahead.take(number, &mut self.packet) {
            return Ok(());
        }
        let count = (self.signer.batch_size() as u64).min(self.last.saturating_sub(number) + 1);
        if in_a_row && count > 1 {
            self.make_ahead(number, count as usize)?;
            if self.ahead.take(number, &mut self.packet) {
                return Ok(());
            }
        }
        let content = self
            .content
            .read(number * self.segment_size as u64, self.segment_size)
            .map_err(ClientError::Content)?;
        self.packet.clear();
        let name = self.prefix.child(Component::segment(number));
        let builder = DataBuilder::new(name.as_ref())
            .freshness_ms(self.freshness_ms)
            .final_block_id(Component::segment(self.last));
        Ok(self.signer.data(builder, content, &mut self.packet).map_err(PacketOverflow::Object)?)
    }

    /// Makes `count` segments from `first` on.
    fn make_ahead(&mut self, first: u64, count: usize) -> Result<(), ClientError> {
        let names: Vec<Name> = (first..first + count as u64)
            .map(|number| self.prefix.child(Component::segment(number)))
            .collect();
        let content = self
            .content
            .read(first * self.segment_size as u64, count * self.segment_size)
            .map_err(ClientError::Content)?;
        let builder = |name| {
            DataBuilder::new(name)
                .freshness_ms(self.freshness_ms)
                .final_block_id(Component::segment(self.last))
        };
        let packets: Vec<_> = names
            .iter()
            .zip(content.chunks(self.segment_size))
            .map(|(name, content)| (builder(name.as_ref()), content))
            .collect();
        let room = self.ahead.buffers(first, packets.len());
        Ok(self.signer.data_many(&packets, room).map_err(PacketOverflow::Object)?)
    }

    /// Answers one Interest if it can. Returns what the answer held.
    fn answer(
        &mut self,
        interest: &Interest<'_>,
        token: Option<&[u8]>,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<Option<AnswerKind>, ClientError> {
        let asked = interest.name();
        let digest = asked.last().is_some_and(|c| c.typ() == types::IMPLICIT_SHA256_DIGEST);
        let plain = if digest { asked.parent() } else { asked };
        if let Some(whole) = self.whole.take_if(|whole| plain == *whole) {
            let made = self.make_whole(&whole);
            self.whole = Some(whole);
            made?;
            if self.send(interest, token, outbox) {
                return Ok(Some(AnswerKind::Content));
            }
        }
        let metadata = Data::decode(&self.metadata).ok().filter(|data| satisfies(data, interest));
        // The metadata also answers the name alone, which older programs request.
        if metadata.is_some() && !self.prefix.as_ref().is_prefix_of(plain) {
            outbox.packet(&self.metadata, token);
            return Ok(Some(AnswerKind::Metadata));
        }
        let number = if plain == self.prefix && interest.can_be_prefix() {
            Some(0)
        } else {
            plain
                .last()
                .and_then(|c| c.as_number_of(types::SEGMENT_COMPONENT))
                .filter(|number| plain.parent() == self.prefix && *number <= self.last)
        };
        let Some(number) = number else { return Ok(None) };
        self.segment(number)?;
        Ok(self.send(interest, token, outbox).then_some(AnswerKind::Content))
    }

    /// Answers an Interest that [`Self::answer`] has nothing for, so that the consumer does not wait in vain. Below
    /// this version there are only its segments, for ever: a Data of ContentType NACK states that, passes every
    /// forwarder, and is signed like the segments. Other producers may have other versions, or other objects below the
    /// name: such an Interest is returned as a Nack.
    fn refuse(
        &mut self,
        interest: &Interest<'_>,
        token: Option<&[u8]>,
        outbox: &mut PacketOutbox<'_>,
    ) {
        let asked = interest.name();
        if self.prefix.as_ref().is_prefix_of(asked) && asked != self.prefix.as_ref() {
            self.packet.clear();
            let builder = DataBuilder::new(asked)
                .content_type(ContentType::NACK)
                .freshness_ms(REFUSAL_FRESHNESS_MS)
                .final_block_id(Component::segment(self.last));
            if self.signer.data(builder, &[], &mut self.packet).is_ok()
                && self.send(interest, token, outbox)
            {
                return;
            }
        }
        outbox.refuse(interest.wire(), token);
    }

    /// Sends the packet made last if it satisfies the Interest.
    fn send(
        &self,
        interest: &Interest<'_>,
        token: Option<&[u8]>,
        outbox: &mut PacketOutbox<'_>,
    ) -> bool {
        let right = Data::decode(&self.packet).is_ok_and(|data| satisfies(&data, interest));
        if right {
            outbox.packet(&self.packet, token);
        }
        right
    }
}

impl Application for Producer {
    fn handle_message(
        &mut self,
        _now: Duration,
        message: ForwarderMessage<'_>,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        if message.nack.is_none()
            && self.answered < self.enough
            && let Ok(interest) = Interest::decode(message.packet)
        {
            let token = message.pit_token;
            match self.answer(&interest, token, outbox)? {
                // A consumer with the metadata of one packet still has to fetch that packet.
                Some(answered) => {
                    let counts = answered == AnswerKind::Content || self.whole.is_none();
                    self.answered += u64::from(counts);
                }
                None => self.refuse(&interest, token, outbox),
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.answered >= self.enough
    }
}

/// The kind of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerKind {
    Content,
    Metadata,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use xylem_packet::InterestBuilder;

    fn object(size: u64, segments: Option<bool>) -> Result<Producer, ClientError> {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..size).map(|i| (i / 7) as u8).collect();
        file.write_all(&content).unwrap();
        let settings = PutSettings {
            segments,
            segment_size: SEGMENT_SIZE,
            freshness: Duration::from_secs(1),
            count: None,
        };
        let name = "/o".parse().unwrap();
        Producer::new(&name, &settings, Signer::digest_sha256(), file, size, 7)
    }

    fn ask(object: &mut Producer, name: &str, prefix: bool) -> Option<(String, Vec<u8>)> {
        let name: Name = name.parse().unwrap();
        let mut wire = Vec::new();
        InterestBuilder::new(name.as_ref()).can_be_prefix(prefix).encode(&mut wire).unwrap();
        let mut connection = crate::Connection::new(xylem_packet::MAX_FRAME, false, 0);
        let outbox = &mut connection.outbox(Duration::ZERO);
        let yes = object.answer(&Interest::decode(&wire).unwrap(), None, outbox).unwrap();
        yes.map(|_| {
            let data = Data::decode(connection.queue().waiting()).unwrap();
            (data.name().to_string(), data.content().to_vec())
        })
    }

    #[test]
    fn small_content_is_one_packet_of_that_name() {
        let mut object = object(100, None).unwrap();
        assert_eq!(ask(&mut object, "/o", false).unwrap().0, "/o");
        assert_eq!(ask(&mut object, "/o/x", true), None);
        let digest = Data::decode(&object.packet).unwrap().implicit_digest();
        let name: Name = "/o".parse().unwrap();
        let full = name.child(Component::implicit_digest(&digest)).to_string();
        assert_eq!(ask(&mut object, &full, false).unwrap().0, "/o");
        let wrong = name.child(Component::implicit_digest(&[1; 32])).to_string();
        assert_eq!(ask(&mut object, &wrong, false), None);
    }

    /// `ndnd cat` and NDNts look for the metadata, and then for segments.
    #[test]
    fn one_packet_is_found_by_its_metadata_too() {
        for forced in [None, Some(false)] {
            let mut object = object(100, forced).unwrap();
            assert_eq!(object.segments(), None);
            assert_eq!(object.published().to_string(), "/o");
            let (name, content) = ask(&mut object, "/o/32=metadata", true).unwrap();
            assert_eq!(name, "/o/32=metadata/v=7/seg=0");
            let metadata = Metadata::decode(&content).unwrap();
            assert_eq!((metadata.last_segment(), metadata.size), (Some(0), Some(100)));
            let segment = metadata.name.to_name().child(Component::segment(0)).to_string();
            let (_, content) = ask(&mut object, &segment, false).unwrap();
            assert_eq!(content, ask(&mut object, "/o", true).unwrap().1);
        }
    }

    /// The answer of `object` to an Interest, as the forwarder gets it: the Nack's reason, and the packet.
    fn answer_of(object: &mut Producer, name: &str) -> (Option<xylem_packet::NackReason>, Vec<u8>) {
        let name: Name = name.parse().unwrap();
        let mut wire = Vec::new();
        InterestBuilder::new(name.as_ref()).encode(&mut wire).unwrap();
        let mut connection = crate::Connection::new(xylem_packet::MAX_FRAME, false, 0);
        let message =
            ForwarderMessage { packet: &wire, pit_token: Some(&[5]), nack: None, congested: false };
        let outbox = &mut connection.outbox(Duration::ZERO);
        object.handle_message(Duration::ZERO, message, outbox).unwrap();
        let frame = xylem_packet::LpPacket::decode(connection.queue().waiting()).unwrap();
        assert_eq!(frame.pit_token, Some(&[5][..]));
        (frame.nack, frame.fragment.unwrap().to_vec())
    }

    #[test]
    fn missing_names_get_a_signed_or_plain_nack() {
        let mut object = object(20_000, Some(true)).unwrap();
        for missing in ["seg=3", "seg=18446744073709551615", "x", "seg=0/x"] {
            let (nack, packet) = answer_of(&mut object, &format!("/o/v=7/{missing}"));
            let data = Data::decode(&packet).unwrap();
            assert_eq!((nack, data.meta().content_type), (None, ContentType::NACK), "{missing}");
            assert_eq!(data.name().to_string(), format!("/o/v=7/{missing}"));
            assert_eq!(data.meta().final_block_id, Some(Component::segment(2)));
            assert!(data.meta().freshness_ms <= 10, "the report would hide the object");
            xylem_trust::Verifier::digest_sha256().data(&data).unwrap();
        }
        // Another producer may have these.
        for other in ["/o/v=8/seg=0", "/o/x", "/o/v=8", "/o"] {
            let (nack, packet) = answer_of(&mut object, other);
            assert_eq!(nack, Some(xylem_packet::NackReason::NO_ROUTE), "{other}");
            assert_eq!(Interest::decode(&packet).unwrap().name().to_string(), other);
        }
        assert_eq!(object.answered(), 0, "nobody got anything");
    }

    #[test]
    fn segments_metadata_and_nothing_else() {
        for (size, last) in [(0, 0), (1, 0), (8000, 0), (8001, 1), (600_000, 74)] {
            let mut object = object(size, Some(true)).unwrap();
            let prefix = object.prefix.to_string();
            let mut whole = Vec::new();
            for number in 0..=last {
                let (name, content) =
                    ask(&mut object, &format!("{prefix}/seg={number}"), false).unwrap();
                assert_eq!(name, format!("{prefix}/seg={number}"));
                whole.extend(content);
            }
            assert_eq!(whole.len() as u64, size);
            assert!(whole.iter().enumerate().all(|(i, byte)| *byte == (i / 7) as u8));
            assert_eq!(ask(&mut object, &format!("{prefix}/seg={}", last + 1), false), None);
            assert_eq!(ask(&mut object, &format!("{prefix}/seg=0/seg=0"), false), None);
            assert_eq!(ask(&mut object, &prefix, true).unwrap().0, format!("{prefix}/seg=0"));
            assert_eq!(ask(&mut object, &prefix, false), None);
            for asked in ["/o", "/o/32=metadata"] {
                let (name, content) = ask(&mut object, asked, true).unwrap();
                assert!(name.starts_with("/o/32=metadata/v=") && name.ends_with("/seg=0"));
                let metadata = Metadata::decode(&content).unwrap();
                assert_eq!(metadata.name, object.prefix);
                assert_eq!((metadata.last_segment(), metadata.size), (Some(last), Some(size)));
                assert_eq!(ask(&mut object, asked, false), None);
            }
        }
    }

    #[test]
    fn content_that_fits_no_packet_is_refused_at_once() {
        assert!(object(9000, Some(false)).is_err());
        assert!(object(8800, Some(false)).is_err());
        assert!(object(8800, None).unwrap().whole.is_none());
        assert!(object(8600, Some(false)).unwrap().whole.is_some());
    }
}
