//! [`TrustPolicy`]: which packets are trusted.

use xylem_packet::{Data, SignatureType};

use crate::{RuleRefusal, TrustError, TrustStore, Verifier, digest};

/// Which packets are trusted. It is chosen before a packet is read.
pub enum TrustPolicy {
    /// No signer is trusted. A packet's digest (types 0 and 6) still has to be right. It detects damage, but any sender
    /// can compute it.
    Nobody,
    /// Packets signed by this key.
    Key(Box<Verifier>),
    /// Packets signed by a key of the store, under the names that the key may sign.
    Anchors(TrustStore),
}

/// The status of an accepted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustVerdict {
    /// Signed by a trusted key.
    Proven,
    /// Its digest is right, but no key vouches for it.
    Undamaged,
    /// Its signature was not checked.
    Unknown,
}

/// Why a policy refuses a packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketRefusal {
    /// The packet is not trusted. A [`TrustError::NotAllowed`] here is one that no rule explains.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The key is trusted, and this rule of it forbids the packet's name.
    #[error(transparent)]
    Rule(#[from] RuleRefusal),
}

impl TrustPolicy {
    /// Whether an accepted packet is proven to come from a trusted key.
    #[must_use]
    pub fn proves(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// As [`Self::verdict`]; the error names the rule that forbids the packet, if there is one.
    ///
    /// # Errors
    /// Why the packet is not trusted.
    pub fn judge(&self, data: &Data<'_>, now_ms: u64) -> Result<TrustVerdict, PacketRefusal> {
        self.verdict(data, now_ms).map_err(|why| match self {
            Self::Anchors(store) if why == TrustError::NotAllowed => {
                let refused = store.refusal_of(data, now_ms);
                refused.map_or(PacketRefusal::Trust(why), PacketRefusal::Rule)
            }
            _ => PacketRefusal::Trust(why),
        })
    }

    /// Number of packets that [`Self::judge_many`] judges in little more time than a few; 1 if batches gain nothing.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        match self {
            Self::Nobody => digest::sha256_batch_size(),
            _ => 1,
        }
    }

    /// Calls [`Self::judge`] for each of these packets, in order.
    #[must_use]
    pub fn judge_many(
        &self,
        packets: &[Data<'_>],
        now_ms: u64,
    ) -> Vec<Result<TrustVerdict, PacketRefusal>> {
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
                    Ok(TrustVerdict::Undamaged)
                }
                Some(_) => Err(TrustError::BadSignature.into()),
                None => self.judge(data, now_ms),
            });
        each.collect()
    }

    /// Judges one packet at a time in milliseconds since 1970.
    ///
    /// # Errors
    /// Why the packet is not trusted.
    pub fn verdict(&self, data: &Data<'_>, now_ms: u64) -> Result<TrustVerdict, TrustError> {
        match self {
            Self::Key(key) => key.data(data).map(|()| TrustVerdict::Proven),
            Self::Anchors(store) => store.data(data, now_ms).map(|()| TrustVerdict::Proven),
            Self::Nobody => match data.signature_info().typ {
                SignatureType::DIGEST_SHA256 => {
                    Verifier::digest_sha256().data(data).map(|()| TrustVerdict::Undamaged)
                }
                SignatureType::DIGEST_BLAKE3 => {
                    Verifier::digest_blake3().data(data).map(|()| TrustVerdict::Undamaged)
                }
                _ => Ok(TrustVerdict::Unknown),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Signer;
    use xylem_packet::{DataBuilder, Name};

    /// Packets made and judged in a batch, some of them damaged or signed in other ways, give the results of single
    /// ones.
    #[test]
    fn a_batch_is_judged_as_single_packets() {
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
    fn an_overlong_packet_fails_its_batch() {
        let name: Name = "/a".parse().unwrap();
        let builder = DataBuilder::new(name.as_ref());
        let (short, long) = (vec![0; 10], vec![0; 9_000]);
        let parts = [(builder, &short[..]), (builder, &long[..])];
        let signer = Signer::digest_sha256();
        assert!(signer.data_many(&parts, &mut [Vec::new(), Vec::new()]).is_err());
    }
}
