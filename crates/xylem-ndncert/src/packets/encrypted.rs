//! The encrypted form of CHALLENGE packets.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv;

use super::fields::{self, FormatError};
use crate::numbers::typ;

/// A message under AES-GCM-128; [`crate::RequestSession`] seals and opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encrypted {
    /// 8 random octets, the same in all messages of a sender, and a counter of blocks, big-endian.
    pub iv: [u8; 12],
    /// Authentication tag.
    pub tag: [u8; 16],
    /// The ciphertext, as long as the plaintext.
    pub payload: Vec<u8>,
}

impl Encrypted {
    /// Parses the message.
    ///
    /// # Errors
    /// See [`FormatError`].
    pub fn decode(value: &[u8]) -> Result<Self, FormatError> {
        let (mut iv, mut tag, mut payload) = (None, None, None);
        fields::each(value, |found, value| match found {
            typ::INITIALIZATION_VECTOR => {
                fields::once(&mut iv, found, fields::fixed(found, value)?)
            }
            typ::AUTHENTICATION_TAG => fields::once(&mut tag, found, fields::fixed(found, value)?),
            typ::ENCRYPTED_PAYLOAD => fields::once(&mut payload, found, value.to_vec()),
            _ => Ok(false),
        })?;
        Ok(Encrypted {
            iv: fields::needed(iv, typ::INITIALIZATION_VECTOR)?,
            tag: fields::needed(tag, typ::AUTHENTICATION_TAG)?,
            payload: fields::needed(payload, typ::ENCRYPTED_PAYLOAD)?,
        })
    }

    /// The message as ApplicationParameters or Content.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::write_element(&mut out, typ::INITIALIZATION_VECTOR, &self.iv);
        tlv::write_element(&mut out, typ::AUTHENTICATION_TAG, &self.tag);
        tlv::write_element(&mut out, typ::ENCRYPTED_PAYLOAD, &self.payload);
        out
    }
}
