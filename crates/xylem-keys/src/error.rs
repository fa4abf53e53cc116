//! [`KeyFileError`]: why a key could not be made, read or used.

use std::io;
use std::path::PathBuf;

use xylem_base::{Blame, Failure, NoRandomness, advised, blame_of};
use xylem_packet::{Name, UriError};
use xylem_store::StoreError;
use xylem_trust::schema::SchemaRefusal;
use xylem_trust::{CertificateError, KeyError as Malformed, PacketRefusal};

use super::limits::{MAX_ENTRIES, SECRET_LEN};

/// A certificate that a schema does not let a key issue.
#[derive(Debug)]
pub struct IssueRefusal {
    /// The certificate.
    pub name: Name,
    /// The certificate of the key that would sign it.
    pub signer: Name,
    /// The rule that refuses it.
    pub refusal: SchemaRefusal,
}

/// Why a key could not be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The operating system gives no random bytes.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// No new key of this algorithm could be made.
    #[error("cannot make key: {0}")]
    New(Malformed),
    /// A key is under a passphrase, and there is none.
    #[error("{what} is encrypted under a passphrase: {why}")]
    NoPassphrase {
        /// The key, as named to the user.
        what: String,
        /// Why there is no passphrase, in the words of the program that asks for it ([`crate::ask_passphrases`]).
        why: String,
    },
    /// The passphrase does not open the key.
    #[error("{0}: wrong passphrase")]
    WrongPassphrase(String),
    /// The user gave up when asked for a passphrase.
    #[error("interrupted")]
    Interrupted,
    /// A SafeBag cannot be used.
    #[error("{what}: {source}")]
    SafeBag {
        /// The file or key.
        what: String,
        /// The defect.
        source: xylem_trust::SafeBagError,
    },
    /// A key that is to be deleted has to be named in full.
    #[error("{0} is not the full name of a key; give the name that `xylem key list` prints")]
    NotInFull(String),
    /// No certificate of this name is trusted.
    #[error("{0} is not trusted here; see `xylem key list`")]
    NotTrusted(String),
    /// Too many certificates or prefixes are trusted.
    #[error("{0}: no more than {max} certificates can be trusted, for {max} prefixes each",
            max = MAX_ENTRIES)]
    TooMany(PathBuf),
    /// A secret that must exist does not.
    #[error("{}: no such key file; leave out --sign to use your own key", .0.display())]
    NoSecret(PathBuf),
    /// A secret cannot be read.
    #[error("{}: cannot read key: {source}", path.display())]
    Read {
        /// Its file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A secret's file has another length than a secret.
    #[error("{}: a key file holds exactly {SECRET_LEN} bytes", .0.display())]
    Length(PathBuf),
    /// A new secret cannot be written.
    #[error("cannot make key: {}", advised(.0))]
    Write(#[source] StoreError),
    /// The keyring cannot be read or written.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
    /// A file that the user named cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file that the user named holds no known format.
    #[error("{}: not a key or certificate: neither a packet nor base64", .0.display())]
    NoPacket(PathBuf),
    /// A file of a kind that is not imported.
    #[error("{}: {what}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Kind of the file, and the user's way out.
        what: &'static str,
    },
    /// A name was given to a key that has one.
    #[error("{}: the key in it has a name; leave out --identity", .0.display())]
    HasName(PathBuf),
    /// A file holds no usable key.
    #[error("{}: {source}", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// The defect.
        source: Malformed,
    },
    /// A file that the user named holds neither a key nor a certificate.
    #[error("{}: neither a key nor a certificate: {source}", path.display())]
    NeitherKeyNorCertificate {
        /// The file.
        path: PathBuf,
        /// Why it is no certificate.
        source: CertificateError,
    },
    /// A file that the user named holds no certificate.
    #[error("{}: {source}", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// The defect.
        source: CertificateError,
    },
    /// A file that the user named holds no trust schema.
    #[error("{}: {source}", path.display())]
    NoSchema {
        /// The file.
        path: PathBuf,
        /// The defect.
        source: xylem_trust::schema::FileError,
    },
    /// No rule of the schema matches an anchor's certificate.
    #[error(
        "{}: no rule of the schema matches {name}; its trust anchors are {anchors}",
        path.display()
    )]
    NotInSchema {
        /// The certificate's file.
        path: PathBuf,
        /// The certificate.
        name: Name,
        /// The rules that anchors have to match.
        anchors: String,
    },
    /// A certificate has the name of a key in this keyring, but another public half.
    #[error("{}: a certificate for another key with the same name {name}", path.display())]
    OtherKey {
        /// The certificate's file.
        path: PathBuf,
        /// The key's name.
        name: Name,
    },
    /// A directory of another program's keys does not have the key of a certificate.
    #[error("{} has no key {name}", directory.display())]
    NotInTpm {
        /// The directory.
        directory: PathBuf,
        /// The key's name.
        name: Name,
    },
    /// The file exists, and a secret does not replace it.
    #[error("{}: already exists; name a new file", .0.display())]
    FileExists(PathBuf),
    /// A key with this name exists.
    #[error("{0} is already in the keyring")]
    KeyExists(Name),
    /// A text is no name.
    #[error("{text}: {source}")]
    Name {
        /// The text.
        text: String,
        /// The defect.
        source: UriError,
    },
    /// No key has this name or identity.
    #[error("no key {0}; see `xylem key list`")]
    Unknown(Name),
    /// More than one key has this identity.
    #[error("{0} has several keys; name one of them, see `xylem key list`")]
    Several(Name),
    /// Only Ed25519 keys sign publications.
    #[error("{0} is not an Ed25519 key, as `xylem share` needs; `xylem key new` makes one")]
    NotEd25519(Name),
    /// A key certifies only names below its owner's: verifiers would not believe others.
    #[error("{owner} cannot vouch for {identity}, which is not below it")]
    NotBelow {
        /// The key's owner.
        owner: Name,
        /// The requested identity.
        identity: Name,
    },
    /// A schema does not let the signer's certificate sign this one.
    #[error("{}: {} may not sign it under the schema: {}", .0.name, .0.signer, .0.refusal)]
    NotAllowed(Box<IssueRefusal>),
    /// A certificate does not fit into a packet.
    #[error(transparent)]
    Encode(#[from] xylem_packet::EncodeError),
    /// A text is no publisher's key.
    #[error("{0}: a publisher is 64 hexadecimal digits")]
    Publisher(String),
    /// A publisher's key can verify nothing.
    #[error("{text}: {source}")]
    NoVerifier {
        /// The text.
        text: String,
        /// The defect.
        source: Malformed,
    },
    /// A key file is empty.
    #[error("{}: the file is empty", .0.display())]
    Empty(PathBuf),
    /// A key file is longer than any key.
    #[error("{}: too long for a key", .0.display())]
    TooLong(PathBuf),
    /// A key file holds no public key of the named algorithm.
    #[error("{}: not {wanted}", path.display())]
    NotPublic {
        /// The file.
        path: PathBuf,
        /// The expected content.
        wanted: &'static str,
    },
    /// A key file holds no secret of 32 bytes.
    #[error("{}: this key must have 32 bytes or 64 hexadecimal digits", .0.display())]
    NotSecret(PathBuf),
    /// A file holds no certificate.
    #[error("{}: not a certificate, neither raw nor in base64", .0.display())]
    NotCertificate(PathBuf),
    /// A file holds no signature of a file.
    #[error("{}: not a signature that `xylem key sign` writes", .0.display())]
    NoSignature(PathBuf),
    /// No key was named by which to verify a signature.
    #[error(
        "no key to verify the signature with; give a certificate (--trust) or a key (--key, --publisher)"
    )]
    NobodyBelieved,
    /// A signature is broken, or another key's.
    #[error("{}: {why}", path.display())]
    NotBelieved {
        /// Its file.
        path: PathBuf,
        /// The reason.
        why: PacketRefusal,
    },
    /// The signature is valid, but for another file.
    #[error("{}: the signature is for a file with other content", .0.display())]
    OtherFile(PathBuf),
    /// A key cannot sign.
    #[error("{name}: {source}")]
    Signer {
        /// The key's name.
        name: Name,
        /// The defect.
        source: Malformed,
    },
}

impl Failure for KeyFileError {
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
