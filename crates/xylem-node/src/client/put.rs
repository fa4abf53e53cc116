//! Publishing so that any NDN program fetches it: one packet, or versioned segments with RDR
//! metadata (docs/spec/rdr.md).
//!
//! The file stays where it is and is read as Interests ask for it; each segment is signed when it is
//! asked for. Memory is bounded by one stretch of the file. Nothing here keeps what was sent: caches
//! do that.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xylem_object::packets::METADATA_FRESHNESS_MS;
use xylem_packet::tlv::types;
use xylem_packet::{Component, Data, DataBuilder, Interest, MAX_PACKET, Name, NameRef};
use xylem_trust::Signer;

use super::rdr::{self, Metadata};
use super::trust::{Sign, signer};
use super::{Client, Outbox, parse_name, satisfies};
use crate::failure;
use crate::uri::PeerUri;
use xylem_library::{Error, Stop};

/// Bytes read from the file at a time: what comes next is asked for next.
const STRETCH: usize = 256 * 1024;
/// What NDN programs have agreed upon for segments.
pub const SEGMENT_SIZE: usize = 8000;

/// How to publish.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// The forwarder, as in [`Client::connect`].
    pub at: Option<PeerUri>,
    /// The name, as an NDN URI. A version at its end is taken as it is.
    pub name: String,
    /// With what to sign.
    pub sign: Sign,
    /// Where the own key is.
    pub store: PathBuf,
    /// One packet of exactly this name, or segments; `None`: segments for what exceeds one packet.
    pub segments: Option<bool>,
    /// Bytes of content in each segment.
    pub segment_size: usize,
    /// FreshnessPeriod of the content's packets.
    pub freshness: Duration,
    /// End after this many Interests were answered.
    pub count: Option<u64>,
    /// Ask the forwarder for the name's Interests; false where a route leads here already.
    pub register: bool,
}

/// What is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The packet's name, or the segments' with its version.
    pub name: String,
    /// Segments; `None`: one packet of exactly that name.
    pub segments: Option<u64>,
    /// Bytes of content.
    pub bytes: u64,
}

/// Publishes `size` bytes of `content` until `stop` is raised; returns how many Interests were
/// answered. `ready` is called once Interests can come.
///
/// # Errors
/// [`crate::Blame::Usage`] for what fits no packet and keys that are none, [`crate::Blame::Network`]
/// if the forwarder refuses the name or goes away, [`crate::Blame::Local`] if the file can't be read
/// any more.
pub fn put(
    options: &PutOptions,
    content: File,
    size: u64,
    stop: &Stop,
    ready: &mut dyn FnMut(&Published),
) -> Result<u64, Error> {
    let name = parse_name(&options.name)?;
    let signer = signer(&options.sign, &options.store, &name)?;
    let mut object = Object::new(&name, options, signer, Stretch::new(content, size))?;
    let mut client = Client::connect(options.at.as_ref())?;
    if options.register {
        client.register(object.served(), stop)?;
    }
    ready(&Published {
        name: object.prefix.to_string(),
        segments: object.last.map(|last| last + 1),
        bytes: size,
    });
    let (mut answered, mut broken) = (0, None);
    let enough = options.count.unwrap_or(u64::MAX);
    client.answer(stop, &mut |interest, token, outbox| {
        if broken.is_none() && answered < enough {
            match object.answer(interest, token, outbox) {
                Ok(yes) => answered += u64::from(yes),
                Err(error) => broken = Some(error),
            }
        }
        broken.is_none() && answered < enough
    })?;
    client.flush()?;
    broken.map_or(Ok(answered), Err)
}

/// A published object and its packets.
struct Object {
    /// The name without version.
    name: Name,
    /// Name of the packet, or prefix of the segments.
    prefix: Name,
    /// The last segment; `None`: one packet of exactly that name.
    last: Option<u64>,
    segment_size: usize,
    freshness_ms: u64,
    signer: Signer,
    content: Stretch,
    /// The metadata packet.
    metadata: Vec<u8>,
    packet: Vec<u8>,
}

