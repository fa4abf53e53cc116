//! [`VerifyWith`] and [`SignWith`]: the keys by which signatures are verified, and the key to sign with. They are read from
//! files, and chosen before a packet is decoded.
//!
//! Keys come from the user's files, never from a packet; xylem-trust signs and verifies. Chains of certificates are not
//! fetched. A certificate file names its key's owner, and packets that this key signed under the owner's name are
//! believed.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use xylem_object::{PublisherId, PublisherKey, naming};
use xylem_packet::{Component, Name};
use xylem_store::read_stream;
use xylem_trust::{Armor, PublicKey, Signer, TrustPolicy, TrustStore, Verifier};

use super::anchors::anchors;
use super::error::KeyFileError;
use super::ring::Keyring;
use super::secret::load_or_create;
use super::trusted::Trusted;

/// Most bytes that are read of a key or certificate file.
const MAX_KEY_FILE: u64 = 64 * 1024;

/// A key in a file, with its algorithm: `hmac:FILE`, `blake3-keyed:FILE`, `ed25519:FILE`, `ecdsa:FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    algorithm: KeyAlgorithm,
    path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyAlgorithm {
    Hmac,
    Blake3Keyed,
    Ed25519,
    Ecdsa,
}

impl KeyFile {
    /// The file, if it holds an Ed25519 key.
    pub fn ed25519(&self) -> Option<&Path> {
        (self.algorithm == KeyAlgorithm::Ed25519).then_some(&self.path)
    }
}

/// A text that is no [`KeyFile`]: an unknown algorithm, or no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected hmac:FILE, blake3-keyed:FILE, ed25519:FILE or ecdsa:FILE")]
pub struct NotAKeyFile;

impl FromStr for KeyFile {
    type Err = NotAKeyFile;

    fn from_str(text: &str) -> Result<Self, NotAKeyFile> {
        let (algorithm, path) = text.split_once(':').ok_or(NotAKeyFile)?;
        let algorithm = match algorithm {
            "hmac" => KeyAlgorithm::Hmac,
            "blake3-keyed" => KeyAlgorithm::Blake3Keyed,
            "ed25519" => KeyAlgorithm::Ed25519,
            "ecdsa" => KeyAlgorithm::Ecdsa,
            _ => return Err(NotAKeyFile),
        };
        if path.is_empty() { Err(NotAKeyFile) } else { Ok(Self { algorithm, path: path.into() }) }
    }
}

/// The keys by which packets are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VerifyWith {
    /// No key. A digest in a packet (types 0 and 6) still has to be right. It shows damage, but anyone can make one.
    #[default]
    Nobody,
    /// Packets that this key signed: a shared secret, or a public key, raw or as SubjectPublicKeyInfo.
    Key(KeyFile),
    /// Packets that this publisher signed: 64 hexadecimal digits, as in a ticket.
    Publisher(String),
    /// Packets that the key of one of these certificates signed, under its owner's name.
    Certificates(Vec<PathBuf>),
    /// Packets that a schema allows, by keys with a chain to one of these certificates.
    Schema {
        /// The schema's file.
        schema: PathBuf,
        /// The files of the certificates.
        anchors: Vec<PathBuf>,
    },
    /// Packets that a key signed which the user of this store trusts, for the prefixes of that trust ([`Trusted`]).
    Trusted(PathBuf),
}

