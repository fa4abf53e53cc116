//! [`KeyError`]: why a key could not be made, read or used.

use std::io;
use std::path::PathBuf;

use xylem_packet::{Name, UriError};
use xylem_store::StoreError;
use xylem_trust::{CertificateError, KeyError as Malformed};

use super::limits::{MAX_ENTRIES, SECRET_LEN};
use crate::error::{Blame, Failure, advised, blame_of};

/// Why a key could not be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The operating system gives no random bytes.
    #[error("the operating system gives no randomness: {0}")]
    NoRandomness(getrandom::Error),
    /// No new key of this algorithm could be made.
    #[error("a new key: {0}")]
    New(Malformed),
    /// A key under a passphrase, and nobody says it.
    #[error("{what} is encrypted under a passphrase: {why}")]
    NoPassphrase {
        /// What the key is called.
        what: String,
        /// Why there is none.
        why: String,
    },
    /// A passphrase that does not open a key.
    #[error("{0}: wrong passphrase")]
    WrongPassphrase(String),
    /// Whoever was asked for a passphrase gave up.
    #[error("interrupted")]
    Interrupted,
    /// A SafeBag that can't be used.
    #[error("{what}: {source}")]
    SafeBag {
        /// Where it is.
        what: String,
        /// What is wrong with it.
        source: xylem_trust::SafeBagError,
    },
    /// What is removed for good is named in full.
    #[error(
        "{0} is no key's name; to delete a key give all of its name, as `xylem key list` prints it"
    )]
    NotInFull(String),
    /// Nothing like this is trusted.
    #[error("{0} is not trusted here; see `xylem key list`")]
    NotTrusted(String),
    /// Too much is trusted.
    #[error("{0}: no more than {max} certificates can be trusted, for {max} prefixes each",
            max = MAX_ENTRIES)]
    TooMany(PathBuf),
    /// A secret that has to be there is not.
    #[error("{}: no such key file; leave --key away to use your own", .0.display())]
    NoSecret(PathBuf),
    /// A secret can't be read.
    #[error("{}: cannot read key: {source}", path.display())]
    Read {
        /// Its file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A secret's file is no secret.
    #[error("{}: a key file holds exactly {SECRET_LEN} bytes", .0.display())]
    Length(PathBuf),
    /// A new secret can't be written.
    #[error("cannot make key: {}", advised(.0))]
    Write(#[source] StoreError),
    /// The keyring can't be read or written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// A file that somebody named can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file that somebody named holds nothing that is known here.
    #[error("{}: neither a packet nor base64", .0.display())]
    NoPacket(PathBuf),
    /// A file of another kind than those that are taken in.
    #[error("{}: {what}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// A name was given to a key that has one.
    #[error("{}: this has its own name; --identity is for keys without one", .0.display())]
    HasName(PathBuf),
    /// A file holds no key that can be used.
    #[error("{}: {source}", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Malformed,
    },
    /// A file that somebody named holds neither of the two.
    #[error("{}: neither a key nor a certificate: {source}", path.display())]
    NeitherKeyNorCertificate {
        /// The file.
        path: PathBuf,
        /// Why it is no certificate.
        source: CertificateError,
    },
    /// A file that somebody named holds no certificate.
    #[error("{}: {source}", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: CertificateError,
    },
    /// A file that somebody named holds no trust schema.
    #[error("{}: {source}", path.display())]
    NoSchema {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: xylem_trust::schema::FileError,
    },
    /// A certificate to begin with that a schema says nothing of.
    #[error(
        "{}: {name} is matched by no rule of the schema; its chains end at {anchors}",
        path.display()
    )]
    NotInSchema {
        /// The certificate's file.
        path: PathBuf,
        /// The certificate.
        name: Name,
        /// The rules that a certificate to begin with matches.
        anchors: String,
    },
    /// A certificate for the name of a key here, with other bits.
    #[error("{}: of another key called {name}", path.display())]
    OtherKey {
        /// The certificate's file.
        path: PathBuf,
        /// The key's name.
        name: Name,
    },
    /// There is such a file, and a secret does not replace it.
    #[error("{}: there is such a file", .0.display())]
    FileExists(PathBuf),
    /// There is a key of this name.
    #[error("{0} is here already")]
    KeyExists(Name),
    /// What was given is no name.
    #[error("{text}: {source}")]
    Name {
        /// As it was given.
        text: String,
        /// What is wrong with it.
        source: UriError,
    },
    /// No key has this name or identity.
    #[error("no key {0}; see `xylem key list`")]
    Unknown(Name),
    /// More than one key has this identity.
    #[error("{0} has several keys; name one: `xylem key list`")]
    Several(Name),
    /// Publications are signed by Ed25519 keys alone.
    #[error("{0} is no Ed25519 key, with which `share` signs; `xylem key new` makes one")]
    NotEd25519(Name),
    /// A key vouches only for names below its owner's: others would not be believed.
    #[error("{owner} cannot vouch for {identity}, which is not below it")]
    NotBelow {
        /// The key's owner.
        owner: Name,
        /// The identity that was asked for.
        identity: Name,
    },
    /// A certificate does not fit into a packet.
    #[error(transparent)]
    Encode(#[from] xylem_packet::EncodeError),
    /// What was given is no publisher's key.
    #[error("{0}: a publisher is 64 hexadecimal digits")]
    Publisher(String),
    /// Nothing can be verified with a publisher's key.
    #[error("{text}: {source}")]
    NoVerifier {
        /// As it was given.
        text: String,
        /// What is wrong with it.
        source: Malformed,
    },
    /// A key file has nothing in it.
    #[error("{}: the file is empty", .0.display())]
    Empty(PathBuf),
    /// A key file is longer than any key.
    #[error("{}: too long for a key", .0.display())]
    TooLong(PathBuf),
    /// A key file holds no public key of the algorithm that was named.
    #[error("{}: not {wanted}", path.display())]
    NotPublic {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        wanted: &'static str,
    },
    /// A key file holds no secret of 32 bytes.
    #[error("{}: this key has to be 32 bytes or 64 digits", .0.display())]
    NotSecret(PathBuf),
    /// A file holds no certificate.
    #[error("{}: neither a certificate nor one in base64", .0.display())]
    NotCertificate(PathBuf),
    /// A file holds no signature of a file.
    #[error("{}: no signature as `xylem key sign` writes it", .0.display())]
    NoSignature(PathBuf),
    /// A signature can only be checked by a key that is known.
    #[error("whose signature? name a certificate (--trust) or a key (--key, --publisher)")]
    NobodyBelieved,
    /// A signature is broken, or another's.
    #[error("{}: {why}", path.display())]
    NotBelieved {
        /// Its file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A signature is good, and this file is not what was signed.
    #[error("{}: signed is a file with another content", .0.display())]
    OtherFile(PathBuf),
    /// A key can't sign.
    #[error("{name}: {source}")]
    Signer {
        /// The key's name.
        name: Name,
        /// What is wrong with it.
        source: Malformed,
    },
}

impl Failure for KeyError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoRandomness(_) | Self::New(_) | Self::Read { .. } => Blame::Local,
            Self::Interrupted => Blame::Interrupted,
            Self::Write(e) | Self::Store(e) => blame_of(e),
            Self::NotBelieved { .. } | Self::OtherFile(_) => Blame::Data,
            _ => Blame::Usage,
        }
    }
}
