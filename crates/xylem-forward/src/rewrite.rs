//! The few changes that a forwarder makes to packets on their way.

use xylem_packet::tlv::{self, Reader, types};

/// A copy of the packet with `octets` at `offset`.
pub(crate) fn patch(packet: &[u8], offset: usize, octets: &[u8]) -> Vec<u8> {
    let mut copy = packet.to_vec();
    copy[offset..offset + octets.len()].copy_from_slice(octets);
    copy
}

/// The Interest with a Nonce, which it lacks.
pub(crate) fn with_nonce(interest: &[u8], nonce: [u8; 4]) -> Vec<u8> {
    let mut reader = Reader::new(interest);
    // The Interest has been decoded, so that its elements can be read again.
    let value = reader.next_element().ok().flatten().map_or(&[][..], |outer| outer.value);
    let mut reader = Reader::new(value);
    let mut place = 0;
    while let Ok(Some(element)) = reader.next_element() {
        match element.typ {
            types::NAME | types::CAN_BE_PREFIX | types::MUST_BE_FRESH | types::FORWARDING_HINT => {
                place = element.end
            }
            _ => {}
        }
    }
    let mut out = Vec::with_capacity(interest.len() + 16);
    tlv::write_var_number(&mut out, u64::from(types::INTEREST));
    tlv::write_var_number(&mut out, value.len() as u64 + 6);
    out.extend_from_slice(&value[..place]);
    tlv::write_element(&mut out, types::NONCE, &nonce);
    out.extend_from_slice(&value[place..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::{Interest, InterestBuilder, Name};

    #[test]
    fn a_nonce_goes_to_its_place() {
        let name = Name::from_uri("/a/b").unwrap();
        let hint = [name.as_ref()];
        let full = InterestBuilder::new(name.as_ref())
            .can_be_prefix(true)
            .must_be_fresh(true)
            .forwarding_hint(&hint)
            .lifetime_ms(77)
            .hop_limit(9);
        for builder in [InterestBuilder::new(name.as_ref()), full] {
            let (mut without, mut with) = (Vec::new(), Vec::new());
            builder.encode(&mut without).unwrap();
            builder.nonce([1, 2, 3, 4]).encode(&mut with).unwrap();
            assert_eq!(with_nonce(&without, [1, 2, 3, 4]), with);
            assert!(Interest::decode(&with).is_ok());
        }
    }
}
