//! [`sign_hash`] and [`check_signature`]: a signature of a file's hash, as a text beside the file. It needs no network,
//! and no particular way to get the file.
//!
//! The text is one NDN Data packet between PEM lines. Its name is `IDENTITY/32=signed/v=TIME` (milliseconds since
//! 1970), its content the 32 bytes of the file's BLAKE3 hash. It is signed as any packet is (docs/spec/trust.md). The
//! keyword component separates it from everything else that the same key signs.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::path::Path;

use serde::Serialize;
use xylem_base::UnixTime;
use xylem_hash::Hash;
use xylem_packet::tlv::types;
use xylem_packet::{Component, Data, DataBuilder, Name};
use xylem_trust::{Armor, key_name_of};

use super::error::KeyFileError;
use super::files::{VerifyWith, packet_in_file};
use super::ring::Keyring;

const SIGNED: Component<'static> = Component::keyword(b"signed");

/// A valid signature of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename = "signature")]
pub struct SignedBy {
    /// The identity to which the key belongs.
    #[serde(serialize_with = "xylem_base::json::text")]
    pub identity: Name,
    /// The file's hash, hexadecimal.
    pub hash: String,
    /// When it was signed, by the signer's clock, in milliseconds since 1970.
    pub time_ms: u64,
}

/// Signs the hash of a file with the key `by`, and returns the signature as text.
///
/// # Errors
/// There is no such key.
pub fn sign_hash(
    keyring: &Keyring,
    by: &str,
    hash: &Hash,
    now: UnixTime,
) -> Result<String, KeyFileError> {
    let signer = keyring.signer(by)?;
    let key = signer.key_locator().and_then(key_name_of);
    let identity = key.map(|key| key.prefix(key.len().saturating_sub(2)).to_name());
    let name = identity.unwrap_or_default().child(SIGNED);
    let name = name.child(Component::version(now.milliseconds()));
    let mut packet = Vec::new();
    signer.data(DataBuilder::new(name.as_ref()), hash.as_bytes(), &mut packet)?;
    Ok(Armor::Data.encode(&name.to_string(), &packet))
}

/// Verifies the signature of a file with this hash: the text in `signature` names the signer, and `believe` decides
/// which keys count.
///
/// # Errors
/// The file holds no signature; no key is believed; it signs another file, or its key is not believed.
pub fn check_signature(
    hash: &Hash,
    signature: &Path,
    believe: &VerifyWith,
    now: UnixTime,
) -> Result<SignedBy, KeyFileError> {
    let path = || signature.to_path_buf();
    let policy = believe.policy()?;
    if !policy.proves() {
        return Err(KeyFileError::NobodyBelieved);
    }
    let wire = packet_in_file(signature)?;
    let data = Data::decode(&wire).map_err(|_| KeyFileError::NoSignature(path()))?;
    let (name, last) = (data.name(), data.name().len().saturating_sub(2));
    let version = name.last().and_then(|v| v.as_number_of(types::VERSION_COMPONENT));
    let (Some(time_ms), true) = (version, name.get(last) == Some(SIGNED)) else {
        return Err(KeyFileError::NoSignature(path()));
    };
    policy
        .judge(&data, now.milliseconds())
        .map_err(|why| KeyFileError::NotBelieved { path: path(), why })?;
    if data.content() != hash.as_bytes() {
        return Err(KeyFileError::OtherFile(path()));
    }
    Ok(SignedBy { identity: name.prefix(last).to_name(), hash: hash.to_string(), time_ms })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_800_000_000));

    fn written(dir: &Path, name: &str, text: &str) -> std::path::PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_signature_fits_one_file_and_one_key_bit_by_bit() {
        let dir = tempfile::tempdir().unwrap();
        let keyring = Keyring::at(dir.path());
        let own = |who: &str| {
            keyring.create(who, crate::KeyKind::Ed25519, NOW).unwrap();
            let certificate = Armor::bare(&keyring.certificate(who).unwrap());
            VerifyWith::Certificates(vec![written(dir.path(), &who[1..], &certificate)])
        };
        let (alice, bob) = (own("/alice"), own("/bob"));
        let hash = xylem_hash::hash(b"a file");
        let text = sign_hash(&keyring, "/alice", &hash, NOW).unwrap();
        let signature = written(dir.path(), "sig", &text);

        let by = check_signature(&hash, &signature, &alice, NOW).unwrap();
        assert_eq!((by.identity.to_string().as_str(), by.time_ms), ("/alice", NOW.milliseconds()));
        let refused = |hash: &Hash, believe| check_signature(hash, &signature, believe, NOW);
        assert!(matches!(
            refused(&xylem_hash::hash(b"another"), &alice),
            Err(KeyFileError::OtherFile(_))
        ));
        assert!(matches!(refused(&hash, &bob), Err(KeyFileError::NotBelieved { .. })));
        assert!(matches!(refused(&hash, &VerifyWith::Nobody), Err(KeyFileError::NobodyBelieved)));

        let packet = Armor::decode(text.as_bytes()).unwrap();
        for bit in 0..packet.len() * 8 {
            let mut flipped = packet.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&signature, &flipped).unwrap();
            assert!(refused(&hash, &alice).is_err(), "bit {bit}");
        }
        // A certificate is signed by the same key, but is no signature of a file.
        let certificate = dir.path().join("alice");
        let other = check_signature(&hash, &certificate, &alice, NOW);
        assert!(matches!(other, Err(KeyFileError::NoSignature(_))), "{other:?}");
    }
}
