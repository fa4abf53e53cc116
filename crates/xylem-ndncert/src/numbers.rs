//! The protocol's numbers and words (NDNCERT 0.3, "TLV-TYPE", "Status", "Error codes").

/// TLV-TYPEs.
pub(crate) mod typ {
    pub(crate) const CA_PREFIX: u32 = 0x81;
    pub(crate) const CA_INFO: u32 = 0x83;
    pub(crate) const PARAMETER_KEY: u32 = 0x85;
    pub(crate) const PARAMETER_VALUE: u32 = 0x87;
    pub(crate) const CA_CERTIFICATE: u32 = 0x89;
    pub(crate) const MAX_VALIDITY_PERIOD: u32 = 0x8B;
    pub(crate) const PROBE_RESPONSE: u32 = 0x8D;
    pub(crate) const MAX_SUFFIX_LENGTH: u32 = 0x8F;
    pub(crate) const ECDH_PUB: u32 = 0x91;
    pub(crate) const CERT_REQUEST: u32 = 0x93;
    pub(crate) const SALT: u32 = 0x95;
    pub(crate) const REQUEST_ID: u32 = 0x97;
    pub(crate) const CHALLENGE: u32 = 0x99;
    pub(crate) const STATUS: u32 = 0x9B;
    pub(crate) const INITIALIZATION_VECTOR: u32 = 0x9D;
    pub(crate) const ENCRYPTED_PAYLOAD: u32 = 0x9F;
    pub(crate) const SELECTED_CHALLENGE: u32 = 0xA1;
    pub(crate) const CHALLENGE_STATUS: u32 = 0xA3;
    pub(crate) const REMAINING_TRIES: u32 = 0xA5;
    pub(crate) const REMAINING_TIME: u32 = 0xA7;
    pub(crate) const ISSUED_CERT_NAME: u32 = 0xA9;
    pub(crate) const ERROR_CODE: u32 = 0xAB;
    pub(crate) const ERROR_INFO: u32 = 0xAD;
    pub(crate) const AUTHENTICATION_TAG: u32 = 0xAF;
    pub(crate) const PROBE_REDIRECT: u32 = 0xB3;
    /// Our extension, with an even application number, so that an implementation without it skips it
    /// (docs/spec/kdf.md).
    pub(crate) const KEY_DERIVATION: u32 = 0xF620;
    /// Also our extension (docs/spec/ndncert.md, "Proofs of possession").
    pub(crate) const PROOF_BINDING: u32 = 0xF624;
}

/// The status of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestStatus {
    /// No challenge was chosen yet.
    BeforeChallenge,
    /// A challenge is going on.
    Challenge,
    /// The challenge is passed, and the certificate not issued yet.
    Pending,
    /// The certificate is issued.
    Success,
    /// The request has failed.
    Failure,
}

impl RequestStatus {
    const ALL: [Self; 5] =
        [Self::BeforeChallenge, Self::Challenge, Self::Pending, Self::Success, Self::Failure];

    /// The number in packets.
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// The status with a number; `None` for other numbers.
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.number() == number)
    }
}

/// An error code of the CA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub u64);

impl ErrorCode {
    /// The Interest's name is of no known form.
    pub const BAD_INTEREST_FORMAT: Self = Self(1);
    /// ApplicationParameters can't be read or decrypted.
    pub const BAD_PARAMETER_FORMAT: Self = Self(2);
    /// A signature is wrong or missing.
    pub const BAD_SIGNATURE: Self = Self(3);
    /// Parameters can be read, but their values are of no use.
    pub const INVALID_PARAMETER: Self = Self(4);
    /// The CA gives no certificate for this name.
    pub const NAME_NOT_ALLOWED: Self = Self(5);
    /// The validity asked for is longer than the CA gives.
    pub const BAD_VALIDITY_PERIOD: Self = Self(6);
    /// Too many wrong answers.
    pub const OUT_OF_TRIES: Self = Self(7);
    /// The time limit has passed.
    pub const OUT_OF_TIME: Self = Self(8);
    /// PROBE found no name.
    pub const NO_AVAILABLE_NAMES: Self = Self(9);
}

/// The supported challenges of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChallengeKind {
    /// A code that the CA's operator passes on.
    Pin,
    /// A code in an email.
    Email,
    /// Proof of the private key of a certificate that the CA trusts.
    Possession,
}

impl ChallengeKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pin, Self::Email, Self::Possession];

    /// The name in packets.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pin => "pin",
            Self::Email => "email",
            Self::Possession => "possession",
        }
    }

    /// The challenge with a name. The C++ CA writes `Possession` for one of them.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }
}

/// Status texts of challenges.
pub(crate) mod status_text {
    pub(crate) const NEED_CODE: &str = "need-code";
    pub(crate) const WRONG_CODE: &str = "wrong-code";
    pub(crate) const NEED_PROOF: &str = "need-proof";
    pub(crate) const CODE: &str = "code";
    pub(crate) const EMAIL: &str = "email";
    pub(crate) const ISSUED_CERT: &str = "issued-cert";
    pub(crate) const NONCE: &str = "nonce";
    pub(crate) const PROOF: &str = "proof";
}

/// Components of the names of requests.
pub(crate) mod component {
    use xylem_packet::Component;

    pub(crate) const CA: Component<'static> = Component::generic(b"CA");
    pub(crate) const INFO: Component<'static> = Component::generic(b"INFO");
    pub(crate) const PROBE: Component<'static> = Component::generic(b"PROBE");
    pub(crate) const NEW: Component<'static> = Component::generic(b"NEW");
    pub(crate) const CHALLENGE: Component<'static> = Component::generic(b"CHALLENGE");
    pub(crate) const METADATA: Component<'static> = Component::keyword(b"metadata");
}
