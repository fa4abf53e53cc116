//! Keys on disk: [`load_or_create`] for the two secrets of a node, [`Keyring`] for those that sign in
//! NDN as somebody, [`Believe`] and [`Sign`] for those that a user names;
//! [`sign_hash`] for a file's signature beside it.

mod limits;

mod error;
mod passphrase;

mod held;
mod secret;

mod foreign;
mod kind;
mod ring;
mod trusted;

mod issued;
mod reading;

mod files;

mod anchors;

mod signed;

pub use anchors::{anchors, schema, schema_in};
pub use error::KeyError;
pub use files::{Believe, KeyFile, Sign, certificate, signer};
pub use issued::Issued;
pub use kind::KeyKind;
pub(crate) use limits::SECRET_LEN;
pub use passphrase::{NoPassphrase, Passphrase, ask_passphrases};
pub use reading::{reading, recipient};
pub use ring::{CertifiedKey, KeyEntry, Keyring};
pub use secret::{load_existing, load_or_create, public_half, random, reseal};
pub use signed::{SignedBy, check_signature, sign_hash};
pub use trusted::{Trusted, TrustedEntry};
