//! [`produce`]: makes all packets of an object in memory at once.
//!
//! It is for content that is published whole and kept as packets: a content store, a benchmark, a small object. The
//! bytes come from one slice, are hashed once, and leave as Data packets in one buffer. [`crate::Publication`] serves
//! content that is read from disk on demand. No metadata packet is made: the serving program decides which version is
//! the newest.
//!
//! ```
//! use xylem_object::{Manifest, Packets, PublisherKey, naming, produce, verify_manifest};
//! use xylem_packet::Data;
//!
//! let key = PublisherKey::from_bytes(&[7; 32]);
//! let prefix = naming::versioned(naming::default_name(&key.public(), b"f").as_ref(), 1)?;
//! let (mut packets, content) = (Packets::default(), vec![5; 100_000]);
//! // Root and sizes are filled in.
//! let like = Manifest::file(xylem_hash::hash(b""), 0, b"f");
//! let manifest = produce(&like, prefix.as_ref(), &content, key.signer(), &mut packets).unwrap();
//! assert_eq!(manifest.root, xylem_hash::hash(&content));
//! assert_eq!(packets.len(), 13 + 1 + 1); // segments, a tile, the manifest
//! let data = Data::decode(packets.iter().last().unwrap()).unwrap();
//! assert_eq!(verify_manifest(&data, prefix.as_ref(), &key.public()), Ok(manifest));
//! # Ok::<(), naming::PrefixError>(())
//! ```

use core::convert::Infallible;

use xylem_packet::NameRef;
use xylem_tree::{
    NODE_LEN, OutboardBuilder, Region, SegmentIndex, Tile, hash_region, tile_content,
    tile_signature,
};
use xylem_trust::Signer;

use crate::manifest::{Manifest, ManifestError, PublicationKind, sign_manifest_with};
use crate::naming::{self, ObjectId, PublicationRequest};
use crate::packets;
use crate::template::SegmentTemplate;

/// Encoded packets, one after the other in one buffer, which is reused for the next object.
#[derive(Debug, Clone, Default)]
pub struct Packets {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The outboard of the current object.
    outboard: Vec<u8>,
    proof: Vec<u8>,
}

impl Packets {
    /// Number of packets.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The `n`-th packet.
    pub fn get(&self, n: usize) -> Option<&[u8]> {
        let start = n.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.bytes.get(start..*self.ends.get(n)?)
    }

    /// All packets, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        (0..self.len()).map(|n| self.get(n).unwrap_or_default())
    }

    /// Drops the packets and keeps the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn close(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

/// Makes the packets of a file with the bytes `content`: its segments in order (the `n`-th packet is segment `n`), then
/// its tiles, tier by tier, then the manifest, signed by `signer`. `out` is cleared first. Returns the manifest:
/// `like`, which must be a file's, with root and sizes filled in.
///
/// # Errors
/// As [`sign_manifest_with`]; also [`ManifestError::BadValue`] if `like` is a directory's.
pub fn produce(
    like: &Manifest,
    prefix: NameRef<'_>,
    content: &[u8],
    signer: &Signer,
    out: &mut Packets,
) -> Result<Manifest, ManifestError> {
    out.clear();
    if like.kind != PublicationKind::File {
        return Err(ManifestError::BadValue(crate::manifest::types::KIND));
    }
    let size = content.len() as u64;
    let mut manifest = Manifest { size, total_size: size, ..like.clone() };
    manifest.check()?;
    naming::check_prefix(prefix).map_err(ManifestError::Prefix)?;
    let template = SegmentTemplate::new(prefix, ObjectId::Root, manifest.geometry());
    manifest.root = segments(&template, content, out);
    tiles(&template, prefix, out);
    let packet = sign_manifest_with(&manifest, prefix, signer)?;
    out.bytes.extend_from_slice(&packet);
    out.close();
    Ok(manifest)
}

/// Writes all segments, each region's as soon as the region is hashed. Returns the root.
fn segments(template: &SegmentTemplate, content: &[u8], out: &mut Packets) -> xylem_hash::Hash {
    let geometry = *template.geometry();
    let Packets { bytes, ends, outboard, proof } = out;
    outboard.clear();
    outboard.resize(geometry.slots() as usize * NODE_LEN, 0);
    let mut builder = OutboardBuilder::new(geometry, |slot: u64, run: &[u8]| {
        let at = slot as usize * NODE_LEN;
        outboard[at..at + run.len()].copy_from_slice(run);
        Ok::<(), Infallible>(())
    });
    for index in 0..Region::count(&geometry) {
        let range = Region::range(&geometry, index);
        let part = &content[range.start as usize..range.end as usize];
        let first = Region::first_segment(&geometry, index);
        let region = hash_region(&geometry, first, part).expect("a region of this geometry");
        for (i, segment) in (first.0..).zip(segments_of(part, geometry.segment_size().bytes())) {
            let i = SegmentIndex(i);
            proof.clear();
            region.segment_signature(i, proof);
            template
                .write::<Infallible>(i, segment.len(), proof, bytes, |out| {
                    out.extend_from_slice(segment);
                    Ok(())
                })
                .expect("a checked prefix, a segment and its proof are within the limit");
            ends.push(bytes.len());
        }
        builder.push(region).expect("pushed in order, into memory");
    }
    builder.finish().expect("all regions were pushed")
}

/// The segments of a region; an empty region has one empty segment.
fn segments_of(part: &[u8], segment: usize) -> impl Iterator<Item = &[u8]> {
    let empty = part.is_empty().then_some(part);
    empty.into_iter().chain(part.chunks(segment))
}

fn tiles(template: &SegmentTemplate, prefix: NameRef<'_>, out: &mut Packets) {
    let geometry = template.geometry();
    let manifest_name = naming::encode(prefix, &PublicationRequest::Manifest);
    for tier in (0..).take_while(|tier| geometry.tiles(*tier) > 0) {
        for index in 0..geometry.tiles(tier) {
            let tile = Tile { tier, index };
            let request = PublicationRequest::Tile { object: ObjectId::Root, tile };
            let name = naming::encode(prefix, &request);
            let mut nodes = &out.outboard[..];
            let (mut content, proof) = (Vec::new(), &mut out.proof);
            proof.clear();
            tile_content(geometry, tile, &mut nodes, &mut content)
                .and_then(|()| tile_signature(geometry, tile, &mut nodes, proof))
                .expect("a tile of this geometry out of its whole outboard");
            packets::proof_builder(name.as_ref(), manifest_name.as_ref(), geometry.kind(), None)
                .encode(&mut out.bytes, &content, |_, value| value.extend_from_slice(proof))
                .expect("a checked prefix, a tile and its proof are within the limit");
            out.close();
        }
    }
}
