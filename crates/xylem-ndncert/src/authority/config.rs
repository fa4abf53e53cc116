//! Settings of a CA.

use xylem_packet::Name;

use crate::numbers::ChallengeKind;
use crate::session::SessionError;

/// Settings of a CA.
#[derive(Debug, Clone)]
pub struct CaConfig {
    /// The CA certifies names below this prefix, and answers below `/CA` of it.
    pub prefix: Name,
    /// Description of the CA for people.
    pub info: String,
    /// Keys of the parameters that PROBE takes.
    pub probe_keys: Vec<String>,
    /// Maximum validity of certificates, in milliseconds.
    pub max_validity_ms: u64,
    /// Maximum number of components of an identity beyond the prefix.
    pub max_suffix: Option<usize>,
    /// The challenges on offer; a client passes one of them.
    pub challenges: Vec<ChallengeKind>,
    /// Issuer component of certificate names.
    pub issuer: String,
    /// Where certificates are fetched, if not at the CA.
    pub forwarding_hint: Vec<Name>,
    /// Whether keys are derived with BLAKE3 for clients that support it (docs/spec/kdf.md).
    pub blake3: bool,
    /// Whether clients that make only bare proofs of possession may use that challenge. A bare proof may have been
    /// requested by another CA ([`crate::Proof::Bare`]).
    pub bare_proofs: bool,
    /// Bounds on what strangers can cause.
    pub limits: CaLimits,
}

impl CaConfig {
    /// The defaults for names below `prefix`: PIN alone, certificates of 30 days at most.
    pub fn new(prefix: Name) -> Self {
        CaConfig {
            prefix,
            info: String::new(),
            probe_keys: Vec::new(),
            max_validity_ms: 30 * 86_400_000,
            max_suffix: None,
            challenges: vec![ChallengeKind::Pin],
            issuer: "NDNCERT".to_owned(),
            forwarding_hint: Vec::new(),
            blake3: true,
            bare_proofs: false,
            limits: CaLimits::default(),
        }
    }
}

/// Bounds on what strangers can make a CA store or do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaLimits {
    /// Open requests.
    pub open: usize,
    /// Open requests for one key.
    pub per_key: usize,
    /// Wrong codes for one request.
    pub tries: u32,
    /// Codes shown to the operator in a minute.
    pub pins: usize,
    /// Emails in an hour.
    pub emails: usize,
    /// Emails in an hour to one mailbox; `al+x@example.org` counts as `al@example.org`.
    pub emails_to_one: usize,
    /// Issued certificates that are kept for fetching.
    pub issued: usize,
}

impl Default for CaLimits {
    fn default() -> Self {
        CaLimits {
            open: 1024,
            per_key: 4,
            tries: 3,
            pins: 30,
            emails: 100,
            emails_to_one: 3,
            issued: 1024,
        }
    }
}

/// Reasons for which a CA can't be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// The certificate can't be read.
    #[error("the CA's certificate can't be read: {0}")]
    Certificate(#[from] xylem_trust::CertificateError),
    /// The certificate has another key than the signer.
    #[error("the CA's certificate is not for the key that it signs with")]
    OtherKey,
    /// The certificate's identity is not a prefix of the CA's prefix.
    #[error("the CA's certificate is for {0}, which is not above the CA's prefix")]
    OtherName(Name),
    /// There is no challenge, so no client could get a certificate.
    #[error("a CA needs at least one challenge")]
    NoChallenge,
    /// The profile does not fit into a packet.
    #[error("the CA's profile does not fit into a packet")]
    TooLong,
    /// The session's state can't be made; see [`SessionError`].
    #[error(transparent)]
    Session(#[from] SessionError),
}
