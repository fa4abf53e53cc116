//! [`SegmentTemplate`]: the packets of an object's segments. All but number, content and proof is encoded once.

use xylem_packet::tlv::{self, element_len, types};
use xylem_packet::{Component, EncodeError, MAX_PACKET, NameRef};
use xylem_tree::{Geometry, SegmentIndex};

use crate::naming::{self, ObjectId, PublicationRequest};
use crate::packets;

/// Writes the Data packets of one object's segments, byte for byte as [`xylem_packet::DataBuilder`] writes them
/// (docs/spec/object.md, "Segments and tiles").
#[derive(Debug, Clone)]
pub struct SegmentTemplate {
    geometry: Geometry,
    /// Components of the segments' names, without the last one.
    name: Vec<u8>,
    /// The MetaInfo element.
    meta: Vec<u8>,
    /// The SignatureInfo element, and the type of the SignatureValue that follows it.
    signature: Vec<u8>,
}

impl SegmentTemplate {
    /// A template for the segments of `object`, with this geometry, of the publication at `prefix`.
    pub fn new(prefix: NameRef<'_>, object: ObjectId, geometry: Geometry) -> Self {
        let last = geometry.last_segment();
        let manifest_name = naming::encode(prefix, &PublicationRequest::Manifest);
        let name = naming::encode(prefix, &PublicationRequest::Segment { object, index: last });
        let number = Component::segment(last.0);
        let builder = packets::proof_builder(
            name.as_ref(),
            manifest_name.as_ref(),
            geometry.kind(),
            Some(number),
        );
        // Taken from a built packet, so that only one place defines its content.
        let mut packet = Vec::new();
        let mut writer = builder.begin(&mut packet, 0, 0);
        let signed = writer.signed_portion().to_vec();
        debug_assert!(writer.content_mut().is_empty());
        let mut elements = tlv::TlvReader::new(&signed);
        let mut rest = || elements.next_element().ok().flatten().map_or(0, |element| element.end);
        let (name_end, meta_end, content_end) = (rest(), rest(), rest());
        let mut signature = signed[content_end..].to_vec();
        tlv::write_var_number(&mut signature, u64::from(types::SIGNATURE_VALUE));
        Self {
            geometry,
            name: name.as_ref().parent().value().to_vec(),
            meta: signed[name_end..meta_end].to_vec(),
            signature,
        }
    }

    /// The object's tree.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Appends the packet of segment `i` with this proof to `out`. `fill` must append `content_len` bytes of content.
    /// If it fails, `out` is as it was.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above the packet limit (a checked prefix, a segment and its proof never reach it);
    /// [`EncodeError::Content`] with the error of `fill`.
    ///
    /// # Panics
    /// If `fill` appends more or fewer bytes.
    pub fn write<E>(
        &self,
        i: SegmentIndex,
        content_len: usize,
        proof: &[u8],
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), EncodeError<E>> {
        let number = Component::segment(i.0);
        let name_len = self.name.len() + number.encoded_len();
        let inside = element_len(types::NAME, name_len)
            + self.meta.len()
            + element_len(types::CONTENT, content_len)
            + self.signature.len()
            + tlv::var_number_len(proof.len() as u64)
            + proof.len();
        let whole = element_len(types::DATA, inside);
        if whole > MAX_PACKET {
            return Err(EncodeError::TooLong(whole));
        }
        let start = out.len();
        out.reserve(whole);
        let mut head = |typ: u32, len: usize| {
            tlv::write_var_number(out, u64::from(typ));
            tlv::write_var_number(out, len as u64);
        };
        head(types::DATA, inside);
        head(types::NAME, name_len);
        out.extend_from_slice(&self.name);
        number.encode(out);
        out.extend_from_slice(&self.meta);
        tlv::write_var_number(out, u64::from(types::CONTENT));
        tlv::write_var_number(out, content_len as u64);
        let before = out.len();
        if let Err(error) = fill(out) {
            out.truncate(start);
            return Err(EncodeError::Content(error));
        }
        assert_eq!(out.len() - before, content_len, "as many bytes as were announced");
        out.extend_from_slice(&self.signature);
        tlv::write_var_number(out, proof.len() as u64);
        out.extend_from_slice(proof);
        Ok(())
    }
}
