//! [`Publication`]: answers Interests for one publication.
//!
//! Interests come from the forwarder. Content and tree nodes are read through [`ObjectSource`], content directly into its
//! place in the packet. The type does no I/O of its own, holds no secret, and signs nothing while it serves: manifest
//! and metadata are signed beforehand. A peer that serves another publisher's publication uses the same type with the
//! manifest packet that it fetched.
//!
//! ```
//! use xylem_object::publication::{ServeOutcome, Publication, ObjectSource};
//! use xylem_object::{Manifest, ObjectId, PublisherKey, naming, sign_manifest};
//! use xylem_packet::{Data, Interest, InterestBuilder, Packet};
//! use xylem_tree::Geometry;
//!
//! /// A file of one segment, in memory: its root is its whole proof.
//! struct Hello;
//! impl ObjectSource for Hello {
//!     type Error = std::io::Error;
//!     fn geometry(&mut self, _: ObjectId) -> Option<Geometry> { None }
//!     fn read_content(&mut self, _: ObjectId, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
//!         out.copy_from_slice(&b"hello"[offset as usize..][..out.len()]);
//!         Ok(())
//!     }
//!     fn read_nodes(&mut self, _: ObjectId, _: u64, _: &mut [u8]) -> std::io::Result<()> {
//!         unreachable!("one segment needs no outboard")
//!     }
//! }
//!
//! let key = PublisherKey::from_bytes(&[7; 32]);
//! let prefix = naming::versioned(naming::default_name(&key.public(), b"hi").as_ref(), 1).unwrap();
//! let manifest = Manifest::file(xylem_hash::hash(b"hello"), 5, b"hi");
//! let packet = sign_manifest(&manifest, prefix.as_ref(), &key).unwrap();
//! let mut publication = Publication::new(prefix.clone(), packet, &key.public()).unwrap();
//!
//! let name = naming::encode(prefix.as_ref(), &naming::PublicationRequest::Segment {
//!     object: ObjectId::Root, index: xylem_tree::SegmentIndex(0),
//! });
//! let mut wire = Vec::new();
//! InterestBuilder::new(name.as_ref()).encode(&mut wire).unwrap();
//! let Ok(Packet::Interest(interest)) = Packet::decode(&wire) else { panic!() };
//! let mut out = Vec::new();
//! assert_eq!(publication.answer(&interest, &mut Hello, &mut out).unwrap(), ServeOutcome::Data);
//! let Ok(Packet::Data(data)) = Packet::decode(&out) else { panic!() };
//! assert_eq!(data.content(), b"hello");
//! ```

mod nodes;

use xylem_hash::Hash;
use xylem_packet::{Data, EncodeError, Interest, Name, NameRef};
use xylem_tree::{
    ExtractError, Geometry, SegmentIndex, Tile, segment_signature, tile_content, tile_content_len,
    tile_signature,
};
use xylem_trust::{Signer, Verifier};

use crate::have::Have;
use crate::keys::{PublisherId, PublisherKey};
use crate::manifest::{Manifest, ManifestError, PublicationKind, verify_manifest_with};
use crate::naming::{self, ObjectId, PrefixError, PublicationRequest};
use crate::packets;
use crate::template::SegmentTemplate;
use nodes::{CachedNodes, DirectNodes, NodeGroupCache};

/// Reads a publication's content and trees.
///
/// Geometry and root of [`ObjectId::Root`] and [`ObjectId::Sums`] come from the manifest and are not requested from
/// here.
pub trait ObjectSource {
    /// The error of a read; [`Publication::answer`] returns it.
    type Error;

    /// The geometry of one object's tree, in the manifest's segment size and kind of tree; `None` if there is no such
    /// object.
    fn geometry(&mut self, object: ObjectId) -> Option<Geometry>;

    /// Fills `out` with the object's bytes from `offset` on.
    ///
    /// # Errors
    /// Those of the medium.
    fn read_content(
        &mut self,
        object: ObjectId,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Self::Error>;

    /// Fills `out` (a multiple of 32 bytes) with outboard slots from `first_slot` on. Slots that a fetch in progress
    /// lacks are zeros.
    ///
    /// # Errors
    /// Those of the medium.
    fn read_nodes(
        &mut self,
        object: ObjectId,
        first_slot: u64,
        out: &mut [u8],
    ) -> Result<(), Self::Error>;

    /// The object's root, if it is known: a file of one segment then needs no outboard.
    fn root(&mut self, object: ObjectId) -> Option<Hash> {
        let _ = object;
        None
    }

    /// Returns whether this segment's content is present. A fetch in progress has some segments only.
    fn has_segment(&mut self, object: ObjectId, index: SegmentIndex) -> bool {
        let _ = (object, index);
        true
    }
}

/// Result of an Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeOutcome {
    /// A Data packet was appended.
    Data,
    /// The name is not of this publication.
    OtherPublication,
    /// The name is of this publication, but no such object, segment or tile exists or is present.
    NoSuch,
    /// The name is of the next part of a growing object: answer it when the part exists.
    NotYet,
}

