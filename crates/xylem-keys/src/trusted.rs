//! [`Trusted`]: the keys that the user trusts, and for which prefixes: the store's `keys/trusted`.
//!
//! Each certificate is a file `CERTIFICATE.trust`: one prefix a line, then the certificate between PEM lines. The files
//! are not secret, but write access decides which keys are trusted. Only the owner has access to the directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use xylem_packet::Name;
use xylem_store::{Clobber, DiskMedium, create_dirs, write_atomically};
use xylem_trust::{Armor, Certificate, PrefixRules, TrustStore};

use super::error::KeyFileError;
use super::files::read_limited;
use super::limits::MAX_ENTRIES;
use super::ring::{certificate_in, parse};
use super::secret::{close_directory, files_in, remove_file, require_closed};

/// A trusted certificate, and the prefixes for which it is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename = "trusted")]
pub struct TrustedEntry {
    /// The certificate's name.
    #[serde(serialize_with = "xylem_base::json::text")]
    pub certificate: Name,
    /// Prefixes for which its key, and the keys that it certifies, are trusted.
    pub prefixes: Vec<String>,
    /// When the certificate ends, in milliseconds since 1970.
    pub valid_until_ms: u64,
}

/// The certificates that the user of a store trusts.
#[derive(Clone, Debug)]
pub struct Trusted {
    dir: PathBuf,
}

struct TrustFile {
    path: PathBuf,
    certificate: Vec<u8>,
    prefixes: Vec<Name>,
}

impl Trusted {
    /// The trusted certificates of this store; there may be none yet.
    pub fn at(store: &Path) -> Self {
        Trusted { dir: store.join("keys").join("trusted") }
    }

    /// Trusts the key of a certificate for names below `prefix`; by default for names below its owner's.
    ///
    /// # Errors
    /// The bytes are no certificate, the prefix is no name; a file cannot be written.
    pub fn add(
        &self,
        certificate: &[u8],
        prefix: Option<&str>,
    ) -> Result<TrustedEntry, KeyFileError> {
        let certificate = certificate_in(certificate, Path::new("the certificate"))?;
        let prefix = match prefix {
            Some(prefix) => parse(prefix)?,
            None => certificate.identity().to_name(),
        };
        let name = certificate.name().to_name();
        let entries = self.entries()?;
        let path = self.path(&name);
        let known = entries.iter().find(|entry| entry.path == path);
        let mut prefixes = known.map(|entry| entry.prefixes.clone()).unwrap_or_default();
        if !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
        if prefixes.len() > MAX_ENTRIES || (known.is_none() && entries.len() >= MAX_ENTRIES) {
            return Err(KeyFileError::TooMany(path));
        }
        let entry = TrustFile { path, certificate: certificate.data().wire().to_vec(), prefixes };
        self.write(&entry)?;
        entry.row()
    }

    /// Removes trust in a certificate, or in all certificates of a key or identity; with `prefix`, for that prefix
    /// alone. Returns the changed entries.
    ///
    /// # Errors
    /// Nothing with this name is trusted; a file cannot be written.
    pub fn remove(
        &self,
        which: &str,
        prefix: Option<&str>,
    ) -> Result<Vec<TrustedEntry>, KeyFileError> {
        let (wanted, prefix) = (parse(which)?, prefix.map(parse).transpose()?);
        let mut changed = Vec::new();
        for mut entry in self.entries()? {
            let certificate = certificate_in(&entry.certificate, &entry.path)?;
            let named = [certificate.name(), certificate.key_name(), certificate.identity()];
            let covers = prefix.as_ref().is_none_or(|prefix| entry.prefixes.contains(prefix));
            if !named.contains(&wanted.as_ref()) || !covers {
                continue;
            }
            entry.prefixes.retain(|known| prefix.as_ref().is_some_and(|prefix| known != prefix));
            changed.push(entry.row()?);
            if entry.prefixes.is_empty() {
                remove_file(&entry.path)?;
            } else {
                self.write(&entry)?;
            }
        }
        if changed.is_empty() {
            Err(KeyFileError::NotTrusted(which.to_owned()))
        } else {
            Ok(changed)
        }
    }

    /// Lists the trusted certificates, by name.
    ///
    /// # Errors
    /// Files that cannot be read, or that this program did not write.
    pub fn list(&self) -> Result<Vec<TrustedEntry>, KeyFileError> {
        let mut rows: Vec<_> =
            self.entries()?.iter().map(TrustFile::row).collect::<Result<_, _>>()?;
        rows.sort_by(|a, b| a.certificate.cmp(&b.certificate));
        Ok(rows)
    }

    /// Adds the trusted certificates to a trust store.
    ///
    /// # Errors
    /// Files that cannot be read, or keys that can verify nothing.
    pub fn add_to(&self, store: &mut TrustStore) -> Result<(), KeyFileError> {
        for entry in self.entries()? {
            let certificate = certificate_in(&entry.certificate, &entry.path)?;
            let key = certificate.key_name().to_name();
            let rules = Arc::new(PrefixRules::new(key, entry.prefixes.clone()));
            store.add_anchor_under(&certificate, rules).map_err(|source| {
                KeyFileError::NoCertificate { path: entry.path.clone(), source }
            })?;
        }
        Ok(())
    }

    fn entries(&self) -> Result<Vec<TrustFile>, KeyFileError> {
        close_directory(&self.dir)?;
        let mut entries = Vec::new();
        for path in files_in(&self.dir, "trust", 2 * MAX_ENTRIES)? {
            entries.push(TrustFile::read(path)?);
        }
        Ok(entries)
    }

    fn write(&self, entry: &TrustFile) -> Result<(), KeyFileError> {
        let disk = DiskMedium::new();
        create_dirs(&disk, &self.dir)?;
        close_directory(&self.dir)?;
        let certificate = certificate_in(&entry.certificate, &entry.path)?;
        let mut text: String = entry.prefixes.iter().map(|prefix| format!("{prefix}\n")).collect();
        text += &Armor::Certificate.encode(&certificate.name().to_string(), &entry.certificate);
        Ok(write_atomically(&disk, &entry.path, text.as_bytes(), 0o600, Clobber::Replace)?)
    }

    fn path(&self, certificate: &Name) -> PathBuf {
        let file = certificate.to_string().trim_start_matches('/').replace('/', "+");
        self.dir.join(format!("{file}.trust"))
    }
}

impl TrustFile {
    fn read(path: PathBuf) -> Result<Self, KeyFileError> {
        require_closed(&path)?;
        let bytes = read_limited(&path)?;
        let bad = || KeyFileError::NotCertificate(path.clone());
        let text = std::str::from_utf8(&bytes).map_err(|_| bad())?;
        let names = text.split("-----BEGIN").next().unwrap_or_default().lines();
        let prefixes: Vec<Name> = names.take(MAX_ENTRIES).map(parse).collect::<Result<_, _>>()?;
        let certificate = Armor::decode(&bytes).ok_or_else(bad)?;
        certificate_in(&certificate, &path)?;
        Ok(TrustFile { certificate, prefixes, path })
    }

    fn row(&self) -> Result<TrustedEntry, KeyFileError> {
        let certificate: Certificate<'_> = certificate_in(&self.certificate, &self.path)?;
        Ok(TrustedEntry {
            certificate: certificate.name().to_name(),
            prefixes: self.prefixes.iter().map(Name::to_string).collect(),
            valid_until_ms: certificate.validity().not_after_ms,
        })
    }
}