impl VerifyWith {
    /// Reads the keys.
    ///
    /// # Errors
    /// Files that do not exist, or hold no such key.
    pub fn policy(&self) -> Result<TrustPolicy, KeyFileError> {
        let one = |verifier| Ok(TrustPolicy::Key(Box::new(verifier)));
        match self {
            Self::Nobody => Ok(TrustPolicy::Nobody),
            Self::Key(key) => one(verifier(key)?),
            Self::Publisher(hex) => {
                let text = || hex.clone();
                let id: PublisherId = hex.parse().map_err(|_| KeyFileError::Publisher(text()))?;
                let key = Verifier::of(&PublicKey::Ed25519(id.0));
                one(key.map_err(|source| KeyFileError::NoVerifier { text: text(), source })?)
            }
            Self::Certificates(files) => Ok(TrustPolicy::Anchors(anchors(files, None)?)),
            Self::Schema { schema, anchors: files } => {
                Ok(TrustPolicy::Anchors(anchors(files, Some(schema))?))
            }
            Self::Trusted(store) => {
                let mut believed = TrustStore::new();
                Trusted::at(store).add_to(&mut believed)?;
                Ok(TrustPolicy::Anchors(believed))
            }
        }
    }
}

fn verifier(key: &KeyFile) -> Result<Verifier, KeyFileError> {
    let bytes = read(&key.path)?;
    let path = || key.path.clone();
    let not = |wanted| KeyFileError::NotPublic { path: path(), wanted };
    let unusable = |source| KeyFileError::NoKey { path: path(), source };
    match key.algorithm {
        KeyAlgorithm::Hmac => Ok(Verifier::hmac(&bytes)),
        KeyAlgorithm::Blake3Keyed => Ok(Verifier::blake3_keyed(secret(&bytes, &key.path)?)),
        KeyAlgorithm::Ed25519 => {
            let raw = <[u8; 32]>::try_from(bytes.as_slice()).map(PublicKey::Ed25519).ok();
            let public = match raw.map_or_else(|| PublicKey::from_spki(&bytes), Ok) {
                Ok(public @ PublicKey::Ed25519(_)) => public,
                _ => return Err(not("an Ed25519 public key")),
            };
            Verifier::of(&public).map_err(unusable)
        }
        KeyAlgorithm::Ecdsa => match PublicKey::from_spki(&bytes) {
            Ok(public @ PublicKey::EcdsaP256(_)) => Verifier::of(&public).map_err(unusable),
            _ => Err(not("a P-256 public key in DER")),
        },
    }
}

/// Reads a key file. A file of 64 hexadecimal digits stands for the 32 bytes that they encode.
fn read(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    let bytes = read_limited(path)?;
    let text = bytes.trim_ascii();
    let hex = text.len() == 64 && text.iter().all(u8::is_ascii_hexdigit);
    if !hex {
        return Ok(bytes);
    }
    let digit = |d: u8| char::from(d).to_digit(16).unwrap_or(0) as u8;
    Ok(text.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect())
}

pub(super) fn read_limited(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    let mut bytes = Vec::new();
    read_stream(path, MAX_KEY_FILE + 1, &mut bytes)
        .map_err(|source| KeyFileError::Open { path: path.to_path_buf(), source })?;
    match bytes.len() as u64 {
        0 => Err(KeyFileError::Empty(path.to_path_buf())),
        1..=MAX_KEY_FILE => Ok(bytes),
        _ => Err(KeyFileError::TooLong(path.to_path_buf())),
    }
}

fn secret(bytes: &[u8], path: &Path) -> Result<[u8; 32], KeyFileError> {
    bytes.try_into().map_err(|_| KeyFileError::NotSecret(path.to_path_buf()))
}

/// Reads a certificate, raw or in base64 as `ndnsec` and NDNd write it, with or without PEM lines.
///
/// # Errors
/// The file does not exist, or holds no certificate.
pub fn certificate(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    let bytes = read_limited(path)?;
    Armor::decode(&bytes).ok_or_else(|| KeyFileError::NotCertificate(path.to_path_buf()))
}

/// Reads a packet in a small file, in the same formats.
pub(super) fn packet_in_file(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    Armor::decode(&read_limited(path)?).ok_or_else(|| KeyFileError::NoSignature(path.to_path_buf()))
}