/// Why a publication cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublicationError {
    /// The prefix is invalid.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// The manifest packet is not a Data packet.
    #[error("the manifest is not an NDN Data packet")]
    NotData,
    /// The manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// One publication, ready to answer Interests. See the module's documentation.
///
/// Order of calls: [`Publication::new`]; [`Publication::with_metadata`], if the caller has the key; then
/// [`Publication::answer`] for each Interest.
#[derive(Debug)]
pub struct Publication {
    prefix: Name,
    /// P/_root: the manifest's name, and the KeyLocator of all proofs.
    manifest_name: Name,
    manifest: Manifest,
    manifest_packet: Vec<u8>,
    metadata: Option<(Name, Vec<u8>)>,
    groups: NodeGroupCache,
    /// The template of the object of the last requested segment.
    template: Option<(ObjectId, SegmentTemplate)>,
    /// The current proof; kept to reuse its allocation.
    proof: Vec<u8>,
}

impl Publication {
    /// The publication with the signed manifest `manifest_packet`, which is verified first.
    ///
    /// # Errors
    /// See [`PublicationError`].
    pub fn new(
        prefix: Name,
        manifest_packet: Vec<u8>,
        publisher: &PublisherId,
    ) -> Result<Self, PublicationError> {
        let verifier = publisher.verifier().ok_or(ManifestError::BadSignature)?;
        Self::verified_by(prefix, manifest_packet, &verifier)
    }

    /// As [`Publication::new`], for a manifest that was signed with any kind of key.
    ///
    /// # Errors
    /// See [`PublicationError`].
    pub fn verified_by(
        prefix: Name,
        manifest_packet: Vec<u8>,
        verifier: &Verifier,
    ) -> Result<Self, PublicationError> {
        naming::check_prefix(prefix.as_ref())?;
        let data = Data::decode(&manifest_packet).map_err(|_| PublicationError::NotData)?;
        let manifest = verify_manifest_with(&data, prefix.as_ref(), verifier)?;
        Ok(Self {
            manifest_name: naming::encode(prefix.as_ref(), &PublicationRequest::Manifest),
            prefix,
            manifest,
            manifest_packet,
            metadata: None,
            groups: NodeGroupCache::default(),
            template: None,
            proof: Vec::new(),
        })
    }

    /// Answers requests for the newest version with this one too. The answer is signed here, once. Without it, as for
    /// another publisher's publication, such Interests get [`ServeOutcome::NoSuch`].
    #[must_use]
    pub fn with_metadata(self, key: &PublisherKey) -> Self {
        self.with_metadata_by(key.signer())
    }

    /// As [`Publication::with_metadata`], with any kind of key. If the key's name has thousands of bytes, the packet
    /// would be too long, and there is none.
    #[must_use]
    pub fn with_metadata_by(mut self, signer: &Signer) -> Self {
        self.metadata = packets::sign_metadata(self.prefix.as_ref(), signer).ok();
        self
    }

    /// P.
    pub fn prefix(&self) -> NameRef<'_> {
        self.prefix.as_ref()
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The signed manifest packet.
    pub fn manifest_packet(&self) -> &[u8] {
        &self.manifest_packet
    }

