//! Keys on disk. [`load_or_create`] handles the two secrets of a node. [`Keyring`] holds named keys, with which NDN
//! packets are signed under an identity. [`VerifyWith`] and [`SignWith`] are the keys that a user names to verify and to sign.
//! [`sign_hash`] signs a file in a text beside it.

mod limits;

mod error;
mod passphrase;

mod held;
mod secret;

mod foreign;
mod kind;
mod ring;
mod tpm;
mod trusted;

mod issued;
mod reading;

mod files;

mod anchors;

mod signed;

pub use anchors::{anchors, schema, schema_in};
pub use error::{IssueRefusal, KeyFileError};
pub use files::{KeyFile, NotAKeyFile, NotASigningKey, SignWith, VerifyWith, certificate, signer};
pub use issued::Issued;
pub use kind::{KeyKind, UnknownKeyKind};
pub use limits::SECRET_LEN;
pub use passphrase::{NoPassphrase, Passphrase, ask_passphrases};
pub use reading::{decryption_keys, recipient};
pub use ring::{CertifiedKey, IssueTerms, KeyEntry, Keyring};
pub use secret::{load_existing, load_or_create, public_half, reseal};
pub use signed::{SignedBy, check_signature, sign_hash};
pub use trusted::{Trusted, TrustedEntry};