impl Object {
    fn new(
        name: &Name,
        options: &PutOptions,
        signer: Signer,
        content: Stretch,
    ) -> Result<Self, Error> {
        let segment_size = options.segment_size.clamp(1, MAX_PACKET);
        let mut object = Self {
            name: name.clone(),
            prefix: name.clone(),
            last: None,
            segment_size,
            freshness_ms: u64::try_from(options.freshness.as_millis()).unwrap_or(u64::MAX),
            signer,
            content,
            metadata: Vec::new(),
            packet: Vec::new(),
        };
        if options.segments != Some(true) && object.content.size <= MAX_PACKET as u64 {
            object.segment_size = MAX_PACKET;
            match object.segment(0) {
                Ok(()) => return Ok(object),
                Err(error) if options.segments == Some(false) => return Err(error),
                Err(_) => object.segment_size = segment_size,
            }
        } else if options.segments == Some(false) {
            return Err(too_long(&"the content is longer than one packet"));
        }
        object.become_segments()?;
        Ok(object)
    }

    /// Chooses the version, signs the metadata, and checks that segments fit into packets.
    fn become_segments(&mut self) -> Result<(), Error> {
        match rdr::version_of(self.name.as_ref()) {
            Some(_) => self.name = self.name.as_ref().parent().to_name(),
            None => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let version = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
                self.prefix.push(Component::version(version));
            }
        }
        let size = self.content.size;
        let last = size.saturating_sub(1) / self.segment_size as u64;
        self.last = Some(last);
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
        self.signer.data(builder, &content, &mut self.metadata).map_err(|e| too_long(&e))?;
        // The last number is the longest, the first segment the fullest.
        self.segment(last)?;
        let longest = self.packet.len();
        self.segment(0)?;
        let number = Component::segment(last).encoded_len() - Component::segment(0).encoded_len();
        match self.packet.len().max(longest) + number {
            len if len > MAX_PACKET => Err(too_long(&format!("a segment would take {len} bytes"))),
            _ => Ok(()),
        }
    }

    /// What the forwarder should send here.
    fn served(&self) -> NameRef<'_> {
        self.name.as_ref()
    }

    /// Puts segment `number`, or the only packet, into `packet`.
    fn segment(&mut self, number: u64) -> Result<(), Error> {
        let content = self
            .content
            .piece(number * self.segment_size as u64, self.segment_size)
            .map_err(|e| failure::local("cannot read what is published", &e))?;
        self.packet.clear();
        let name = match self.last {
            None => self.prefix.clone(),
            Some(_) => self.prefix.child(Component::segment(number)),
        };
        let mut builder = DataBuilder::new(name.as_ref()).freshness_ms(self.freshness_ms);
        if let Some(last) = self.last {
            builder = builder.final_block_id(Component::segment(last));
        }
        self.signer.data(builder, content, &mut self.packet).map_err(|e| too_long(&e))
    }

    /// Answers one Interest, if there is an answer.
    fn answer(
        &mut self,
        interest: &Interest<'_>,
        token: Option<&[u8]>,
        outbox: &mut Outbox<'_>,
    ) -> Result<bool, Error> {
        let asked = interest.name();
        let digest = asked.last().is_some_and(|c| c.typ() == types::IMPLICIT_SHA256_DIGEST);
        let plain = if digest { asked.parent() } else { asked };
        let metadata = Data::decode(&self.metadata).ok().filter(|data| satisfies(data, interest));
        // The name alone is answered by the metadata: that is what older programs ask for.
        if metadata.is_some() && !self.prefix.as_ref().is_prefix_of(plain) {
            outbox.packet(&self.metadata, token);
            return Ok(true);
        }
        let number = match self.last {
            None => Some(0),
            Some(_) if plain == self.prefix && interest.can_be_prefix() => Some(0),
            Some(last) => plain
                .last()
                .and_then(|c| c.as_number_of(types::SEGMENT_COMPONENT))
                .filter(|number| plain.parent() == self.prefix && *number <= last),
        };
        let Some(number) = number else { return Ok(false) };
        self.segment(number)?;
        let right = Data::decode(&self.packet).is_ok_and(|data| satisfies(&data, interest));
        if right {
            outbox.packet(&self.packet, token);
        }
        Ok(right)
    }
}

