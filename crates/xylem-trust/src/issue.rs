//! Issuing certificates.

use xylem_packet::{Component, ContentType, DataBuilder, EncodeError, Name, NameRef};

use crate::{PublicKey, Signer, ValidityPeriod};

/// FreshnessPeriod of certificates: an hour, as other implementations use.
const FRESHNESS_MS: u64 = 3_600_000;
/// The issuer id of self-signed certificates.
pub(crate) const SELF: Component<'static> = Component::generic(b"self");

/// The contents of a certificate to be signed.
#[derive(Debug, Clone, Copy)]
pub struct Issue<'a> {
    /// `/<identity>/KEY/<key id>` of the certified key.
    pub key_name: NameRef<'a>,
    /// A word that identifies the issuer.
    pub issuer_id: Component<'a>,
    /// The version; by convention milliseconds since 1970.
    pub version: u64,
    /// The certified key.
    pub public_key: &'a PublicKey,
    /// When the certificate is valid.
    pub validity: ValidityPeriod,
}

impl Issue<'_> {
    /// The certificate's name.
    pub fn name(&self) -> Name {
        self.key_name.child(self.issuer_id).child(Component::version(self.version))
    }

    /// Appends the certificate, signed by `signer`. On an error `out` is unchanged.
    ///
    /// # Errors
    /// `TooLong` above the packet limit.
    pub fn sign(&self, signer: &Signer, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let name = self.name();
        let period = self.validity.to_value();
        let mut info = signer.info();
        info.validity_period = Some(&period);
        let builder = DataBuilder::new(name.as_ref())
            .content_type(ContentType::KEY)
            .freshness_ms(FRESHNESS_MS);
        signer.data_with_info(builder, info, &self.public_key.to_spki(), out)
    }
}

/// The self-signed certificate of `signer`'s key. `None` if the signer has no public key or no key name.
pub fn self_signed(signer: &Signer, version: u64, validity: ValidityPeriod) -> Option<Vec<u8>> {
    let public_key = signer.public()?;
    let key_name = crate::key_name_of(signer.key_locator()?)?;
    let issue = Issue { key_name, issuer_id: SELF, version, public_key: &public_key, validity };
    let mut out = Vec::new();
    issue.sign(signer, &mut out).ok()?;
    Some(out)
}
