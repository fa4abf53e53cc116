//! [`Issued`]: the certificates that a certificate authority (CA) of this store has issued: the store's `ca`.
//!
//! Each CA has a directory, with a file for each certificate: `TIME-HASH.cert`, after the time of issue and the
//! beginning of its hash. The certificates are public. When a CA starts, it removes expired certificates, and the
//! oldest ones beyond its limit.

use std::path::{Path, PathBuf};

use xylem_base::UnixTime;
use xylem_packet::Name;
use xylem_store::{Clobber, DiskMedium, create_dirs, write_atomically};
use xylem_trust::{Armor, Certificate};

use super::error::KeyFileError;
use super::files::certificate;
use super::ring::certificate_in;
use super::secret::{files_in, remove_file};

/// Most files that are examined when a CA starts.
const MAX_FILES: usize = 1_000_000;

/// The certificates that one CA has issued.
#[derive(Clone, Debug)]
pub struct Issued {
    dir: PathBuf,
}

impl Issued {
    /// The certificates of the CA with this prefix; there may be none yet.
    pub fn at(store: &Path, prefix: &Name) -> Self {
        // A name may be longer than a file name.
        let mut value = Vec::new();
        prefix.as_ref().encode(&mut value);
        let hash = xylem_hash::hash(&value).to_string();
        Issued { dir: store.join("ca").join(&hash[..32]) }
    }

    /// Loads the newest `most` certificates that have not expired, the oldest first; the files of all others are
    /// removed. Also returns the paths of files that hold no certificate; these stay.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn load(
        &self,
        most: usize,
        now: UnixTime,
    ) -> Result<(Vec<Vec<u8>>, Vec<PathBuf>), KeyFileError> {
        let mut paths = files_in(&self.dir, "cert", MAX_FILES)?;
        // By time: the names begin with it.
        paths.sort();
        let beyond = paths.len().saturating_sub(most);
        let (mut kept, mut unreadable) = (Vec::new(), Vec::new());
        for (at, path) in paths.into_iter().enumerate() {
            let wire = certificate(&path).ok();
            let until = wire.as_deref().and_then(|wire| Certificate::decode(wire).ok());
            let until = until.map(|certificate| certificate.validity().not_after_ms);
            match (until, wire) {
                (Some(until), Some(wire)) if at >= beyond && until >= now.milliseconds() => {
                    kept.push(wire);
                }
                (Some(_), _) => remove_file(&path)?,
                (None, _) => unreadable.push(path),
            }
        }
        Ok((kept, unreadable))
    }

    /// Stores a certificate.
    ///
    /// # Errors
    /// The bytes are no certificate; the file cannot be written.
    pub fn keep(&self, wire: &[u8], now: UnixTime) -> Result<(), KeyFileError> {
        let disk = DiskMedium::new();
        create_dirs(&disk, &self.dir)?;
        let hash = xylem_hash::hash(wire).to_string();
        let file = format!("{:020}-{}.cert", now.milliseconds(), &hash[..16]);
        let path = self.dir.join(file);
        let name = certificate_in(wire, &path)?.name().to_string();
        let text = Armor::Certificate.encode(&name, wire);
        Ok(write_atomically(&disk, &path, text.as_bytes(), 0o644, Clobber::Replace)?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use std::fs;
    use xylem_trust::{Signer, ValidityPeriod, self_signed};

    fn at(seconds: u64) -> UnixTime {
        UnixTime::new(Duration::from_secs(seconds))
    }

    /// A certificate that is valid until this many seconds after 1970.
    fn until(seconds: u64) -> Vec<u8> {
        let signer = Signer::ed25519(&[1; 32], "/org/al/KEY/1".parse().unwrap());
        let validity = ValidityPeriod { not_before_ms: 0, not_after_ms: seconds * 1000 };
        self_signed(&signer, seconds, validity).unwrap()
    }

    #[test]
    fn issued_certificates_are_loaded_until_they_expire() {
        let dir = tempfile::tempdir().unwrap();
        let issued = Issued::at(dir.path(), &"/org".parse().unwrap());
        assert_eq!(issued.load(9, at(0)).unwrap(), (vec![], vec![]));
        // Times with different numbers of digits sort correctly.
        for (now, valid_until) in [(9, 100), (10, 300), (11, 200), (11, 400)] {
            issued.keep(&until(valid_until), at(now)).unwrap();
        }
        let other = Issued::at(dir.path(), &"/other".parse().unwrap());
        assert_eq!(other.load(9, at(0)).unwrap().0.len(), 0);
        let strange = issued.dir.join("strange.cert");
        fs::write(&strange, "no certificate!").unwrap();
        let (kept, unreadable) = issued.load(9, at(150)).unwrap();
        assert_eq!(kept.len(), 3);
        assert_eq!(kept[0], until(300), "the oldest of those that are left");
        assert_eq!(unreadable, [strange]);
        let (kept, _) = issued.load(2, at(150)).unwrap();
        assert_eq!(kept.len(), 1, "the two newest names, of which one is no certificate");
        assert_eq!(fs::read_dir(&issued.dir).unwrap().count(), 2);
    }
}
