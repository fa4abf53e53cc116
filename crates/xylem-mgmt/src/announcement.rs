//! [`PrefixAnnouncement`]: a Data signed by a key that may sign for a prefix, which announces that the prefix can be
//! reached.
//!
//! ```text
//! /<prefix>/32=PA/v=<version>/seg=0       Data, ContentType 5
//! Content := ExpirationPeriod ValidityPeriod?
//! ```
//! The form is that of ndn-cxx (NFD's `rib/announce`, NDNLPv2's PrefixAnnouncement). Parsing verifies no signature.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::{self, TlvReader, types as packet};
use xylem_packet::{Component, ContentType, Data, DataBuilder, EncodeError, NameRef};
use xylem_trust::{Signer, ValidityPeriod};

use crate::types;

/// Limit of an announcement, in bytes. An RSA signature and names of some hundred bytes fit.
pub const MAX_ANNOUNCEMENT: usize = 2048;

const KEYWORD: Component<'static> = Component::keyword(b"PA");

/// Reasons for which a Data is no prefix announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnouncementError {
    /// Not a Data, or damaged.
    #[error("it is not a Data packet")]
    Data,
    /// Longer than our own limit.
    #[error("it is longer than {MAX_ANNOUNCEMENT} bytes")]
    TooLong,
    /// Not `/<prefix>/32=PA/v=…/seg=…`.
    #[error("its name is not that of a prefix announcement")]
    Name,
    /// The ContentType is not 5.
    #[error("its ContentType is {0}, not 5")]
    ContentType(u64),
    /// ExpirationPeriod is missing, a field repeats, or a critical field is unknown.
    #[error("its content is malformed")]
    Content,
}

/// A Data in the form of a prefix announcement. Its signature is not verified.
#[derive(Debug, Clone)]
pub struct PrefixAnnouncement<'a> {
    /// The packet.
    pub data: Data<'a>,
    /// The bytes of the packet.
    pub wire: &'a [u8],
    /// How long a route may last after the announcement was received, in milliseconds.
    pub expiration_ms: u64,
    /// The announcement is not valid before and after this period.
    pub validity: Option<ValidityPeriod>,
}

impl<'a> PrefixAnnouncement<'a> {
    /// Parses one whole Data.
    ///
    /// # Errors
    /// See [`AnnouncementError`].
    pub fn decode(wire: &'a [u8]) -> Result<Self, AnnouncementError> {
        if wire.len() > MAX_ANNOUNCEMENT {
            return Err(AnnouncementError::TooLong);
        }
        let data = Data::decode(wire).map_err(|_| AnnouncementError::Data)?;
        let name = data.name();
        let at = name.len().checked_sub(3).ok_or(AnnouncementError::Name)?;
        let numbered = |i: usize, typ| name.get(i).is_some_and(|c| c.as_number_of(typ).is_some());
        if name.get(at) != Some(KEYWORD)
            || !numbered(at.saturating_add(1), packet::VERSION_COMPONENT)
            || !numbered(at.saturating_add(2), packet::SEGMENT_COMPONENT)
        {
            return Err(AnnouncementError::Name);
        }
        let content_type = data.meta().content_type;
        if content_type != ContentType::PREFIX_ANNOUNCEMENT {
            return Err(AnnouncementError::ContentType(content_type.0));
        }
        let (mut expiration_ms, mut validity) = (None, None);
        let mut reader = TlvReader::new(data.content());
        while let Some(element) = reader.next_element().map_err(|_| AnnouncementError::Content)? {
            let repeated = match element.typ {
                types::EXPIRATION_PERIOD => {
                    let ms = tlv::read_number(element.value).ok_or(AnnouncementError::Content)?;
                    expiration_ms.replace(ms).is_some()
                }
                packet::VALIDITY_PERIOD => {
                    let period = ValidityPeriod::from_value(element.value)
                        .map_err(|_| AnnouncementError::Content)?;
                    validity.replace(period).is_some()
                }
                typ => tlv::is_critical(typ),
            };
            if repeated {
                return Err(AnnouncementError::Content);
            }
        }
        let expiration_ms = expiration_ms.ok_or(AnnouncementError::Content)?;
        Ok(PrefixAnnouncement { data, wire, expiration_ms, validity })
    }

    /// The prefix.
    pub fn prefix(&self) -> NameRef<'a> {
        let name = self.data.name();
        name.prefix(name.len().saturating_sub(3))
    }

    /// How long a route may last from now on, in milliseconds; `None` if the announcement is not valid now.
    pub fn lasts_ms(&self, now_ms: u64) -> Option<u64> {
        let valid = match self.validity {
            Some(period) if !period.contains(now_ms) => return None,
            // The period ends with its last second.
            Some(period) => period.not_after_ms.saturating_add(1000).saturating_sub(now_ms),
            None => u64::MAX,
        };
        Some(self.expiration_ms.min(valid)).filter(|ms| *ms > 0)
    }

    /// Makes a signed announcement of `prefix`; `version` has to grow with each of the same prefix.
    ///
    /// # Errors
    /// `TooLong` above the packet limit.
    pub fn sign(
        prefix: NameRef<'_>,
        version: u64,
        expiration_ms: u64,
        validity: Option<ValidityPeriod>,
        signer: &Signer,
    ) -> Result<Vec<u8>, EncodeError> {
        let mut content = Vec::new();
        tlv::write_number_element(&mut content, types::EXPIRATION_PERIOD, expiration_ms);
        if let Some(period) = validity {
            tlv::write_element(&mut content, packet::VALIDITY_PERIOD, &period.to_value());
        }
        let name = prefix.child(KEYWORD).child(Component::version(version));
        let name = name.child(Component::segment(0));
        let builder =
            DataBuilder::new(name.as_ref()).content_type(ContentType::PREFIX_ANNOUNCEMENT);
        let mut wire = Vec::new();
        signer.data(builder, &content, &mut wire)?;
        Ok(wire)
    }
}
