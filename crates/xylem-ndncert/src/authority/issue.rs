//! Issues certificates.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::{Component, Data, Name, NameRef};
use xylem_trust::{Issue, ValidityPeriod};

use super::table::OpenRequest;
use super::{CertificateAuthority, CertificateRefusal, refuse};
use crate::numbers::ErrorCode;

impl CertificateAuthority {
    /// The name of the certificate for a key.
    pub(super) fn certificate_name(&self, key_name: NameRef<'_>, version: u64) -> Name {
        let issuer = Component::generic(self.config.issuer.as_bytes());
        key_name.child(issuer).child(Component::version(version))
    }

    /// Issues the requested certificate; returns its name, digest included, and the packet.
    pub(super) fn issue(
        &mut self,
        open: &OpenRequest,
        now_ms: u64,
    ) -> Result<(Name, Vec<u8>), CertificateRefusal> {
        let own = self.certificate.1;
        let latest = now_ms.saturating_add(self.config.max_validity_ms);
        let validity = ValidityPeriod {
            not_before_ms: open.validity.not_before_ms.max(own.not_before_ms),
            not_after_ms: open.validity.not_after_ms.min(own.not_after_ms).min(latest),
        };
        if validity.not_after_ms < validity.not_before_ms || validity.not_after_ms <= now_ms {
            return refuse(
                ErrorCode::BAD_VALIDITY_PERIOD,
                "the validity period would be over before it begins",
            );
        }
        // Two certificates of one millisecond get two versions.
        self.last_version = now_ms.max(self.last_version.saturating_add(1));
        let issue = Issue {
            key_name: open.key_name.as_ref(),
            issuer_id: Component::generic(self.config.issuer.as_bytes()),
            version: self.last_version,
            public_key: &open.key,
            validity,
        };
        let mut wire = Vec::new();
        let signed = issue.sign(&self.signer, &mut wire);
        let too_long = |_| {
            CertificateRefusal(ErrorCode::INVALID_PARAMETER, "the certificate is too long".into())
        };
        signed.map_err(too_long)?;
        let data = Data::decode(&wire)
            .map_err(|why| CertificateRefusal(ErrorCode::INVALID_PARAMETER, why.to_string()))?;
        let full = self.issued.put(&data, self.config.limits.issued);
        Ok((full, wire))
    }
}
