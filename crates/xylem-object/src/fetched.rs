//! A notice from a getter to the peers from which it fetched a publication.
//!
//! It is an Interest named `P/32=fetched/<8 random bytes>/<bytes, 8, big-endian>` that gets no answer
//! (docs/spec/peers.md). It states the bytes of content that were fetched in this run; the getter had the rest before.
//! A notice is unproven: it is shown and counted, and changes nothing else.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::types::GENERIC_COMPONENT;
use xylem_packet::{Component, Name, NameRef};

const FETCHED: &[u8] = b"fetched";

/// The name of a notice about the publication at `prefix`.
pub fn notice(prefix: NameRef<'_>, nonce: [u8; 8], bytes: u64) -> Name {
    let mut name = prefix.to_name();
    name.push(Component::keyword(FETCHED))
        .push(Component::generic(&nonce))
        .push(Component::generic(&bytes.to_be_bytes()));
    name
}

/// The random bytes and the byte count of a notice about the publication at `prefix`; `None` if `name` is no such
/// notice.
pub fn parse_notice(prefix: NameRef<'_>, name: NameRef<'_>) -> Option<([u8; 8], u64)> {
    let mut rest = name.strip_prefix(prefix)?.iter();
    if rest.next()? != Component::keyword(FETCHED) {
        return None;
    }
    let mut eight = || {
        let component = rest.next().filter(|c| c.typ() == GENERIC_COMPONENT)?;
        <[u8; 8]>::try_from(component.value()).ok()
    };
    let (nonce, bytes) = (eight()?, eight()?);
    rest.next().is_none().then_some((nonce, u64::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_round_trip_and_other_names_are_none() {
        let prefix = Name::from_uri("/alice/model/v=7").unwrap();
        let name = notice(prefix.as_ref(), [3; 8], 1 << 40);
        assert_eq!(parse_notice(prefix.as_ref(), name.as_ref()), Some(([3; 8], 1 << 40)));
        let other = Name::from_uri("/alice/model/v=8").unwrap();
        assert_eq!(parse_notice(other.as_ref(), name.as_ref()), None);
        for len in 0..name.len() {
            assert_eq!(parse_notice(prefix.as_ref(), name.as_ref().prefix(len)), None, "{len}");
        }
        let longer = name.as_ref().child(Component::generic(b"x"));
        assert_eq!(parse_notice(prefix.as_ref(), longer.as_ref()), None);
        let mut short = prefix.clone();
        short.push(Component::keyword(FETCHED)).push(Component::generic(b"1234567"));
        short.push(Component::generic(&[0; 8]));
        assert_eq!(parse_notice(prefix.as_ref(), short.as_ref()), None);
    }
}
