//! Growing objects: the checkpoint that a manifest describes, and the name of the next one.
//!
//! Each checkpoint of a growing object O is a publication of its own under P = `O/v=<version>`. Versions ascend, and
//! each checkpoint is a prefix of the next one's bytes. The newest checkpoint is found as any newest version is
//! (`O/32=metadata`). A follower that wants each checkpoint at once requests the next one's *pointer*,
//! `O/32=checkpoint/seq=n`, ahead of time. Formats: docs/spec/object.md, "Growing objects".
//!
//! This module hashes nothing ([`xylem_tree::GrowingTree`] does) and does not prove that one checkpoint continues
//! another ([`xylem_tree::consistency`] does).
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::types::SEQUENCE_COMPONENT;
use xylem_packet::tlv::{TlvReader, types::NAME};
use xylem_packet::{Component, Name, NameRef};

use crate::keys::PublisherKey;
use crate::naming;
use crate::packets::{FRESHNESS_MS, sign_data};

const CHECKPOINT: &[u8] = b"checkpoint";
/// Bytes of [`Growing`] in a manifest.
const LEN: usize = 9;

/// Which checkpoint of a growing object a publication is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Growing {
    /// The checkpoint's number from 0, in the order of versions.
    pub number: u64,
    /// Whether the publisher declares this checkpoint the last one.
    pub last: bool,
}

impl Growing {
    pub(crate) fn encode(self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[0] = u8::from(self.last);
        out[1..].copy_from_slice(&self.number.to_be_bytes());
        out
    }

    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let (flags, number) = value.split_first()?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        (*flags <= 1).then_some(Self { number, last: *flags == 1 })
    }
}

/// The name of the pointer to checkpoint `number` of `object`.
pub fn pointer_name(object: NameRef<'_>, number: u64) -> Name {
    let mut name = object.child(Component::keyword(CHECKPOINT));
    name.push(Component::sequence(number));
    name
}

/// The number of the checkpoint to which the pointer `name` leads, if it is a pointer of `object`.
pub fn parse_pointer_name(object: NameRef<'_>, name: NameRef<'_>) -> Option<u64> {
    let mut rest = name.strip_prefix(object)?.iter();
    let keyword = rest.next()? == Component::keyword(CHECKPOINT);
    let number = rest.next()?.as_number_of(SEQUENCE_COMPONENT)?;
    (keyword && rest.next().is_none()).then_some(number)
}

/// Makes the pointer to checkpoint `number`, which is published under `prefix`: a signed Data packet that never
/// changes. `None` if the name is too long for a prefix.
pub fn sign_pointer(prefix: NameRef<'_>, number: u64, key: &PublisherKey) -> Option<Vec<u8>> {
    naming::check_prefix(prefix).ok()?;
    let name = pointer_name(prefix.parent(), number);
    let mut content = Vec::new();
    prefix.encode(&mut content);
    sign_data(name.as_ref(), &content, FRESHNESS_MS, None, key.signer()).ok()
}

/// The publication (P and its version) that the content of a pointer or metadata packet names, if it is a version of
/// `object`. The caller checks the packet's signature.
pub fn pointer_target(object: NameRef<'_>, content: &[u8]) -> Option<(Name, u64)> {
    let first = TlvReader::new(content).next_element().ok()??;
    let prefix = NameRef::from_value(first.value).ok().filter(|_| first.typ == NAME)?;
    naming::check_prefix(prefix).ok()?;
    let version = naming::version(prefix)?;
    (prefix.parent() == object).then(|| (prefix.to_name(), version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::Packet;

    fn key() -> PublisherKey {
        PublisherKey::from_bytes(&[7; 32])
    }

    #[test]
    fn pointers_lead_to_their_checkpoint() {
        let object = Name::from_uri("/alice/log").unwrap();
        let prefix = naming::versioned(object.as_ref(), 9).unwrap();
        let packet = sign_pointer(prefix.as_ref(), 300, &key()).unwrap();
        let Ok(Packet::Data(data)) = Packet::decode(&packet) else { panic!("a Data") };
        assert_eq!(data.name().to_string(), "/alice/log/32=checkpoint/seq=300");
        assert_eq!(parse_pointer_name(object.as_ref(), data.name()), Some(300));
        assert_eq!(pointer_target(object.as_ref(), data.content()), Some((prefix, 9)));
        assert!(key().public().verifier().unwrap().data(&data).is_ok());
    }

    #[test]
    fn other_names_and_contents_are_no_pointers() {
        let object = Name::from_uri("/alice/log").unwrap();
        for uri in [
            "/alice/log",
            "/alice/log/32=checkpoint",
            "/alice/log/32=checkpoint/seg=1",
            "/alice/log/32=checkpoint/seq=1/seq=2",
            "/alice/log/32=metadata/seq=1",
            "/bob/log/32=checkpoint/seq=1",
        ] {
            let name = Name::from_uri(uri).unwrap();
            assert_eq!(parse_pointer_name(object.as_ref(), name.as_ref()), None, "{uri}");
        }
        for uri in ["/alice/log", "/alice/other/v=1", "/v=1", "/alice/log/v=1/v=2"] {
            let mut content = Vec::new();
            Name::from_uri(uri).unwrap().encode(&mut content);
            assert_eq!(pointer_target(object.as_ref(), &content), None, "{uri}");
        }
        for content in [&[][..], &[7], &[7, 1, 0], &[8, 1, 1], &[0xff; 40]] {
            assert_eq!(pointer_target(object.as_ref(), content), None, "{content:?}");
        }
    }

    #[test]
    fn the_field_has_one_form() {
        for (number, last) in [(0, false), (7, true), (u64::MAX, true)] {
            let growing = Growing { number, last };
            assert_eq!(Growing::decode(&growing.encode()), Some(growing));
        }
        for bad in [&[][..], &[0; 8], &[0; 10], &[2, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(Growing::decode(bad), None);
        }
    }
}