    /// Answers one Interest: appends the Data packet to `out`, or leaves `out` as it was.
    ///
    /// # Errors
    /// The source's error.
    pub fn answer<S: ObjectSource>(
        &mut self,
        interest: &Interest<'_>,
        source: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<ServeOutcome, S::Error> {
        let name = interest.name();
        match naming::parse(self.prefix.as_ref(), name) {
            Some(PublicationRequest::Segment { object, index }) => {
                self.answer_segment(object, index, source, out)
            }
            Some(PublicationRequest::Tile { object, tile }) => {
                self.answer_tile(name, object, tile, source, out)
            }
            // A peer that holds only a part answers this itself, before it calls this function.
            Some(PublicationRequest::Have { .. }) => {
                Have::everything().packet(name, out).expect(FITS_PACKET_LIMIT);
                Ok(ServeOutcome::Data)
            }
            request => Ok(self.answer_signed(interest, request, out)),
        }
    }

    /// Answers with a packet that was signed beforehand, also if the Interest names only a prefix of its name.
    fn answer_signed(
        &self,
        interest: &Interest<'_>,
        request: Option<PublicationRequest>,
        out: &mut Vec<u8>,
    ) -> ServeOutcome {
        let (name, discovers) = (interest.name(), interest.can_be_prefix());
        let (prefix, object) = (self.prefix.as_ref(), self.prefix.as_ref().parent());
        let metadata = self.metadata.as_ref().and_then(|(full_name, packet)| {
            // The bare object name is answered too: python-ndn's catchunks discovers versions only in this way.
            let begins = name.len() >= object.len() && name.is_prefix_of(full_name.as_ref());
            (begins && (discovers || name.len() == full_name.len())).then_some(packet)
        });
        let packet = match request {
            Some(PublicationRequest::Manifest) => Some(&self.manifest_packet),
            _ if metadata.is_some() => metadata,
            _ if discovers && (name == prefix || name == object) => Some(&self.manifest_packet),
            _ => None,
        };
        if let Some(packet) = packet {
            out.extend_from_slice(packet);
            return ServeOutcome::Data;
        }
        match request.is_some() || prefix.is_prefix_of(name) {
            true => ServeOutcome::NoSuch,
            false => ServeOutcome::OtherPublication,
        }
    }

    fn answer_segment<S: ObjectSource>(
        &mut self,
        object: ObjectId,
        index: SegmentIndex,
        source: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<ServeOutcome, S::Error> {
        let Some(geometry) = self.geometry(object, source) else { return Ok(ServeOutcome::NoSuch) };
        if !geometry.has_segment(index) || !source.has_segment(object, index) {
            return Ok(ServeOutcome::NoSuch);
        }
        self.proof.clear();
        let root = (geometry.segments() == 1).then(|| self.root(object, source)).flatten();
        if let Some(root) = root {
            self.proof.extend_from_slice(root.as_bytes());
        } else {
            let mut nodes = CachedNodes { source, object, groups: &mut self.groups };
            match segment_signature(&geometry, index, &mut nodes, &mut self.proof) {
                Ok(()) => {}
                Err(ExtractError::Source(error)) => return Err(error),
                Err(_) => return Ok(ServeOutcome::NoSuch),
            }
        }
        let (range, len) = (geometry.segment_range(index), geometry.segment_len(index));
        let template = match &self.template {
            Some((of, template)) if *of == object && *template.geometry() == geometry => template,
            _ => {
                let template = SegmentTemplate::new(self.prefix.as_ref(), object, geometry);
                &self.template.insert((object, template)).1
            }
        };
        let written = template.write(index, len, &self.proof, out, |out| {
            let at = out.len();
            out.resize(at + len, 0);
            source.read_content(object, range.start, &mut out[at..])
        });
        match written {
            Ok(()) => Ok(ServeOutcome::Data),
            Err(EncodeError::Content(error)) => Err(error),
            Err(_) => unreachable!("{FITS_PACKET_LIMIT}"),
        }
    }

    fn answer_tile<S: ObjectSource>(
        &mut self,
        name: NameRef<'_>,
        object: ObjectId,
        tile: Tile,
        source: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<ServeOutcome, S::Error> {
        let Some(geometry) = self.geometry(object, source) else { return Ok(ServeOutcome::NoSuch) };
        let mut nodes = DirectNodes { source, object };
        // Content and proof share one buffer, in this order.
        self.proof.clear();
        let content_len = tile_content_len(&geometry, tile);
        let read = tile_content(&geometry, tile, &mut nodes, &mut self.proof)
            .and_then(|()| tile_signature(&geometry, tile, &mut nodes, &mut self.proof));
        match read {
            Ok(()) => {}
            Err(ExtractError::Source(error)) => return Err(error),
            Err(_) => return Ok(ServeOutcome::NoSuch),
        }
        let (content, proof) = self.proof.split_at(content_len);
        let manifest_name = self.manifest_name.as_ref();
        let builder = packets::proof_builder(name, manifest_name, geometry.kind(), None);
        let mut writer = builder.begin(out, content.len(), proof.len());
        writer.content_mut().copy_from_slice(content);
        writer.finish(proof).expect(FITS_PACKET_LIMIT);
        Ok(ServeOutcome::Data)
    }

    fn geometry<S: ObjectSource>(&self, object: ObjectId, source: &mut S) -> Option<Geometry> {
        match object {
            ObjectId::Root => Some(self.manifest.geometry()),
            ObjectId::Sums => self.manifest.sums_geometry(),
            ObjectId::File(_) if self.manifest.kind == PublicationKind::File => None,
            ObjectId::File(_) => source
                .geometry(object)
                .filter(|geometry| geometry.segments() <= crate::MAX_SEGMENTS)
                .filter(|geometry| geometry.kind() == self.manifest.tree),
        }
    }

    fn root<S: ObjectSource>(&self, object: ObjectId, source: &mut S) -> Option<Hash> {
        match object {
            ObjectId::Root => Some(self.manifest.root),
            ObjectId::Sums => self.manifest.sums.map(|sums| sums.root),
            ObjectId::File(_) => source.root(object),
        }
    }
}

/// Reason why a publication's packet is never too long.
const FITS_PACKET_LIMIT: &str =
    "MAX_PREFIX and MAX_SEGMENTS keep the largest packet within MAX_PACKET";
