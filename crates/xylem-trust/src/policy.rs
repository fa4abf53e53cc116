//! [`TrustPolicy`]: whose packets are believed.

use xylem_packet::{Data, SignatureType};

use crate::{TrustError, TrustStore, Verifier, digest};

/// Whose packets are believed: chosen before a packet is looked at.
pub enum TrustPolicy {
    /// Nobody's. A digest in a packet (types 0 and 6) still has to be right: it shows damage, and
    /// anybody can make one.
    Nobody,
    /// Those that this key signed.
    Key(Box<Verifier>),
    /// Those that a key of the store signed, under its owner's name.
    Anchors(TrustStore),
}

/// How a packet stands that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Signed by who is believed.
    Proven,
    /// Its digest is right, and nobody vouches for it.
    Undamaged,
    /// Its signature was not looked at.
    Unknown,
}

impl TrustPolicy {
    /// Whether what passes is proven to be from somebody.
    #[must_use]
    pub fn proves(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// [`Self::verdict`], or why not in words: the rule that is against it, where one is.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn judge(&self, data: &Data<'_>, now_ms: u64) -> Result<Verdict, String> {
        self.verdict(data, now_ms).map_err(|why| match self {
            Self::Anchors(store) if why == TrustError::NotAllowed => {
                let refused = store.refusal_of(data, now_ms);
                refused.map_or_else(|| why.to_string(), |refused| refused.to_string())
            }
            _ => why.to_string(),
        })
    }

    /// How many packets [`Self::judge_many`] judges in little more than the time of a few; 1: it gains nothing.
    #[must_use]
    pub fn at_once(&self) -> usize {
        match self {
            Self::Nobody => digest::sha256_at_once(),
            _ => 1,
        }
    }

    /// [`Self::judge`] of each of these packets, in their order.
    #[must_use]
    pub fn judge_many(&self, packets: &[Data<'_>], now_ms: u64) -> Vec<Result<Verdict, String>> {
        let of_lanes = |data: &Data<'_>| {
            matches!(self, Self::Nobody)
                && data.signature_info().typ == SignatureType::DIGEST_SHA256
        };
        let portions: Vec<&[u8]> =
            packets.iter().filter(|data| of_lanes(data)).map(Data::signed_portion).collect();
        let mut values = vec![[0; 32]; portions.len()];
        digest::sha256_many(&portions, &mut values);
        let mut values = values.into_iter();
        let each =
            packets.iter().map(|data| match of_lanes(data).then(|| values.next()).flatten() {
                Some(value) if digest::equal(value, data.signature_value()) => {
                    Ok(Verdict::Undamaged)
                }
                Some(_) => Err(TrustError::BadSignature.to_string()),
                None => self.judge(data, now_ms),
            });
        each.collect()
    }

    /// Judges one packet at a time of day, in ms since 1970.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn verdict(&self, data: &Data<'_>, now_ms: u64) -> Result<Verdict, TrustError> {
        match self {
            Self::Key(key) => key.data(data).map(|()| Verdict::Proven),
            Self::Anchors(store) => store.data(data, now_ms).map(|()| Verdict::Proven),
            Self::Nobody => match data.signature_info().typ {
                SignatureType::DIGEST_SHA256 => {
                    Verifier::digest_sha256().data(data).map(|()| Verdict::Undamaged)
                }
                SignatureType::DIGEST_BLAKE3 => {
                    Verifier::digest_blake3().data(data).map(|()| Verdict::Undamaged)
                }
                _ => Ok(Verdict::Unknown),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Signer;
    use xylem_packet::{DataBuilder, Name};

    /// Made and judged together, with damage and other signatures between them, as one by one.
    #[test]
    fn many_are_judged_as_each_is() {
        let name: Name = "/a/b".parse().unwrap();
        let builder = DataBuilder::new(name.as_ref());
        let content = vec![7; 8_000];
        for count in [0, 1, 7, 16, 33] {
            let parts: Vec<_> = (0..count).map(|i| (builder, &content[i..])).collect();
            let mut packets = vec![Vec::new(); count];
            Signer::digest_sha256().data_many(&parts, &mut packets).unwrap();
            for (i, packet) in packets.iter_mut().enumerate() {
                let mut alone = Vec::new();
                Signer::digest_sha256().data(builder, &content[i..], &mut alone).unwrap();
                assert_eq!(*packet, alone);
                match i % 5 {
                    1 => packet[100] ^= 1,
                    2 => *packet.last_mut().unwrap() ^= 1,
                    3 => {
                        packet.clear();
                        Signer::digest_blake3().data(builder, &content, packet).unwrap();
                    }
                    _ => {}
                }
            }
            let packets: Vec<_> = packets.iter().map(|p| Data::decode(p).unwrap()).collect();
            for policy in [
                TrustPolicy::Nobody,
                TrustPolicy::Key(Box::new(Verifier::digest_blake3())),
                TrustPolicy::Anchors(TrustStore::default()),
            ] {
                let each: Vec<_> = packets.iter().map(|data| policy.judge(data, 1)).collect();
                assert_eq!(policy.judge_many(&packets, 1), each);
            }
        }
    }

    #[test]
    fn too_long_a_packet_is_an_error_among_others() {
        let name: Name = "/a".parse().unwrap();
        let builder = DataBuilder::new(name.as_ref());
        let (short, long) = (vec![0; 10], vec![0; 9_000]);
        let parts = [(builder, &short[..]), (builder, &long[..])];
        let signer = Signer::digest_sha256();
        assert!(signer.data_many(&parts, &mut [Vec::new(), Vec::new()]).is_err());
    }
}
