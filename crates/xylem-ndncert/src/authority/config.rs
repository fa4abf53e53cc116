//! What a CA is told about itself.

use xylem_packet::Name;

use crate::numbers::Kind;
use crate::session::SessionError;

/// A CA's settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// It gives certificates for names below this one, and answers below `/CA` of it.
    pub prefix: Name,
    /// What people read about it.
    pub info: String,
    /// What PROBE asks for.
    pub probe_keys: Vec<String>,
    /// How long certificates are valid at most, in milliseconds.
    pub max_validity_ms: u64,
    /// How many components an identity may have beyond the prefix.
    pub max_suffix: Option<usize>,
    /// The challenges, of which a client chooses one: each is enough.
    pub challenges: Vec<Kind>,
    /// What stands for the issuer in the names of certificates.
    pub issuer: String,
    /// Where certificates are fetched, if not here.
    pub forwarding_hint: Vec<Name>,
    /// Whether keys are derived with BLAKE3 for clients that know it (docs/spec/kdf.md).
    pub blake3: bool,
    /// Whether clients that make bare proofs of possession alone have that challenge, too. Such a proof may have been
    /// asked for by another CA ([`crate::Proof::Bare`]).
    pub bare_proofs: bool,
    /// Bounds.
    pub limits: Limits,
}

impl Config {
    /// The defaults for names below `prefix`: PIN alone, certificates of 30 days at most.
    pub fn new(prefix: Name) -> Self {
        Config {
            prefix,
            info: String::new(),
            probe_keys: Vec::new(),
            max_validity_ms: 30 * 86_400_000,
            max_suffix: None,
            challenges: vec![Kind::Pin],
            issuer: "NDNCERT".to_owned(),
            forwarding_hint: Vec::new(),
            blake3: true,
            bare_proofs: false,
            limits: Limits::default(),
        }
    }
}

/// What strangers can make a CA remember or do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests at a time.
    pub open: usize,
    /// Requests at a time for one key.
    pub per_key: usize,
    /// Wrong codes of a request.
    pub tries: u32,
    /// Codes that the operator is shown in a minute.
    pub pins: usize,
    /// Emails in an hour.
    pub emails: usize,
    /// Emails in an hour to one mailbox: `al+x@example.org` is `al@example.org`'s.
    pub emails_to_one: usize,
    /// Certificates that it can still be asked for.
    pub issued: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
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

/// Why there is no such CA.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// The certificate can't be read.
    #[error("the CA's certificate can't be read: {0}")]
    Certificate(#[from] xylem_trust::CertificateError),
    /// The certificate is of another key than the signer's.
    #[error("the CA's certificate is not of the key that it signs with")]
    OtherKey,
    /// The certificate is of an identity that does not stand above the prefix.
    #[error("the CA's certificate is of {0}, which does not stand above its prefix")]
    OtherName(Name),
    /// No challenge: nobody would get a certificate.
    #[error("a CA needs a challenge")]
    NoChallenge,
    /// What it says of itself does not fit into a packet.
    #[error("the CA's profile does not fit into a packet")]
    TooLong,
    /// See [`SessionError`].
    #[error(transparent)]
    Session(#[from] SessionError),
}