fn too_long(why: &dyn std::fmt::Display) -> Error {
    failure::usage(format!("{why}; give --segments, a smaller --segment-size or a shorter name"))
}

/// A file, read in stretches.
struct Stretch {
    file: File,
    size: u64,
    bytes: Vec<u8>,
    start: u64,
}

impl Stretch {
    fn new(file: File, size: u64) -> Self {
        Self { file, size, bytes: Vec::new(), start: 0 }
    }

    /// `len` bytes from `at`, fewer at the file's end.
    fn piece(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let left = self.size.saturating_sub(at);
        let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
        let end = at + len as u64;
        if at < self.start || end > self.start + self.bytes.len() as u64 {
            let stretch = STRETCH.max(len).min(usize::try_from(left).unwrap_or(usize::MAX));
            self.bytes.resize(stretch, 0);
            // Nothing is in the buffer until the read has succeeded.
            self.start = u64::MAX;
            self.file.seek(SeekFrom::Start(at))?;
            self.file.read_exact(&mut self.bytes)?;
            self.start = at;
        }
        let from = (at - self.start) as usize;
        Ok(&self.bytes[from..from + len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use xylem_packet::InterestBuilder;

    fn object(size: u64, segments: Option<bool>) -> Result<Object, Error> {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..size).map(|i| (i / 7) as u8).collect();
        file.write_all(&content).unwrap();
        let options = PutOptions {
            at: None,
            name: "/o".to_owned(),
            sign: Sign::DigestSha256,
            store: PathBuf::new(),
            segments,
            segment_size: SEGMENT_SIZE,
            freshness: Duration::from_secs(1),
            count: None,
            register: false,
        };
        let name = "/o".parse().unwrap();
        Object::new(&name, &options, Signer::digest_sha256(), Stretch::new(file, size))
    }

    fn ask(object: &mut Object, name: &str, prefix: bool) -> Option<(String, Vec<u8>)> {
        use super::super::socket::Queue;
        use xylem_packet::link_service::{LinkService, LinkServiceConfig};
        let name: Name = name.parse().unwrap();
        let mut wire = Vec::new();
        InterestBuilder::new(name.as_ref()).can_be_prefix(prefix).encode(&mut wire).unwrap();
        let (mut queue, mut link) =
            (Queue::default(), LinkService::new(LinkServiceConfig::default()));
        let outbox = &mut Outbox { queue: &mut queue, link: &mut link, now: Duration::ZERO };
        let yes = object.answer(&Interest::decode(&wire).unwrap(), None, outbox).unwrap();
        yes.then(|| {
            let packet = queue.waiting();
            let data = Data::decode(packet).unwrap();
            (data.name().to_string(), data.content().to_vec())
        })
    }

    #[test]
    fn small_content_is_one_packet_of_that_name() {
        let mut object = object(100, None).unwrap();
        assert_eq!(ask(&mut object, "/o", false).unwrap().0, "/o");
        assert_eq!(ask(&mut object, "/o/x", true), None);
        let digest = Data::decode(&object.packet).unwrap().implicit_digest();
        let full = object.prefix.child(Component::implicit_digest(&digest)).to_string();
        assert_eq!(ask(&mut object, &full, false).unwrap().0, "/o");
        let wrong = object.prefix.child(Component::implicit_digest(&[1; 32])).to_string();
        assert_eq!(ask(&mut object, &wrong, false), None);
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
    fn what_fits_no_packet_is_said_before_anybody_asks() {
        assert!(object(9000, Some(false)).is_err());
        assert!(object(8800, Some(false)).is_err());
        assert!(object(8800, None).unwrap().last.is_some());
        assert!(object(8600, Some(false)).unwrap().last.is_none());
    }
}
