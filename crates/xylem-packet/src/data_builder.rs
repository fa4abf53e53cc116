//! Builds Data packets: one buffer, content written in place, signature last.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::ops::Range;

use crate::buffer::{Buffer, Slice};
use crate::tlv::{self, OpenElement, types};
use crate::{
    Component, ContentType, EncodeError, KeyLocator, MAX_PACKET, MetaInfo, NameRef, SignatureInfo,
    SignatureType,
};

/// Describes a Data packet. `encode*` appends it to a buffer; a builder can be used repeatedly.
#[derive(Debug, Clone, Copy)]
pub struct DataBuilder<'a> {
    name: NameRef<'a>,
    meta: MetaInfo<'a>,
    signature: SignatureInfo<'a>,
}

impl<'a> DataBuilder<'a> {
    /// A Data packet with this name: type BLOB, no freshness, signature type 0 without a key.
    pub fn new(name: NameRef<'a>) -> Self {
        DataBuilder {
            name,
            meta: MetaInfo::default(),
            signature: SignatureInfo::new(SignatureType::DIGEST_SHA256, None),
        }
    }

    /// Sets ContentType.
    pub fn content_type(mut self, typ: ContentType) -> Self {
        self.meta.content_type = typ;
        self
    }

    /// Sets FreshnessPeriod in milliseconds; 0 omits it, which means the same.
    pub fn freshness_ms(mut self, ms: u64) -> Self {
        self.meta.freshness_ms = ms;
        self
    }

    /// Sets FinalBlockId.
    pub fn final_block_id(mut self, component: Component<'a>) -> Self {
        self.meta.final_block_id = Some(component);
        self
    }

    /// Sets signature type and key.
    pub fn signature(self, typ: SignatureType, key: impl Into<Option<KeyLocator<'a>>>) -> Self {
        self.signature_info(SignatureInfo::new(typ, key.into()))
    }

    /// Sets the whole SignatureInfo.
    pub fn signature_info(mut self, info: SignatureInfo<'a>) -> Self {
        self.signature = info;
        self
    }

    /// Writes everything up to the end of SignatureInfo, with room for the content.
    fn encode_head(&self, out: &mut impl Buffer, content_len: usize) -> DataHead {
        let start = out.written().len();
        let outer = OpenElement::begin(out, types::DATA, 3);
        let signed_start = out.written().len();
        self.name.encode(out);
        self.encode_meta(out);
        tlv::write_var_number(out, u64::from(types::CONTENT));
        tlv::write_var_number(out, content_len as u64);
        let content_start = out.written().len();
        out.put_zeros(content_len);
        self.signature.encode(out, types::SIGNATURE_INFO);
        DataHead { start, outer, signed_start, content_start, content_len }
    }

    fn encode_meta(&self, out: &mut impl Buffer) {
        if self.meta == MetaInfo::default() {
            return;
        }
        let open = OpenElement::begin(out, types::META_INFO, 1);
        if self.meta.content_type != ContentType::BLOB {
            tlv::write_number_element(out, types::CONTENT_TYPE, self.meta.content_type.0);
        }
        if self.meta.freshness_ms != 0 {
            tlv::write_number_element(out, types::FRESHNESS_PERIOD, self.meta.freshness_ms);
        }
        if let Some(component) = &self.meta.final_block_id {
            let inner = OpenElement::begin(out, types::FINAL_BLOCK_ID, 1);
            component.encode(out);
            inner.end(out);
        }
        open.end(out);
    }

    /// Writes a Data packet to the beginning of `out` and returns its length. Needs no allocator.
    ///
    /// `sign` receives the signed portion and the room for the signature's value, writes the value to the room's
    /// beginning and returns its length. Errors: `NoRoom`, `TooLong`; the content of `out` is then unspecified.
    pub fn encode_to_slice(
        &self,
        out: &mut [u8],
        content: &[u8],
        sign: impl FnOnce(&[u8], &mut [u8]) -> usize,
    ) -> Result<usize, EncodeError> {
        let mut out = Slice::new(out);
        let head = self.encode_head(&mut out, content.len());
        let signed_end = out.written().len();
        let value = OpenElement::begin(&mut out, types::SIGNATURE_VALUE, 1);
        if out.is_full() {
            return Err(EncodeError::NoRoom);
        }
        out.written_mut()[head.content()].copy_from_slice(content);
        let (written, room) = out.split();
        let len = sign(&written[head.signed_start..signed_end], room);
        out.advance(len);
        value.end(&mut out);
        if out.is_full() {
            return Err(EncodeError::NoRoom);
        }
        head.finish(&mut out)?;
        Ok(out.written().len())
    }
}