/// The key to sign with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SignWith {
    /// Digest of type 0: integrity only.
    DigestSha256,
    /// Digest of type 6: integrity only.
    DigestBlake3,
    /// Ed25519 with the store's own key, with which `share` signs.
    #[default]
    Publisher,
    /// A key of the user's: a secret, an Ed25519 seed, or a P-256 key in PKCS#8.
    Key(KeyFile),
    /// A key of the store's keyring, by its name or its owner's.
    Named(String),
}

/// A text that is no [`SignWith`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}, or key:NAME, ed25519, digest-sha256 or digest-blake3")]
pub struct NotASigningKey(#[from] pub NotAKeyFile);

impl FromStr for SignWith {
    type Err = NotASigningKey;

    fn from_str(text: &str) -> Result<Self, NotASigningKey> {
        match text {
            "digest-sha256" => Ok(Self::DigestSha256),
            "digest-blake3" => Ok(Self::DigestBlake3),
            "ed25519" => Ok(Self::Publisher),
            _ if text.starts_with("key:/") => Ok(Self::Named(text["key:".len()..].to_owned())),
            _ => Ok(Self::Key(text.parse()?)),
        }
    }
}

impl SignWith {
    /// Makes a signer for commands; `store` has the own key.
    ///
    /// # Errors
    /// Files that do not exist, or hold no such key.
    pub fn signer(&self, store: &Path) -> Result<Signer, KeyFileError> {
        signer(self, store, &Name::new().child(Component::generic(b"xylem")))
    }
}

/// Reads or makes the key of a signer. `store` has the own key. `name` is the name to be signed: a key from a file is
/// called `name/KEY/<algorithm>`.
///
/// # Errors
/// Files that do not exist, or hold no such key.
pub fn signer(sign: &SignWith, store: &Path, name: &Name) -> Result<Signer, KeyFileError> {
    let key = match sign {
        SignWith::DigestSha256 => return Ok(Signer::digest_sha256()),
        SignWith::DigestBlake3 => return Ok(Signer::digest_blake3()),
        SignWith::Publisher => {
            let seed = load_or_create(&store.join("keys").join("publisher"))?;
            return Ok(ed25519(&seed));
        }
        SignWith::Named(which) => return Keyring::at(store).signer(which),
        SignWith::Key(key) => key,
    };
    let bytes = read(&key.path)?;
    let locator = |algorithm: &[u8]| {
        name.child(Component::generic(b"KEY")).child(Component::generic(algorithm))
    };
    match key.algorithm {
        KeyAlgorithm::Hmac => Ok(Signer::hmac(&bytes, locator(b"hmac"))),
        KeyAlgorithm::Blake3Keyed => {
            Ok(Signer::blake3_keyed(secret(&bytes, &key.path)?, locator(b"blake3-keyed")))
        }
        KeyAlgorithm::Ed25519 => Ok(ed25519(&secret(&bytes, &key.path)?)),
        KeyAlgorithm::Ecdsa => Signer::ecdsa_p256(&bytes, locator(b"ecdsa"))
            .map_err(|source| KeyFileError::NoKey { path: key.path.clone(), source }),
    }
}

fn ed25519(seed: &[u8; 32]) -> Signer {
    let id = PublisherKey::from_bytes(seed).public();
    Signer::ed25519(seed, naming::key_name(&id.key_id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use xylem_base::{Blame, Failure};
    use xylem_packet::{Data, DataBuilder, KeyLocator, SignatureType};
    use xylem_trust::{TrustError, TrustVerdict};

    fn signed(signer: &Signer) -> Vec<u8> {
        let name: Name = "/a/b".parse().unwrap();
        let mut out = Vec::new();
        signer.data(DataBuilder::new(name.as_ref()), b"content", &mut out).unwrap();
        out
    }

    fn verdict(believe: &VerifyWith, packet: &[u8]) -> Result<TrustVerdict, TrustError> {
        let data = Data::decode(packet).unwrap();
        believe.policy().unwrap().verdict(&data, 2_000_000_000_000)
    }

    #[test]
    fn only_the_named_key_proves() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            fs::write(dir.path().join(name), bytes).unwrap();
            dir.path().join(name).display().to_string()
        };
        let secret = file("secret", &[7; 32]);
        let hex = file("hex", format!("{}\n", "07".repeat(32)).as_bytes());
        let other = file("other", &[8; 32]);
        let name: Name = "/a".parse().unwrap();
        for algorithm in ["hmac", "blake3-keyed"] {
            let key = |path: &str| format!("{algorithm}:{path}").parse::<KeyFile>().unwrap();
            let packet = signed(&signer(&SignWith::Key(key(&hex)), dir.path(), &name).unwrap());
            assert_eq!(verdict(&VerifyWith::Key(key(&secret)), &packet), Ok(TrustVerdict::Proven));
            assert!(verdict(&VerifyWith::Key(key(&other)), &packet).is_err());
            assert_eq!(verdict(&VerifyWith::Nobody, &packet), Ok(TrustVerdict::Unknown));
        }
        let packet = signed(&signer(&SignWith::Publisher, dir.path(), &name).unwrap());
        let own = fs::read(dir.path().join("keys/publisher")).unwrap();
        let id = PublisherKey::from_bytes(&own.try_into().unwrap()).public();
        assert_eq!(
            verdict(&VerifyWith::Publisher(id.to_string()), &packet),
            Ok(TrustVerdict::Proven)
        );
        let public = file("public", &id.0);
        let key = format!("ed25519:{public}").parse().unwrap();
        assert_eq!(verdict(&VerifyWith::Key(key), &packet), Ok(TrustVerdict::Proven));
    }

    #[test]
    fn a_digest_is_no_signature() {
        for digest in [Signer::digest_sha256(), Signer::digest_blake3()] {
            let mut packet = signed(&digest);
            assert_eq!(verdict(&VerifyWith::Nobody, &packet), Ok(TrustVerdict::Undamaged));
            let publisher =
                VerifyWith::Publisher(PublisherKey::from_bytes(&[1; 32]).public().to_string());
            let refused = verdict(&publisher, &packet).unwrap_err();
            assert!(matches!(refused, TrustError::WrongType { .. }));
            let last = packet.len() - 1;
            packet[last] ^= 1;
            assert!(verdict(&VerifyWith::Nobody, &packet).is_err());
        }
    }

    #[test]
    fn certificates_are_read_raw_and_in_base64() {
        let dir = tempfile::tempdir().unwrap();
        let key_name: Name = "/a/KEY/1".parse().unwrap();
        let signer = Signer::ed25519(&[9; 32], key_name.clone());
        let validity = xylem_trust::ValidityPeriod { not_before_ms: 0, not_after_ms: 4e12 as u64 };
        let raw = xylem_trust::self_signed(&signer, 1, validity).unwrap();
        let path = dir.path().join("cert");
        fs::write(&path, &raw).unwrap();
        let believe = VerifyWith::Certificates(vec![path.clone()]);
        assert_eq!(verdict(&believe, &signed(&signer)), Ok(TrustVerdict::Proven));
        let text = Armor::Certificate.encode("/a/KEY/1/self/v=1", &raw);
        fs::write(&path, text).unwrap();
        assert_eq!(verdict(&believe, &signed(&signer)), Ok(TrustVerdict::Proven));
        fs::write(&path, "no certificate!").unwrap();
        assert_eq!(believe.policy().err().unwrap().blame(), Blame::Usage);
        let mut by_nobody = Vec::new();
        let name: Name = "/a/b".parse().unwrap();
        DataBuilder::new(name.as_ref())
            .signature(SignatureType::ED25519, KeyLocator::Name(key_name.as_ref()))
            .encode(&mut by_nobody, b"", |_, value| value.extend_from_slice(&[0; 64]))
            .unwrap();
        fs::write(&path, &raw).unwrap();
        assert!(verdict(&believe, &by_nobody).is_err());
    }
}
