//! Private keys of ndn-cxx and python-ndn: the files `HASH.privkey` of their file TPM, `~/.ndn/ndnsec-key-file`.
//!
//! HASH is the SHA-256 of the key's name, hexadecimal; ndn-cxx writes capitals. A file has base64 of SEC 1, or of PKCS #1
//! for RSA. The names stand in `pib.db`, an SQLite database, which is not read here: a certificate has the name as well.

use std::path::Path;

use xylem_base::{UnixTime, hex};
use xylem_packet::{Name, sha256};
use xylem_trust::{Armor, PrivateKey};
use zeroize::Zeroizing;

use super::error::KeyFileError;
use super::foreign::small_file;
use super::ring::{KeyEntry, Keyring, certificate_in, packet_in};

impl Keyring {
    /// Imports the key to which the certificate in `file` belongs, from the directory `tpm`, with this certificate. A key
    /// that the keyring has already gets the certificate.
    ///
    /// # Errors
    /// The file holds no certificate; the directory has no such key, or one of another kind or value.
    pub fn import_from_tpm(
        &self,
        file: &Path,
        tpm: &Path,
        now: UnixTime,
    ) -> Result<KeyEntry, KeyFileError> {
        let wire = packet_in(file)?;
        let certificate = certificate_in(&wire, file)?;
        let name = certificate.key_name().to_name();
        if !self.keys()?.iter().any(|(known, _)| *known == name) {
            let key = private_key(tpm, &name)?;
            if *certificate.public_key() != key.public() {
                return Err(KeyFileError::OtherKey { path: file.to_path_buf(), name });
            }
            self.add(&name, key, None, now)?;
        }
        self.install(&certificate, file)
    }
}

fn private_key(tpm: &Path, name: &Name) -> Result<PrivateKey, KeyFileError> {
    let mut wire = Vec::new();
    name.as_ref().encode(&mut wire);
    let hash = hex(&sha256(&wire));
    let found = [hash.to_uppercase(), hash].map(|hash| tpm.join(format!("{hash}.privkey")));
    let missing = || KeyFileError::NotInTpm { directory: tpm.to_path_buf(), name: name.clone() };
    let path = found.into_iter().find(|path| path.exists()).ok_or_else(missing)?;
    let text = Zeroizing::new(small_file(&path)?);
    let der = Armor::decode(&text).ok_or_else(|| KeyFileError::NoPacket(path.clone()))?;
    PrivateKey::from_der(&Zeroizing::new(der))
        .map_err(|source| KeyFileError::NoKey { path, source })
}
