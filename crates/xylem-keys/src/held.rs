//! [`StoredKey`]: a key as it is in its file. The file names the key's owner even without its passphrase.
//!
//! Without a passphrase, the file holds the packet in which NDNd keeps a key. With one, it holds a SafeBag. Its
//! certificate is signed by the key itself, so that name and public half are proven before the passphrase is requested.

use std::path::Path;

use xylem_base::{UnixTime, random};
use xylem_packet::Name;
use xylem_trust::{
    Certificate, KeyError as Malformed, PrivateKey, PublicKey, SafeBag, SafeBagError, Signer,
    ValidityPeriod, self_signed,
};

use super::error::KeyFileError;
use super::passphrase::passphrase_of;

const DAY_MS: u64 = 86_400_000;
/// Days for which a self-signed certificate is valid: twenty years, as with ndnsec.
pub(super) const SELF_SIGNED_DAYS: u64 = 7305;

/// A key in a file.
pub(super) enum StoredKey {
    /// A key without a passphrase.
    Open(PrivateKey),
    /// A key under a passphrase: a SafeBag.
    Sealed {
        /// The bytes of the SafeBag.
        bag: Vec<u8>,
        /// The public half of the key.
        public: PublicKey,
    },
}

impl StoredKey {
    /// Parses the packet of a key file; returns the key and its name.
    pub(super) fn read(wire: Vec<u8>, path: &Path) -> Result<(Name, Self), KeyFileError> {
        let path = || path.to_path_buf();
        if SafeBag::begins(&wire) {
            let bag = SafeBag::decode(&wire).map_err(|source| KeyFileError::SafeBag {
                what: path().display().to_string(),
                source,
            })?;
            let name = bag.certificate().key_name().to_name();
            let public = bag.certificate().public_key().clone();
            return Ok((name, StoredKey::Sealed { bag: wire, public }));
        }
        let (name, key) = PrivateKey::from_packet(&wire)
            .map_err(|source| KeyFileError::NoKey { path: path(), source })?;
        Ok((name, StoredKey::Open(key)))
    }

    pub(super) fn public(&self) -> PublicKey {
        match self {
            StoredKey::Open(key) => key.public(),
            StoredKey::Sealed { public, .. } => public.clone(),
        }
    }

    pub(super) fn is_sealed(&self) -> bool {
        matches!(self, StoredKey::Sealed { .. })
    }

    /// Returns the private key, and requests its passphrase if it has one. `what` names the key to the user.
    pub(super) fn open(self, what: &str) -> Result<PrivateKey, KeyFileError> {
        match self {
            StoredKey::Open(key) => Ok(key),
            StoredKey::Sealed { bag, .. } => Ok(open_bag(&bag, what)?.0),
        }
    }
}

/// Opens a SafeBag; returns the key, and the passphrase that opened it.
pub(super) fn open_bag(
    bag: &[u8],
    what: &str,
) -> Result<(PrivateKey, super::Passphrase), KeyFileError> {
    let failed = |source| KeyFileError::SafeBag { what: what.to_owned(), source };
    let bag = SafeBag::decode(bag).map_err(failed)?;
    let passphrase = passphrase_of(what)?;
    let key = bag.open(&passphrase).map_err(|source| match source {
        SafeBagError::Key(Malformed::WrongPassphrase) => {
            KeyFileError::WrongPassphrase(what.to_owned())
        }
        source => failed(source),
    })?;
    Ok((key, passphrase))
}

/// Encrypts a key under a passphrase, as a SafeBag with this certificate, or with a self-signed one.
pub(super) fn seal(
    key: &PrivateKey,
    name: &Name,
    certificate: Option<&[u8]>,
    passphrase: &[u8],
    now: UnixTime,
) -> Result<Vec<u8>, KeyFileError> {
    let now_ms = now.milliseconds();
    let own = match certificate {
        Some(wire) => wire.to_vec(),
        None => self_signed(&signer(key, name)?, now_ms, valid_from_now(now_ms, SELF_SIGNED_DAYS))
            .unwrap_or_default(),
    };
    let certificate = Certificate::decode(&own).map_err(|e| KeyFileError::SafeBag {
        what: name.to_string(),
        source: SafeBagError::Certificate(e),
    })?;
    Ok(SafeBag::encode(&certificate, &key.to_encrypted(passphrase, random()?)))
}

pub(super) fn signer(key: &PrivateKey, name: &Name) -> Result<Signer, KeyFileError> {
    key.signer(name.clone()).map_err(|source| KeyFileError::Signer { name: name.clone(), source })
}

/// Makes a validity period that starts an hour ago, for clocks that are behind.
pub(super) fn valid_from_now(now_ms: u64, days: u64) -> ValidityPeriod {
    ValidityPeriod {
        not_before_ms: now_ms.saturating_sub(DAY_MS / 24),
        not_after_ms: now_ms.saturating_add(days.saturating_mul(DAY_MS)),
    }
}
