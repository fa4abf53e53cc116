//! The Data packets of a publication: encodes them, and parses packets that carry proofs.
//!
//! A signed packet (manifest, metadata) carries a signature by a key. A segment or a tile carries its proof as
//! signature type 8 or 9: its own node's value, then its siblings from the bottom up. xylem-tree interprets and
//! verifies proofs. No proof covers the MetaInfo of such a packet, so nothing is concluded from it.
//!
//! [`open`] is for getters: it sorts arriving packets by name and verifies nothing.

use core::ops::Range;

use xylem_packet::{
    Component, Data, DataBuilder, EncodeError, KeyLocator, Name, NameRef, SignatureType,
};
use xylem_tree::{Geometry, TreeKind};
use xylem_trust::Signer;

use crate::naming::{self, ObjectId, PublicationRequest};

/// Freshness of immutable packets in caches. Requests for segments need not ask for fresh Data. It is short so that a
/// getter that received a bad packet from a cache can soon bypass the cache by MustBeFresh.
pub const FRESHNESS_MS: u64 = 4_000;
/// Freshness in caches of the pointer to the newest version (RDR).
pub const METADATA_FRESHNESS_MS: u64 = 10;

/// The signature type of the segments and tiles of a tree; its number is also the manifest's TreeKind.
pub const fn signature_type(kind: TreeKind) -> SignatureType {
    match kind {
        TreeKind::Blake3 => SignatureType::BLAKE3_MERKLE,
        TreeKind::Sha256 => SignatureType::SHA256_MERKLE,
    }
}

/// A segment or a tile as received: sorted by its name and not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unverified<'a> {
    /// The segment or tile that its name claims.
    pub request: PublicationRequest,
    /// Its bytes.
    pub content: &'a [u8],
    /// Range of the content in the packet.
    pub content_range: Range<usize>,
    /// Its SignatureValue, for xylem-tree's `Verifier`.
    pub proof: &'a [u8],
}

/// Why a Data packet cannot be a segment or a tile of this publication. Its sender is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Its name is not that of a segment or a tile of an object of this publication.
    #[error("the packet's name is not that of a segment or tile of this publication")]
    Name,
    /// It carries no proof of the manifest's kind of tree.
    #[error("the packet's signature type {0} is not a proof in the manifest's kind of tree")]
    SignatureType(u64),
    /// Its FinalBlockId is not the last segment by the signed size.
    #[error("the packet's number of the last segment contradicts the signed size")]
    FinalBlock,
}

/// Sorts a packet that was received for the publication at `prefix`. `geometry` gives the trees of known objects; a
/// FinalBlockId must agree with them or be absent.
///
/// # Errors
/// See [`PacketError`].
pub fn open<'a>(
    prefix: NameRef<'_>,
    data: &Data<'a>,
    geometry: impl FnOnce(ObjectId) -> Option<Geometry>,
) -> Result<Unverified<'a>, PacketError> {
    let request = naming::parse(prefix, data.name()).ok_or(PacketError::Name)?;
    let (object, final_block) = match request {
        PublicationRequest::Segment { object, .. } => (object, data.meta().final_block_id),
        PublicationRequest::Tile { object, .. } => (object, None),
        PublicationRequest::Manifest
        | PublicationRequest::Have { .. }
        | PublicationRequest::Metadata => {
            return Err(PacketError::Name);
        }
    };
    let geometry = geometry(object).ok_or(PacketError::Name)?;
    // The manifest determines how a packet is verified; the packet cannot choose another way.
    let found = data.signature_info().typ;
    if found != signature_type(geometry.kind()) {
        return Err(PacketError::SignatureType(found.0));
    }
    if final_block.is_some_and(|last| last != Component::segment(geometry.last_segment().0)) {
        return Err(PacketError::FinalBlock);
    }
    Ok(Unverified {
        request,
        content: data.content(),
        content_range: data.content_range(),
        proof: data.signature_value(),
    })
}

/// A builder of a segment's or tile's Data packet, without content and proof.
pub(crate) fn proof_builder<'a>(
    name: NameRef<'a>,
    manifest_name: NameRef<'a>,
    kind: TreeKind,
    last_segment: Option<Component<'a>>,
) -> DataBuilder<'a> {
    let builder = DataBuilder::new(name)
        .freshness_ms(FRESHNESS_MS)
        .signature(signature_type(kind), KeyLocator::Name(manifest_name));
    match last_segment {
        Some(last) => builder.final_block_id(last),
        None => builder,
    }
}

/// Signs a small Data packet. `name` is under a checked prefix and `content` is below 2 KiB, so only the name of the
/// signer's key could make the packet too long.
pub(crate) fn sign_data(
    name: NameRef<'_>,
    content: &[u8],
    freshness_ms: u64,
    final_block: Option<Component<'_>>,
    signer: &Signer,
) -> Result<Vec<u8>, EncodeError> {
    let mut builder = DataBuilder::new(name).freshness_ms(freshness_ms);
    if let Some(last) = final_block {
        builder = builder.final_block_id(last);
    }
    let mut out = Vec::new();
    signer.data(builder, content, &mut out)?;
    Ok(out)
}

/// A small Data packet with a digest as its signature: an answer to one question over a link that authenticates the
/// sender.
///
/// # Errors
/// [`EncodeError::TooLong`].
pub fn digest_signed(name: NameRef<'_>, content: &[u8]) -> Result<Vec<u8>, EncodeError> {
    sign_data(name, content, 0, None, &Signer::digest_sha256())
}

/// The RDR metadata packet: O/32=metadata/v=V/seg=0, which holds P as a Name TLV.
///
/// V is P's own version. A newer publication has a higher V, and one P always has the same packet. So it is signed once
/// and not for each Interest.
pub(crate) fn sign_metadata(
    prefix: NameRef<'_>,
    signer: &Signer,
) -> Result<(Name, Vec<u8>), EncodeError> {
    let mut name = naming::encode(prefix, &PublicationRequest::Metadata);
    if let Some(version) = prefix.last() {
        name.push(version);
    }
    name.push(Component::segment(0));
    let mut content = Vec::new();
    prefix.encode(&mut content);
    let last = Some(Component::segment(0));
    let packet = sign_data(name.as_ref(), &content, METADATA_FRESHNESS_MS, last, signer)?;
    Ok((name, packet))
}