#[cfg(feature = "alloc")]
impl DataBuilder<'_> {
    /// Writes everything up to the end of SignatureInfo, with room for `content_len` bytes of content, which are zero
    /// until the caller fills them. `signature_len` only reserves memory.
    pub fn begin<'o>(
        &self,
        out: &'o mut Vec<u8>,
        content_len: usize,
        signature_len: usize,
    ) -> DataWriter<'o> {
        out.reserve(
            64 + self.name.encoded_len()
                + self.meta.final_block_id.as_ref().map_or(0, Component::encoded_len)
                + content_len
                + self.signature.encoded_len_bound()
                + signature_len,
        );
        let head = self.encode_head(out, content_len);
        DataWriter { out, head }
    }

    /// Appends a Data packet. `fill` writes its content directly into its place in `out`.
    ///
    /// `sign` receives the signed portion and a vector, to which it appends the signature's value. `signature_len` is
    /// the expected length of that value. On an error `out` is as it was.
    pub fn encode_with<E>(
        &self,
        out: &mut Vec<u8>,
        content_len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
        sign: impl FnOnce(&[u8], &mut Vec<u8>),
        signature_len: usize,
    ) -> Result<(), EncodeError<E>> {
        let start = out.len();
        // Refused before any work; the exact length is checked at the end.
        if content_len > MAX_PACKET {
            return Err(EncodeError::TooLong(content_len));
        }
        let mut writer = self.begin(out, content_len, signature_len);
        if let Err(error) = fill(writer.content_mut()) {
            out.truncate(start);
            return Err(EncodeError::Content(error));
        }
        let mut value = Vec::with_capacity(signature_len);
        sign(writer.signed_portion(), &mut value);
        writer.finish(&value).map_err(|error| match error {
            EncodeError::TooLong(len) => EncodeError::TooLong(len),
            EncodeError::EmptyName => EncodeError::EmptyName,
            EncodeError::NoRoom => EncodeError::NoRoom,
            EncodeError::Content(never) => match never {},
        })
    }

    /// Appends a Data packet with this content; `sign` as in [`Self::encode_with`].
    pub fn encode(
        &self,
        out: &mut Vec<u8>,
        content: &[u8],
        sign: impl FnOnce(&[u8], &mut Vec<u8>),
    ) -> Result<(), EncodeError> {
        let fill = |place: &mut [u8]| {
            place.copy_from_slice(content);
            Ok(())
        };
        self.encode_with(out, content.len(), fill, sign, 64)
    }
}

/// Positions of the parts of an incomplete Data packet.
struct DataHead {
    start: usize,
    outer: OpenElement,
    signed_start: usize,
    content_start: usize,
    content_len: usize,
}

impl DataHead {
    fn content(&self) -> Range<usize> {
        self.content_start..self.content_start + self.content_len
    }

    /// Sets the packet's length. Removes the packet if it is too long.
    fn finish(self, out: &mut impl Buffer) -> Result<(), EncodeError> {
        // The outer length may yet shrink from three octets to one, by 2, but not at this size. A longer packet exceeds
        // the limit in any case.
        let len = out.written().len() - self.start;
        if len > MAX_PACKET + 2 {
            out.cut(self.start);
            return Err(EncodeError::TooLong(len));
        }
        self.outer.end(out);
        let len = out.written().len() - self.start;
        if len > MAX_PACKET {
            out.cut(self.start);
            return Err(EncodeError::TooLong(len));
        }
        Ok(())
    }
}

/// A Data packet that lacks its content and its signature. If it is dropped before it is finished, an incomplete packet
/// stays in the buffer.
#[cfg(feature = "alloc")]
#[must_use = "without `finish` the buffer holds half a packet"]
pub struct DataWriter<'o> {
    out: &'o mut Vec<u8>,
    head: DataHead,
}

#[cfg(feature = "alloc")]
impl DataWriter<'_> {
    /// The content, mutable.
    pub fn content_mut(&mut self) -> &mut [u8] {
        &mut self.out[self.head.content()]
    }

    /// The bytes that the signature covers, once the content is in place.
    pub fn signed_portion(&self) -> &[u8] {
        &self.out[self.head.signed_start..]
    }

    /// Appends the signature's value and completes the packet. On an error the buffer is as it was before
    /// [`DataBuilder::begin`].
    pub fn finish(self, signature_value: &[u8]) -> Result<(), EncodeError> {
        self.finish_with(|out| out.extend_from_slice(signature_value))
    }

    /// Completes the packet with a signature that `append` writes directly to the packet's end. `append` must only
    /// append.
    pub fn finish_with(self, append: impl FnOnce(&mut Vec<u8>)) -> Result<(), EncodeError> {
        let value = OpenElement::begin(self.out, types::SIGNATURE_VALUE, 1);
        let before = self.out.len();
        append(self.out);
        assert!(self.out.len() >= before, "a signer only appends");
        value.end(self.out);
        self.head.finish(self.out)
    }
}
