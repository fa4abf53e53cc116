//! The changes that a forwarder makes to Interests.

use xylem_packet::tlv::{TlvReader, types};
use xylem_packet::{Interest, MAX_PACKET};

use crate::memory::Flat;

/// Changes to an Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct InterestChanges {
    /// Replaces the HopLimit, or adds one.
    pub(crate) hop_limit: Option<u8>,
    /// Replaces the Nonce, or adds one.
    pub(crate) nonce: Option<[u8; 4]>,
    /// Removes the forwarding hint.
    pub(crate) without_hint: bool,
}

/// Writes the changed Interest into `out`. Returns false if there is no room, or if it would be too long.
pub(crate) fn rewrite(
    interest: &Interest<'_>,
    changes: InterestChanges,
    out: &mut impl Flat<u8>,
) -> bool {
    out.truncate(0);
    let adds_nonce = changes.nonce.is_some() && interest.nonce().is_none();
    let adds_hops = changes.hop_limit.is_some() && interest.hop_limit().is_none();
    if adds_nonce || adds_hops || changes.without_hint {
        return rebuild(interest, changes, out);
    }
    if !out.extend(interest.wire()) {
        return false;
    }
    let bytes = out.as_mut_slice();
    if let (Some(hops), Some(at)) = (changes.hop_limit, interest.hop_limit_offset()) {
        bytes[at] = hops;
    }
    if let (Some(nonce), Some(at)) = (changes.nonce, interest.nonce_offset()) {
        bytes[at..at + 4].copy_from_slice(&nonce);
    }
    true
}

/// Rebuilds the Interest element by element, because lengths change.
fn rebuild(interest: &Interest<'_>, changes: InterestChanges, out: &mut impl Flat<u8>) -> bool {
    let wire = interest.wire();
    // The Interest was decoded before, so its elements can be read again.
    let value = TlvReader::new(wire).next_element().ok().flatten().map_or(&[][..], |e| e.value);
    let nonce_octets = changes.nonce.or(interest.nonce());
    // Where the nonce and the hop limit belong, and where the hint lies.
    let (mut place, mut hop_place, mut hint) = (0, 0, 0..0);
    let mut reader = TlvReader::new(value);
    while let Ok(Some(element)) = reader.next_element() {
        match element.typ {
            types::FORWARDING_HINT if changes.without_hint => hint = element.start..element.end,
            types::NAME | types::CAN_BE_PREFIX | types::MUST_BE_FRESH | types::FORWARDING_HINT => {
                place = element.end;
            }
            types::NONCE | types::INTEREST_LIFETIME => hop_place = element.end,
            _ => {}
        }
    }
    place = place.max(hint.end);
    hop_place = hop_place.max(place);
    let new_nonce = nonce_octets.filter(|_| interest.nonce().is_none());
    let new_hops = changes.hop_limit.filter(|_| interest.hop_limit().is_none());
    let added = new_nonce.map_or(0, |_| 6) + new_hops.map_or(0, |_| 3);
    let len = value.len() - hint.len() + added;
    let mut header = [types::INTEREST as u8, 253, (len >> 8) as u8, len as u8];
    let header = if len < 253 {
        header[1] = len as u8;
        &header[..2]
    } else {
        &header[..]
    };
    if header.len() + len > MAX_PACKET {
        return false;
    }
    let mut whole = out.extend(header)
        && out.extend(&value[..hint.start])
        && out.extend(&value[hint.end..place]);
    if let Some([a, b, c, d]) = new_nonce {
        whole &= out.extend(&[types::NONCE as u8, 4, a, b, c, d]);
    }
    whole &= out.extend(&value[place..hop_place]);
    if let Some(hops) = new_hops {
        whole &= out.extend(&[types::HOP_LIMIT as u8, 1, hops]);
    }
    whole && out.extend(&value[hop_place..]) && patch(changes, out)
}

/// Applies the changes that keep all lengths.
fn patch(changes: InterestChanges, out: &mut impl Flat<u8>) -> bool {
    // The parameters digest was checked before.
    let Ok(interest) = Interest::decode_with(out.as_slice(), crate::sha256) else { return false };
    let (hop_limit, nonce) = (interest.hop_limit_offset(), interest.nonce_offset());
    let bytes = out.as_mut_slice();
    if let (Some(hops), Some(at)) = (changes.hop_limit, hop_limit) {
        bytes[at] = hops;
    }
    if let (Some(octets), Some(at)) = (changes.nonce, nonce) {
        bytes[at..at + 4].copy_from_slice(&octets);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Array;
    use xylem_packet::{InterestBuilder, Name};

    #[test]
    fn changed_interests_are_encoded_canonically() {
        let name = Name::from_uri("/a/b").unwrap();
        let long = Name::from_uri(&"/0123456789".repeat(25)).unwrap();
        let hint = [name.as_ref(), long.as_ref()];
        for name in [&name, &long] {
            let small = InterestBuilder::new(name.as_ref());
            let full = small.can_be_prefix(true).must_be_fresh(true).lifetime_ms(77).hop_limit(9);
            for (builder, has_hops) in [(small, false), (full, true)] {
                let hinted = builder.forwarding_hint(&hint);
                let encode = |builder: InterestBuilder<'_>| {
                    let mut out = Vec::new();
                    builder.encode(&mut out).unwrap();
                    out
                };
                let check = |from: Vec<u8>, changes: InterestChanges, expected: Vec<u8>| {
                    let interest = Interest::decode(&from).unwrap();
                    let mut out = Vec::new();
                    assert!(rewrite(&interest, changes, &mut out));
                    assert_eq!(out, expected);
                    let mut small: Array<u8, 9> = Array::default();
                    assert!(!rewrite(&interest, changes, &mut small));
                };
                let (one, two) = ([1, 2, 3, 4], [5, 6, 7, 8]);
                let nonce = InterestChanges { nonce: Some(two), ..InterestChanges::default() };
                check(encode(builder), nonce, encode(builder.nonce(two)));
                check(encode(builder.nonce(one)), nonce, encode(builder.nonce(two)));
                check(encode(hinted), nonce, encode(hinted.nonce(two)));
                let all = InterestChanges { without_hint: true, hop_limit: Some(3), ..nonce };
                check(encode(hinted.hop_limit(4)), all, encode(builder.nonce(two).hop_limit(3)));
                let only = InterestChanges { without_hint: true, ..InterestChanges::default() };
                check(encode(hinted.nonce(one)), only, encode(builder.nonce(one)));
                check(encode(hinted), only, encode(builder));
                if !has_hops {
                    let hops = InterestChanges { hop_limit: Some(3), ..InterestChanges::default() };
                    let both = InterestChanges { hop_limit: Some(3), ..nonce };
                    let signed =
                        |builder: InterestBuilder<'_>| encode(builder.nonce(one).lifetime_ms(77));
                    check(encode(builder), hops, encode(builder.hop_limit(3)));
                    check(encode(builder), both, encode(builder.nonce(two).hop_limit(3)));
                    check(signed(builder), hops, signed(builder.hop_limit(3)));
                    let all = InterestChanges { hop_limit: Some(3), ..all };
                    check(encode(hinted), all, encode(builder.nonce(two).hop_limit(3)));
                }
            }
        }
    }
}
