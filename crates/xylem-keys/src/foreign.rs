//! Private keys in formats of other programs than NDN's: PKCS #8 and SEC 1, in DER or between PEM lines, as OpenSSL
//! writes them. They name no owner. Other kinds of key files get an error that names their kind.

use std::path::Path;

use xylem_base::{UnixTime, hex};
use xylem_packet::{Component, Name};
use xylem_store::read_stream;
use xylem_trust::{Armor, KeyError as Malformed, PrivateKey};
use zeroize::Zeroizing;

use super::error::KeyFileError;
use super::passphrase::passphrase_of;
use super::ring::{KeyEntry, Keyring, parse};

/// Most bytes of a file.
const MAX_FILE: u64 = 64 * 1024;
/// First byte of DER: a SEQUENCE. No packet begins with it.
const SEQUENCE: u8 = 0x30;

/// Advice for each kind of file.
const NAMELESS: &str = "a private key without a name, as OpenSSL writes it; give it one: `xylem key import \
                        FILE --identity /NAME`";
const OPENSSH: &str = "a private key in OpenSSH's format, which is not supported; make one in PKCS #8 (`openssl genpkey -algorithm ed25519`)";
const OLD_PASSPHRASE: &str = "a private key encrypted in OpenSSL's old format, which is not supported; `openssl pkcs8 -topk8 \
                              -in FILE` converts it";
const PUBLIC: &str = "a public key, which cannot sign; to verify with it, convert it (`openssl pkey -pubin -outform DER`) \
                      and give `--key ed25519:FILE`";
const X509: &str = "an X.509 certificate, which NDN does not use; `xylem key cert` prints a key's NDN certificate, or signs one for another key";
const NO_KEY: &str = "DER, but not a private key in PKCS #8 or SEC 1";

/// Kind of a file that holds neither a packet nor bare base64.
pub(super) enum Foreign {
    /// A private key in DER.
    Key(Zeroizing<Vec<u8>>),
    /// Anything else: what it is, and what the user can do.
    Other(&'static str),
}

impl Foreign {
    /// Recognizes a file; `None` if it may hold what NDN programs write.
    pub(super) fn of(file: &[u8]) -> Option<Self> {
        if file.first() == Some(&SEQUENCE) {
            return Some(Self::Key(Zeroizing::new(file.to_vec())));
        }
        let text = std::str::from_utf8(file).ok()?;
        let blocks = text.match_indices("-----BEGIN ").map(|(at, _)| &text[at..]);
        let labelled = |block| Some((label(block)?, block));
        // OpenSSL may write the name of the curve in a block of its own before the key's.
        let mut blocks: Vec<_> = blocks.filter_map(labelled).collect();
        blocks.sort_by_key(|(label, _)| !label.ends_with("PRIVATE KEY"));
        let (label, block) = blocks.first()?;
        Some(match *label {
            "OPENSSH PRIVATE KEY" => Self::Other(OPENSSH),
            _ if block.contains("Proc-Type: 4,ENCRYPTED") => Self::Other(OLD_PASSPHRASE),
            "PRIVATE KEY" | "EC PRIVATE KEY" | "RSA PRIVATE KEY" | "ENCRYPTED PRIVATE KEY" => {
                Self::Key(Zeroizing::new(Armor::decode(block.as_bytes())?))
            }
            "PUBLIC KEY" => Self::Other(PUBLIC),
            "CERTIFICATE" => Self::Other(X509),
            _ => return None,
        })
    }
}

/// Returns the label of the PEM block at the beginning of a text.
fn label(block: &str) -> Option<&str> {
    Some(block.strip_prefix("-----BEGIN ")?.split_once("-----")?.0)
}

/// Reads a file of the user's, up to the greatest size of key files.
pub(super) fn small_file(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    // Full capacity from the start: a reallocation would leave a part of the secret in freed memory.
    let mut bytes = Vec::with_capacity(MAX_FILE as usize + 1);
    read_stream(path, MAX_FILE, &mut bytes)
        .map_err(|source| KeyFileError::Open { path: path.to_path_buf(), source })?;
    Ok(bytes)
}

/// Makes the name of a key for this identity.
pub(super) fn key_name(identity: &Name, key: &PrivateKey) -> Name {
    let id = hex(&key.public().digest()[..8]);
    identity.clone().child(Component::generic(b"KEY")).child(Component::generic(id.as_bytes()))
}

impl Keyring {
    /// Imports a private key that is no packet, under the given identity.
    pub(super) fn import_foreign(
        &self,
        found: &Foreign,
        identity: Option<&str>,
        file: &Path,
        now: UnixTime,
    ) -> Result<KeyEntry, KeyFileError> {
        let path = || file.to_path_buf();
        let other = |what| KeyFileError::Foreign { path: path(), what };
        let unusable = |source| KeyFileError::NoKey { path: path(), source };
        let der = match found {
            Foreign::Key(der) => der,
            Foreign::Other(what) => return Err(other(what)),
        };
        let key = match PrivateKey::from_der(der) {
            // In DER, a public key begins like a private one under a passphrase.
            Err(Malformed::Encrypted) => match PrivateKey::check_encrypted(der) {
                Err(Malformed::Malformed) => return Err(other(NO_KEY)),
                checked => checked.map(|()| None).map_err(unusable)?,
            },
            Err(Malformed::Malformed) => return Err(other(NO_KEY)),
            key => Some(key.map_err(unusable)?),
        };
        // An unusable key is reported first: a name would not help.
        let identity = parse(identity.ok_or_else(|| other(NAMELESS))?)?;
        if let Some(key) = key {
            return self.add(&key_name(&identity, &key), key, None, now);
        }
        let what = file.display().to_string();
        let passphrase = passphrase_of(&what)?;
        let key = PrivateKey::from_encrypted(der, &passphrase).map_err(|e| match e {
            Malformed::WrongPassphrase => KeyFileError::WrongPassphrase(what),
            e => unusable(e),
        })?;
        self.add(&key_name(&identity, &key), key, Some(&passphrase), now)
    }
}
