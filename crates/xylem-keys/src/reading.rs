//! Keys to encrypt and decrypt sealed publications (docs/spec/sealed.md, "Recipients").

use std::path::Path;

use xylem_link::{PeerKey, StaticKey};
use xylem_trust::{Certificate, PublicKey};

use super::error::KeyFileError;
use super::ring::Keyring;
use super::secret::load_or_create;

/// Returns the public key to encrypt to a certificate's owner; `None` if the certificate's key is not Ed25519.
pub fn recipient(certificate: &Certificate<'_>) -> Option<PeerKey> {
    certificate.public_key().x25519().map(PeerKey)
}

/// Returns all keys with which this store can decrypt, lazily: the key of its links, then the keys of its keyring, and
/// last those that need a passphrase.
///
/// # Errors
/// Files that cannot be read, here and for each key.
pub fn decryption_keys(
    store: &Path,
) -> Result<impl Iterator<Item = Result<StaticKey, KeyFileError>>, KeyFileError> {
    let own = StaticKey::from_bytes(load_or_create(&store.join("keys").join("link"))?);
    let mut keys = Keyring::at(store).keys()?;
    keys.retain(|(_, held)| matches!(held.public(), PublicKey::Ed25519(_)));
    keys.sort_by(|(a, held), (b, other)| (held.is_sealed(), a).cmp(&(other.is_sealed(), b)));
    let identities = keys.into_iter().filter_map(|(name, held)| {
        let secret = held.open(&name.to_string()).map(|key| key.x25519()).transpose()?;
        Some(secret.map(|secret| StaticKey::from_bytes(*secret)))
    });
    Ok(std::iter::once(Ok(own)).chain(identities))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_trust::PrivateKey;

    /// Both halves belong together; a point of small order is rejected.
    #[test]
    fn an_ed25519_key_decrypts_what_is_encrypted_to_it() {
        let ephemeral = StaticKey::from_bytes([9; 32]);
        for seed in 0..20 {
            let key = PrivateKey::ed25519([seed; 32]);
            let (secret, public) = (key.x25519().unwrap(), key.public().x25519().unwrap());
            let secret = StaticKey::from_bytes(*secret);
            assert_eq!(secret.public(), PeerKey(public));
            assert_eq!(secret.agree(&ephemeral.public()), ephemeral.agree(&PeerKey(public)));
        }
        let mut identity = [0; 32];
        identity[0] = 1;
        let small = PublicKey::Ed25519(identity).x25519().map(PeerKey);
        assert_eq!(small.and_then(|small| ephemeral.agree(&small)), None);
    }
}
