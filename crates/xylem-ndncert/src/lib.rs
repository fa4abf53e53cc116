//! [`CertificateAuthority`] and [`CertificateRequest`]: NDNCERT 0.3, a certificate authority and its client (docs/spec/ndncert.md).
//!
//! A client fetches the CA's profile (INFO, [`Lookup`]). It sends a certificate request that its own key has signed and
//! half of a key agreement (NEW), passes a challenge of the CA (CHALLENGE, encrypted), and fetches the certificate.
//!
//! Sans-io: Interests and Data come in and go out as bytes; the time and 32 random octets come in with each of them.
//! Only P-256 keys are made by `ring`, which takes randomness from the system. The program shows or mails the codes
//! ([`CaEvent`]). A [`IssuePolicy`] decides which client may have which name.
//!
//! Not here: sockets, registering prefixes, mail, files, and revocation.
//!
//! ```
//! use xylem_ndncert::*;
//! use xylem_packet::Name;
//! use xylem_trust::{Signer, ValidityPeriod, self_signed};
//!
//! let (now_ms, name) = (1_700_000_000_000, |uri| Name::from_uri(uri).unwrap());
//! let valid = ValidityPeriod { not_before_ms: 0, not_after_ms: now_ms + 86_400_000 };
//! let signer = Signer::ed25519(&[1; 32], name("/org/KEY/1"));
//! let own = self_signed(&signer, 1, valid).unwrap();
//! let policy = Box::<StandardPolicy>::default();
//! let mut ca = CertificateAuthority::new(CaConfig::new(name("/org")), signer, &own, policy, now_ms).unwrap();
//!
//! let mut lookup = Lookup::new(name("/org"));
//! while let Some(interest) = lookup.poll_transmit(now_ms, [0; 4]) {
//!     lookup.receive(&ca.interest(&interest, now_ms, [2; 32]).data.unwrap());
//! }
//! let profile = lookup.take().unwrap().unwrap();
//! let believe = ProfileTrust::Digest(profile.digest()); // In a real program: compared by a person, or anchors.
//! let al = Signer::ed25519(&[3; 32], name("/org/al/KEY/1"));
//! let mut request = CertificateRequest::new(profile, believe, al, u64::MAX, now_ms, [4; 32]).unwrap();
//! let (mut code, mut seed) = (String::new(), 5);
//! let certificate = loop {
//!     while let Some(interest) = request.poll_transmit(now_ms, [0; 4]) {
//!         seed += 2; // In a real program: random, each time.
//!         let answer = ca.interest(&interest, now_ms, [seed; 32]);
//!         if let Some(CaEvent::Pin { code: shown, .. }) = answer.event {
//!             code = shown; // Shown to the operator, who passes it to the owner of the name.
//!         }
//!         request.receive(&answer.data.unwrap(), now_ms, [seed + 1; 32]);
//!     }
//!     match request.state() {
//!         RequestState::Choose(_) => request.choose(ChallengeChoice::Pin, now_ms, [101; 32]).unwrap(),
//!         RequestState::Code { .. } => request.code(&code, now_ms, [102; 32]).unwrap(),
//!         RequestState::Done(certificate) => break certificate.to_vec(),
//!         other => panic!("{other:?}"),
//!     }
//! };
//! assert!(xylem_trust::Certificate::decode(&certificate).is_ok());
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod authority;
mod request;

mod session;

pub mod packets;

mod chance;
mod numbers;
mod proof;

pub use authority::{
    AuthorityError, CaAnswer, CaConfig, CaEvent, CaLimits, CertificateAuthority, IssuePolicy,
    StandardPolicy,
};
pub use numbers::{ChallengeKind, ErrorCode, RequestStatus};
pub use proof::{NONCE_LEN, Proof};
pub use request::{
    CaProfile, CertificateRequest, ChallengeChoice, Lookup, ProfileTrust, RequestError,
    RequestState,
};
pub use session::{
    Agreement, Derivation, KEY_LEN, POINT_LEN, RequestId, RequestSession, SALT_LEN,
    SESSION_CONTEXT, SessionError,
};
