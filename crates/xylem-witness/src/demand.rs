//! [`CosignatureDemand`]: required co-signatures: by which witnesses, and how many.

use std::path::PathBuf;
use std::time::Duration;

use xylem_base::UnixTime;
use xylem_keys::certificate;
use xylem_object::witness::{MAX_COSIGNATURES, Witness, WitnessStatement, WitnessSubject};
use xylem_packet::Name;

use super::MAX_AHEAD_MS;
use super::error::CosigningError;

/// The required witnesses, their number, and the greatest age of a co-signature.
pub struct CosignatureDemand {
    witnesses: Vec<Witness>,
    threshold: usize,
    within: Option<Duration>,
}

/// A statement by one of the named witnesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedStatement {
    /// Position of the witness among the named ones, from 0.
    pub witness: usize,
    /// The statement.
    pub statement: WitnessStatement,
}

/// Reads the certificates of witnesses from files; each key may occur once.
pub(super) fn named(files: &[PathBuf]) -> Result<Vec<Witness>, CosigningError> {
    if files.len() > MAX_COSIGNATURES {
        return Err(CosigningError::TooMany);
    }
    let mut all: Vec<Witness> = Vec::new();
    for path in files {
        let wire = certificate(path)?;
        let witness = Witness::from_certificate(&wire)
            .map_err(|why| CosigningError::NoWitness { path: path.clone(), why })?;
        if all.iter().any(|other| other.key() == witness.key()) {
            return Err(CosigningError::Twice(path.clone()));
        }
        all.push(witness);
    }
    Ok(all)
}

impl CosignatureDemand {
    /// Requires co-signatures by `threshold` of the witnesses with certificates in these files (by default all), none
    /// older than `within`, if given.
    ///
    /// # Errors
    /// Files without a certificate, a witness named twice, too many witnesses, an impossible threshold.
    pub fn new(
        files: &[PathBuf],
        threshold: Option<usize>,
        within: Option<Duration>,
    ) -> Result<Self, CosigningError> {
        let witnesses = named(files)?;
        let (named, wanted) = (witnesses.len(), threshold.unwrap_or(witnesses.len()));
        if wanted == 0 || wanted > named {
            return Err(CosigningError::Threshold { wanted, named });
        }
        Ok(Self { witnesses, threshold: wanted, within })
    }

    /// Returns how many witnesses have to co-sign.
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    /// Returns whether two sufficient sets of witnesses can be disjoint. Then two histories can each get enough
    /// co-signatures, although every witness is honest.
    pub fn allows_two_histories(&self) -> bool {
        self.threshold.saturating_mul(2) <= self.witnesses.len()
    }

    /// Returns the greatest age of a co-signature.
    pub fn within(&self) -> Option<Duration> {
        self.within
    }

    /// Returns how many witnesses are named.
    pub fn named(&self) -> usize {
        self.witnesses.len()
    }

    /// Returns the name of a witness.
    pub fn name(&self, witness: usize) -> Name {
        self.witnesses.get(witness).map(|named| named.identity().to_name()).unwrap_or_default()
    }

    /// Returns the statements of the named witnesses in these packets about this publication. Statements by other
    /// witnesses, from a clock that is ahead, or too old are left out.
    pub fn timely_statements(
        &self,
        subject: &WitnessSubject,
        packets: &[&[u8]],
        now: UnixTime,
    ) -> Vec<NamedStatement> {
        let now_ms = now.milliseconds();
        let is_timely = |time_ms: u64| {
            let oldest = self.within.map(|within| {
                now_ms.saturating_sub(u64::try_from(within.as_millis()).unwrap_or(u64::MAX))
            });
            time_ms <= now_ms.saturating_add(MAX_AHEAD_MS)
                && oldest.is_none_or(|oldest| time_ms >= oldest)
        };
        let mut all = Vec::new();
        for (witness, named) in self.witnesses.iter().enumerate() {
            let own = packets.iter().filter(|packet| named.is_named_by(packet));
            let said = own.filter_map(|packet| named.verify_cosignature(packet).ok());
            let said = said.filter(|said| said.subject == *subject && is_timely(said.time_ms));
            all.extend(said.map(|statement| NamedStatement { witness, statement }));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{NOW, Witnesses, later, version};

    #[test]
    fn only_named_witnesses_count_each_once_and_in_time() {
        let all = Witnesses::new();
        let files = ["/a", "/b", "/x"].map(|who| all.file(who));
        let seen = version(1, b"one", false);
        let by = |who: &str, time: UnixTime| all.by(who, &seen, time, 1);
        let demand = CosignatureDemand::new(&files[..2], None, None).unwrap();
        assert_eq!((demand.threshold(), demand.named()), (2, 2));
        let heard = |demand: &CosignatureDemand, packets: &[Vec<u8>], now| {
            let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
            let said = demand.timely_statements(&seen.subject(), &packets, now);
            said.iter().map(|said| said.witness).collect::<Vec<_>>()
        };
        let all = [by("/x", NOW), by("/b", NOW), b"rubbish".to_vec(), by("/a", NOW)];
        assert_eq!(heard(&demand, &all, later(1)), [0, 1]);
        // A packet of /x under the name of /a has another key.
        assert_eq!(heard(&demand, &[by("/x", NOW)], later(1)), [0; 0]);
        // A time ahead of the clock; a time that is too old, where that matters.
        assert_eq!(heard(&demand, &[by("/a", later(301))], NOW), [0; 0]);
        assert_eq!(heard(&demand, &[by("/a", later(299))], NOW), [0]);
        let fresh = CosignatureDemand::new(&files, Some(2), Some(Duration::from_secs(60))).unwrap();
        assert_eq!(heard(&fresh, &all, later(60)), [0, 1, 2]);
        assert_eq!(heard(&fresh, &all, later(61)), [0; 0]);

        let again = [files[0].clone(), files[0].clone()];
        assert!(matches!(
            CosignatureDemand::new(&again, None, None),
            Err(CosigningError::Twice(_))
        ));
        for (files, threshold) in [(&files[..], 0), (&files[..], 4), (&[][..], 1)] {
            let refused = CosignatureDemand::new(files, Some(threshold), None);
            assert!(matches!(refused, Err(CosigningError::Threshold { .. })));
        }
        let many = vec![files[0].clone(); MAX_COSIGNATURES + 1];
        assert!(matches!(CosignatureDemand::new(&many, None, None), Err(CosigningError::TooMany)));
    }
}
