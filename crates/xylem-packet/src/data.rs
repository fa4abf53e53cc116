//! Data packets, parsed in place.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::ops::Range;

use crate::name::Names;
use crate::tlv::{self, ElementOrder, TlvReader, types};
use crate::{Component, DecodeError, MAX_PACKET, NameRef, SignatureInfo};

/// ContentType (packet format v0.3, "MetaInfo").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ContentType(pub u64);

impl ContentType {
    /// Bytes identified by the name: the default.
    pub const BLOB: Self = Self(0);
    /// A link object. Its content is names by which other content can be reached ([`Data::delegations`]).
    pub const LINK: Self = Self(1);
    /// A certificate.
    pub const KEY: Self = Self(2);
    /// An application's refusal.
    pub const NACK: Self = Self(3);
    /// A prefix announcement.
    pub const PREFIX_ANNOUNCEMENT: Self = Self(5);
}

/// MetaInfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MetaInfo<'a> {
    /// The type of the content.
    pub content_type: ContentType,
    /// Time after arrival during which the Data satisfies MustBeFresh, in milliseconds; 0 if absent.
    pub freshness_ms: u64,
    /// The last component of the name of the last packet in this series.
    pub final_block_id: Option<Component<'a>>,
}

impl<'a> MetaInfo<'a> {
    fn from_value(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = TlvReader::new(value);
        let mut order = ElementOrder::new(types::META_INFO);
        let mut meta = MetaInfo::default();
        while let Some(element) = reader.next_element()? {
            let rank = match element.typ {
                types::CONTENT_TYPE => 1,
                types::FRESHNESS_PERIOD => 2,
                types::FINAL_BLOCK_ID => 3,
                other => {
                    order.unknown(other)?;
                    continue;
                }
            };
            if !order.admit(rank, element.typ)? {
                continue;
            }
            match rank {
                1 => meta.content_type = ContentType(tlv::number_of(element.typ, element.value)?),
                2 => meta.freshness_ms = tlv::number_of(element.typ, element.value)?,
                _ => meta.final_block_id = Some(final_block_id(element.value)?),
            }
        }
        Ok(meta)
    }
}

/// FinalBlockId holds exactly one component.
fn final_block_id(value: &[u8]) -> Result<Component<'_>, DecodeError> {
    let bad = DecodeError::BadLength { typ: types::FINAL_BLOCK_ID, len: value.len() };
    let element = TlvReader::new(value).next_element()?.ok_or(bad)?;
    if element.end != value.len() {
        return Err(bad);
    }
    Component::from_element(element)
}

/// A checked Data packet.
#[derive(Debug, Clone, Copy)]
pub struct Data<'a> {
    wire: &'a [u8],
    name: NameRef<'a>,
    meta: MetaInfo<'a>,
    content: &'a [u8],
    signature_info: SignatureInfo<'a>,
    signature_value: &'a [u8],
    signed_portion: &'a [u8],
    name_start: usize,
    content_start: usize,
}

impl<'a> Data<'a> {
    /// Checks `wire`, which is one whole Data packet of at most [`MAX_PACKET`] bytes.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "places in the packet, at whose end its value lies"
    )]
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        if wire.len() > MAX_PACKET {
            return Err(DecodeError::TooLong(wire.len() as u64));
        }
        let inside = types::DATA;
        let value = tlv::read_only(wire, inside)?.value;
        let value_start = wire.len() - value.len();

        let mut reader = TlvReader::new(value);
        let mut order = ElementOrder::new(inside);
        let missing = |typ| DecodeError::Missing { inside, typ };
        let first = reader.next_element()?.ok_or(missing(types::NAME))?;
        if first.typ != types::NAME {
            return Err(missing(types::NAME));
        }
        order.admit(1, types::NAME)?;
        let name = NameRef::from_value(first.value)?;

        let mut meta = MetaInfo::default();
        let mut content: &[u8] = &[];
        let mut content_start = value_start + first.end;
        let mut signature_info = None;
        let mut signed_end = 0;
        let mut signature_value = None;
        while let Some(element) = reader.next_element()? {
            let rank = match element.typ {
                types::NAME => 1,
                types::META_INFO => 2,
                types::CONTENT => 3,
                types::SIGNATURE_INFO => 4,
                types::SIGNATURE_VALUE => 5,
                other => {
                    order.unknown(other)?;
                    continue;
                }
            };
            if !order.admit(rank, element.typ)? {
                continue;
            }
            match rank {
                2 => meta = MetaInfo::from_value(element.value)?,
                3 => {
                    content = element.value;
                    content_start = value_start + element.value_start();
                }
                4 => {
                    signature_info = Some(SignatureInfo::from_value(element.value, element.typ)?);
                    signed_end = element.end;
                }
                _ => signature_value = Some(element.value),
            }
        }
        Ok(Data {
            wire,
            name,
            meta,
            content,
            signature_info: signature_info.ok_or(missing(types::SIGNATURE_INFO))?,
            signature_value: signature_value.ok_or(missing(types::SIGNATURE_VALUE))?,
            signed_portion: &value[..signed_end],
            name_start: value_start + first.value_start(),
            content_start,
        })
    }

    /// The whole packet.
    #[inline]
    pub fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// The name; it may be empty.
    #[inline]
    pub fn name(&self) -> NameRef<'a> {
        self.name
    }

    /// Range of the name's components (`name().value()`) in [`Self::wire`].
    #[expect(clippy::arithmetic_side_effects, reason = "places in the packet")]
    #[inline]
    pub fn name_range(&self) -> Range<usize> {
        self.name_start..self.name_start + self.name.value().len()
    }

    /// MetaInfo, or its defaults if there is none.
    #[inline]
    pub fn meta(&self) -> MetaInfo<'a> {
        self.meta
    }

    /// The content; empty if there is none.
    #[inline]
    pub fn content(&self) -> &'a [u8] {
        self.content
    }

    /// Range of the content in [`Self::wire`], so that a holder of `Bytes` can slice it.
    #[expect(clippy::arithmetic_side_effects, reason = "places in the packet")]
    #[inline]
    pub fn content_range(&self) -> Range<usize> {
        self.content_start..self.content_start + self.content.len()
    }

    /// The names to which a link object delegates, best first: at least one.
    ///
    /// Errors: `NotALink` for another ContentType, `Missing`, `WrongType`, and those of a name.
    pub fn delegations(&self) -> Result<Names<'a>, DecodeError> {
        if self.meta.content_type != ContentType::LINK {
            return Err(DecodeError::NotALink(self.meta.content_type.0));
        }
        Names::check(self.content, types::CONTENT)?;
        Ok(Names::checked(self.content))
    }

    /// How the packet is signed.
    #[inline]
    pub fn signature_info(&self) -> SignatureInfo<'a> {
        self.signature_info
    }

    /// The signature's bytes.
    #[inline]
    pub fn signature_value(&self) -> &'a [u8] {
        self.signature_value
    }

    /// The bytes that the signature covers: from the Name to the end of SignatureInfo.
    #[inline]
    pub fn signed_portion(&self) -> &'a [u8] {
        self.signed_portion
    }

    /// The implicit digest: `sha256` of the whole packet.
    pub fn implicit_digest_with(&self, sha256: impl FnOnce(&[u8]) -> [u8; 32]) -> [u8; 32] {
        sha256(self.wire)
    }

    /// The implicit digest: the value of the full name's last component.
    #[cfg(feature = "std")]
    pub fn implicit_digest(&self) -> [u8; 32] {
        self.implicit_digest_with(crate::sha256)
    }
}
