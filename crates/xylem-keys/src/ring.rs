//! [`Keyring`]: named keys on disk, for signing under an identity in NDN: the store's `keys/ndn`.
//!
//! Each key is two files. `NAME.key` (mode 0600) is the secret, as NDNd reads it, or a SafeBag under a passphrase.
//! `NAME.cert` is its certificate, self-signed until another one is imported. Secrets come from the operating system's
//! randomness or from a file, and leave only by [`Keyring::export_to`].

use std::path::{Path, PathBuf};

use serde::Serialize;
use xylem_base::{UnixTime, hex, random};
use xylem_object::PublisherKey;
use xylem_packet::{Component, Name};
use xylem_store::{Clobber, DiskMedium, StoreError, write_atomically};
use xylem_trust::schema::Schema;
use xylem_trust::{
    Armor, Certificate, Issue, PrivateKey, PublicKey, SafeBag, Signer, is_key_packet, self_signed,
};
use zeroize::Zeroizing;

use super::error::{IssueRefusal, KeyFileError};
use super::foreign::{Foreign, key_name, small_file};
use super::held::{SELF_SIGNED_DAYS, StoredKey, open_bag, seal, signer, valid_from_now};
use super::kind::KeyKind;
use super::secret::{
    close_directory, files_in, remove_file, replace_private, require_closed, write_private,
};

/// Most keys of a keyring.
const MAX_KEYS: usize = 10_000;

/// A key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename = "key")]
pub struct KeyEntry {
    /// `/<identity>/KEY/<key id>`.
    #[serde(serialize_with = "xylem_base::json::text")]
    pub name: Name,
    /// `ed25519`, `ecdsa` or `rsa`.
    pub algorithm: &'static str,
    /// Whether it is under a passphrase.
    pub encrypted: bool,
    /// SHA-256 of the public half's SubjectPublicKeyInfo, hexadecimal: the value of a KeyDigest.
    pub fingerprint: String,
    /// The certificate's name, if there is a certificate.
    #[serde(serialize_with = "xylem_base::json::some_text")]
    pub certificate: Option<Name>,
    /// SHA-256 of the certificate's packet, hexadecimal: clients identify a CA by it.
    pub digest: Option<String>,
    /// When the certificate ends, in milliseconds since 1970.
    pub valid_until_ms: Option<u64>,
    /// The public half of an Ed25519 key, hexadecimal.
    pub public: Option<String>,
}

/// What a certificate that a key issues states and is held to.
#[derive(Clone, Copy, Debug)]
pub struct IssueTerms<'a> {
    /// The issuer id, a component of the certificate's name.
    pub issuer: &'a str,
    /// Days of validity.
    pub days: u32,
    /// Decides what the key may certify; without it, names below its owner's.
    pub schema: Option<&'a Schema>,
}

/// A key to publish with, and its certificate.
pub struct CertifiedKey {
    /// The key; the packets that it signs name the certificate.
    pub key: PublisherKey,
    /// `/<identity>/KEY/<key id>`.
    pub key_name: Name,
    /// The identity to which the key belongs.
    pub identity: Name,
    /// The certificate's packet.
    pub certificate: Vec<u8>,
}

/// The keys of one store.
#[derive(Clone, Debug)]
pub struct Keyring {
    dir: PathBuf,
}

impl Keyring {
    /// The keyring of this store; it need not exist yet.
    pub fn at(store: &Path) -> Self {
        Keyring { dir: store.join("keys").join("ndn") }
    }

    /// Makes a key for `identity`, with a self-signed certificate that is valid from `now` on.
    ///
    /// # Errors
    /// The identity is no name; a file cannot be written.
    pub fn create(
        &self,
        identity: &str,
        kind: KeyKind,
        now: UnixTime,
    ) -> Result<KeyEntry, KeyFileError> {
        self.create_under(identity, kind, None, now)
    }

    /// Makes a key as [`Self::create`] does, under a passphrase if there is one.
    ///
    /// # Errors
    /// The identity is no name; a file cannot be written.
    pub fn create_under(
        &self,
        identity: &str,
        kind: KeyKind,
        passphrase: Option<&[u8]>,
        now: UnixTime,
    ) -> Result<KeyEntry, KeyFileError> {
        let identity = parse(identity)?;
        let key = match kind {
            KeyKind::Ed25519 => PrivateKey::ed25519(random()?),
            KeyKind::EcdsaP256 => PrivateKey::generate_ecdsa_p256().map_err(KeyFileError::New)?,
        };
        self.add(&key_name(&identity, &key), key, passphrase, now)
    }

    /// Lists the keys, by name.
    ///
    /// # Errors
    /// Files that cannot be read, or that this program did not write.
    pub fn list(&self) -> Result<Vec<KeyEntry>, KeyFileError> {
        let mut entries = Vec::new();
        for (name, key) in self.keys()? {
            entries.push(self.entry(&name, &key)?);
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Writes a key to a new file of mode 0600. Without a passphrase the file holds the secret itself, as NDNd and
    /// [`Self::import`] read it. Under `passphrase`, or under the one that the key has, it holds a SafeBag in bare
    /// base64, as `ndnsec import` and [`Self::import`] read it. Returns whether it is a SafeBag.
    ///
    /// # Errors
    /// There is no such key, or more than one of this identity; or the file exists already.
    pub fn export_to(
        &self,
        which: &str,
        passphrase: Option<&[u8]>,
        file: &Path,
        now: UnixTime,
    ) -> Result<bool, KeyFileError> {
        let (name, held) = self.find(which)?;
        let path = self.path(&name, "cert");
        let certificate = if path.exists() { Some(packet_in(&path)?) } else { None };
        let bag = match (held, passphrase) {
            (StoredKey::Open(key), None) => {
                return export(file, key_text(&name, &key)?.as_bytes()).map(|()| false);
            }
            (StoredKey::Open(key), Some(passphrase)) => {
                seal(&key, &name, certificate.as_deref(), passphrase, now)?
            }
            (StoredKey::Sealed { bag, .. }, _) => match certificate {
                Some(wire) => {
                    let failed = |source| KeyFileError::SafeBag { what: name.to_string(), source };
                    let sealed = SafeBag::decode(&bag).map_err(failed)?;
                    SafeBag::encode(&certificate_in(&wire, &path)?, sealed.encrypted())
                }
                None => bag,
            },
        };
        export(file, Armor::bare(&bag).as_bytes()).map(|()| true)
    }

    /// Imports a key, or a certificate of a key in this keyring. A key from a SafeBag stays under its passphrase, which
    /// is requested. A key in PKCS #8 or SEC 1, as OpenSSL writes it, gets the name `identity`.
    ///
    /// # Errors
    /// Other kinds of files, keys that the keyring has already, and an identity for a key that has its own.
    pub fn import(
        &self,
        file: &Path,
        identity: Option<&str>,
        now: UnixTime,
    ) -> Result<KeyEntry, KeyFileError> {
        let path = || file.to_path_buf();
        let bytes = Zeroizing::new(small_file(file)?);
        if let Some(found) = Foreign::of(&bytes) {
            return self.import_foreign(&found, identity, file, now);
        }
        let wire = Armor::decode(&bytes).ok_or_else(|| KeyFileError::NoPacket(path()))?;
        if identity.is_some() {
            return Err(KeyFileError::HasName(path()));
        }
        if SafeBag::begins(&wire) {
            let what = file.display().to_string();
            let (key, passphrase) = open_bag(&wire, &what)?;
            let bag = SafeBag::decode(&wire)
                .map_err(|source| KeyFileError::SafeBag { what: what.clone(), source })?;
            let name = bag.certificate().key_name().to_name();
            self.add(&name, key, Some(&passphrase), now)?;
            self.write_certificate(bag.certificate())?;
            let (name, held) = self.find_name(name)?;
            return self.entry(&name, &held);
        }
        if is_key_packet(&wire) {
            let (name, key) = PrivateKey::from_packet(&wire)
                .map_err(|source| KeyFileError::NoKey { path: path(), source })?;
            return self.add(&name, key, None, now);
        }
        let certificate = Certificate::decode(&wire)
            .map_err(|source| KeyFileError::NeitherKeyNorCertificate { path: path(), source })?;
        self.install(&certificate, file)
    }

    /// Stores a certificate with its key, which must be in this keyring. `file` is for errors.
    ///
    /// # Errors
    /// There is no such key, or its public half differs.
    pub fn install(
        &self,
        certificate: &Certificate<'_>,
        file: &Path,
    ) -> Result<KeyEntry, KeyFileError> {
        let (name, key) = self.find_name(certificate.key_name().to_name())?;
        if *certificate.public_key() != key.public() {
            return Err(KeyFileError::OtherKey { path: file.to_path_buf(), name });
        }
        self.write_certificate(certificate)?;
        self.entry(&name, &key)
    }

    /// Finds the key with this name, or the only key of this identity; `None` if there is none.
    ///
    /// # Errors
    /// More than one key; files that cannot be read.
    pub fn entry_of(&self, which: &str) -> Result<Option<KeyEntry>, KeyFileError> {
        match self.find(which) {
            Ok((name, key)) => self.entry(&name, &key).map(Some),
            Err(KeyFileError::Unknown(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Puts a key under another passphrase, or under none; its present passphrase is requested.
    ///
    /// # Errors
    /// There is no such key, the passphrase is wrong, or a file cannot be written.
    pub fn reseal(
        &self,
        which: &str,
        passphrase: Option<&[u8]>,
        now: UnixTime,
    ) -> Result<KeyEntry, KeyFileError> {
        let (name, held) = self.find(which)?;
        let key = held.open(&name.to_string())?;
        let text = text_of(&name, &key, passphrase, now)?;
        replace_private(&self.path(&name, "key"), text.as_bytes())?;
        let (name, held) = self.find_name(name)?;
        self.entry(&name, &held)
    }

    /// Deletes the key with exactly this name, and its certificate, for good.
    ///
    /// # Errors
    /// The text is not the full name of a key of this keyring.
    pub fn delete(&self, name: &str) -> Result<Name, KeyFileError> {
        let wanted = parse(name)?;
        let (found, _) = self.find_name(wanted.clone())?;
        if found != wanted {
            return Err(KeyFileError::NotInFull(name.to_owned()));
        }
        for extension in ["key", "cert"] {
            let path = self.path(&found, extension);
            remove_file(&path)?;
        }
        Ok(found)
    }

    /// Returns the certificate of a key.
    ///
    /// # Errors
    /// There is no such key, or it has no certificate.
    pub fn certificate(&self, which: &str) -> Result<Vec<u8>, KeyFileError> {
        let (name, _) = self.find(which)?;
        let path = self.path(&name, "cert");
        let wire = packet_in(&path)?;
        certificate_in(&wire, &path)?;
        Ok(wire)
    }

    /// Issues a certificate for the key in `request` (a certificate that the key has already), signed by the key `by`.
    /// It is valid from `now` on.
    ///
    /// # Errors
    /// There is no such key or request, or no verifier would accept the certificate: without a schema the request's
    /// identity is not below that of `by`; the schema does not let the certificate of `by` sign it.
    pub fn certify(
        &self,
        by: &str,
        request: &Path,
        terms: &IssueTerms<'_>,
        now: UnixTime,
    ) -> Result<Vec<u8>, KeyFileError> {
        let (name, held) = self.find(by)?;
        let wire = packet_in(request)?;
        let request = certificate_in(&wire, request)?;
        let owner = name.as_ref().prefix(name.len().saturating_sub(2));
        if terms.schema.is_none() && !owner.is_prefix_of(request.identity()) {
            let (owner, identity) = (owner.to_name(), request.identity().to_name());
            return Err(KeyFileError::NotBelow { owner, identity });
        }
        let now_ms = now.milliseconds();
        let issue = Issue {
            key_name: request.key_name(),
            issuer_id: Component::generic(terms.issuer.as_bytes()),
            version: now_ms,
            public_key: request.public_key(),
            validity: valid_from_now(now_ms, u64::from(terms.days)),
        };
        let mut out = Vec::new();
        let key = held.open(&name.to_string())?;
        let signer = self.signer_with(&key, &name)?;
        if let Some(schema) = terms.schema {
            let (issued, own) = (issue.name(), signer.key_locator().unwrap_or(name.as_ref()));
            schema.check(issued.as_ref(), own).map_err(|refusal| {
                let (name, signer) = (issued.clone(), own.to_name());
                KeyFileError::NotAllowed(Box::new(IssueRefusal { name, signer, refusal }))
            })?;
        }
        issue.sign(&signer, &mut out)?;
        Ok(out)
    }

    /// Returns a signer with a key. Its packets name the key's certificate if there is one: a cache may hold an earlier
    /// certificate of the key for an hour, and other implementations take a KeyLocator for a certificate's name.
    ///
    /// # Errors
    /// There is no such key, or it or its certificate cannot be read.
    pub fn signer(&self, which: &str) -> Result<Signer, KeyFileError> {
        let (name, held) = self.find(which)?;
        self.signer_with(&held.open(&name.to_string())?, &name)
    }

    fn signer_with(&self, key: &PrivateKey, name: &Name) -> Result<Signer, KeyFileError> {
        let path = self.path(name, "cert");
        if !path.exists() {
            return signer(key, name);
        }
        let wire = packet_in(&path)?;
        signer(key, &certificate_in(&wire, &path)?.name().to_name())
    }

    /// Returns an Ed25519 key to publish with. Its packets name its certificate, which verifiers need as well.
    ///
    /// # Errors
    /// There is no such key, it is of another algorithm, or it has no certificate.
    pub fn publisher(&self, which: &str) -> Result<CertifiedKey, KeyFileError> {
        let (name, held) = self.find(which)?;
        let key = held.open(&name.to_string())?;
        let seed = key.seed().ok_or_else(|| KeyFileError::NotEd25519(name.clone()))?;
        let path = self.path(&name, "cert");
        let wire = packet_in(&path)?;
        let certificate = certificate_in(&wire, &path)?;
        let identity = certificate.identity().to_name();
        let certificate = certificate.name().to_name();
        let key = PublisherKey::from_bytes(seed).with_key_locator(certificate);
        Ok(CertifiedKey { key, key_name: name, identity, certificate: wire })
    }

    pub(super) fn add(
        &self,
        name: &Name,
        key: PrivateKey,
        passphrase: Option<&[u8]>,
        now: UnixTime,
    ) -> Result<KeyEntry, KeyFileError> {
        let path = self.path(name, "key");
        self.close()?;
        let text = text_of(name, &key, passphrase, now)?;
        write_private(&path, text.as_bytes()).map_err(|e| match e {
            StoreError::Exists { .. } => KeyFileError::KeyExists(name.clone()),
            other => other.into(),
        })?;
        let now_ms = now.milliseconds();
        let validity = valid_from_now(now_ms, SELF_SIGNED_DAYS);
        if let Some(own) = self_signed(&signer(&key, name)?, now_ms, validity)
            && let Ok(certificate) = Certificate::decode(&own)
        {
            self.write_certificate(&certificate)?;
        }
        let (name, held) = self.find_name(name.clone())?;
        self.entry(&name, &held)
    }

    /// Writes a certificate to its file, and replaces an earlier one.
    fn write_certificate(&self, certificate: &Certificate<'_>) -> Result<(), KeyFileError> {
        let path = self.path(&certificate.key_name().to_name(), "cert");
        let name = certificate.name().to_string();
        let text = Armor::Certificate.encode(&name, certificate.data().wire());
        let medium = DiskMedium::new();
        Ok(write_atomically(&medium, &path, text.as_bytes(), 0o644, Clobber::Replace)?)
    }

    fn entry(&self, name: &Name, key: &StoredKey) -> Result<KeyEntry, KeyFileError> {
        let path = self.path(name, "cert");
        let wire = if path.exists() { packet_in(&path)? } else { Vec::new() };
        let certificate = Certificate::decode(&wire).ok();
        Ok(KeyEntry {
            name: name.clone(),
            algorithm: match key.public() {
                PublicKey::Ed25519(_) => "ed25519",
                PublicKey::EcdsaP256(_) => "ecdsa",
                PublicKey::Rsa(_) => "rsa",
            },
            encrypted: key.is_sealed(),
            fingerprint: hex(&key.public().digest()),
            certificate: certificate.as_ref().map(|c| c.name().to_name()),
            digest: certificate.as_ref().map(|c| hex(&c.data().implicit_digest())),
            public: match key.public() {
                PublicKey::Ed25519(public) => Some(hex(&public)),
                _ => None,
            },
            valid_until_ms: certificate.map(|c| c.validity().not_after_ms),
        })
    }

    /// Makes the directories of keys accessible to their owner alone.
    fn close(&self) -> Result<(), StoreError> {
        self.dir.parent().map_or(Ok(()), close_directory)?;
        close_directory(&self.dir)
    }

    pub(super) fn keys(&self) -> Result<Vec<(Name, StoredKey)>, KeyFileError> {
        self.close()?;
        let mut keys = Vec::new();
        for path in files_in(&self.dir, "key", 2 * MAX_KEYS)? {
            require_closed(&path)?;
            keys.push(StoredKey::read(packet_in(&path)?, &path)?);
        }
        Ok(keys)
    }

    /// Finds the key with this name, or the only key of this identity.
    fn find(&self, which: &str) -> Result<(Name, StoredKey), KeyFileError> {
        self.find_name(parse(which)?)
    }

    fn find_name(&self, wanted: Name) -> Result<(Name, StoredKey), KeyFileError> {
        let fits = |name: &Name| {
            *name == wanted || name.as_ref().prefix(name.len().saturating_sub(2)) == wanted.as_ref()
        };
        let mut found: Vec<_> = self.keys()?.into_iter().filter(|(name, _)| fits(name)).collect();
        match (found.pop(), found.is_empty()) {
            (Some(key), true) => Ok(key),
            (None, _) => Err(KeyFileError::Unknown(wanted)),
            _ => Err(KeyFileError::Several(wanted)),
        }
    }

    /// Returns the file of a name. In the URI of a name a plus sign is always percent-encoded, so that no two names
    /// share a file.
    fn path(&self, name: &Name, extension: &str) -> PathBuf {
        let file = name.to_string().trim_start_matches('/').replace('/', "+");
        self.dir.join(format!("{file}.{extension}"))
    }
}

pub(super) fn parse(name: &str) -> Result<Name, KeyFileError> {
    name.parse().map_err(|source| KeyFileError::Name { text: name.to_owned(), source })
}

/// Encodes the file of a key, under a passphrase if there is one.
fn text_of(
    name: &Name,
    key: &PrivateKey,
    passphrase: Option<&[u8]>,
    now: UnixTime,
) -> Result<Zeroizing<String>, KeyFileError> {
    match passphrase {
        None => key_text(name, key),
        Some(passphrase) => {
            let bag = seal(key, name, None, passphrase, now)?;
            Ok(Zeroizing::new(Armor::SafeBag.encode(&name.to_string(), &bag)))
        }
    }
}

fn key_text(name: &Name, key: &PrivateKey) -> Result<Zeroizing<String>, KeyFileError> {
    let packet = key.to_packet(name.as_ref())?;
    Ok(Zeroizing::new(Armor::Key.encode(&name.to_string(), &packet)))
}

/// Writes a new file for the user.
fn export(file: &Path, bytes: &[u8]) -> Result<(), KeyFileError> {
    write_private(file, bytes).map_err(|e| match e {
        StoreError::Exists { path } => KeyFileError::FileExists(path),
        other => other.into(),
    })
}

pub(super) fn certificate_in<'a>(
    wire: &'a [u8],
    path: &Path,
) -> Result<Certificate<'a>, KeyFileError> {
    let path = || path.to_path_buf();
    Certificate::decode(wire).map_err(|source| KeyFileError::NoCertificate { path: path(), source })
}

/// Reads the packet in a file, raw or as text.
pub(super) fn packet_in(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    Armor::decode(&small_file(path)?).ok_or_else(|| KeyFileError::NoPacket(path.to_path_buf()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use std::fs;
    use xylem_base::{Blame, Failure};
    use xylem_packet::{Data, DataBuilder};
    use xylem_trust::TrustStore;

    const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_800_000_000));

    #[test]
    fn a_key_is_made_listed_exported_and_imported() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (a, b) = (Keyring::at(here.path()), Keyring::at(there.path()));
        assert_eq!(a.list().unwrap(), []);
        for kind in [KeyKind::Ed25519, KeyKind::EcdsaP256] {
            let made = a.create("/alice", kind, NOW).unwrap();
            let file = there.path().join("exported");
            let _ = fs::remove_file(&file);
            assert!(!a.export_to(&made.name.to_string(), None, &file, NOW).unwrap());
            assert_eq!(
                a.export_to(&made.name.to_string(), None, &file, NOW).unwrap_err().blame(),
                Blame::Usage
            );
            let imported = b.import(&file, None, NOW).unwrap();
            assert_eq!((imported.name, imported.algorithm), (made.name, made.algorithm));
            assert_eq!(
                b.import(&file, None, NOW).unwrap_err().blame(),
                Blame::Usage,
                "here already"
            );
        }
        assert_eq!(a.list().unwrap().len(), 2);
        let file = there.path().join("another");
        assert_eq!(
            a.export_to("/alice", None, &file, NOW).unwrap_err().blame(),
            Blame::Usage,
            "which of two"
        );
        assert_eq!(a.export_to("/bob", None, &file, NOW).unwrap_err().blame(), Blame::Usage);
        #[cfg(unix)]
        for file in fs::read_dir(&a.dir).unwrap().map(|file| file.unwrap()) {
            use std::os::unix::fs::PermissionsExt;
            let mode = file.metadata().unwrap().permissions().mode() & 0o777;
            let secret = file.path().extension().unwrap() == "key";
            assert!(!secret || mode == 0o600, "{:?}: {mode:o}", file.path());
        }
    }

    #[test]
    fn an_organisation_certifies_its_member() {
        let dir = tempfile::tempdir().unwrap();
        let keyring = Keyring::at(dir.path());
        keyring.create("/org", KeyKind::EcdsaP256, NOW).unwrap();
        let alice = keyring.create("/org/alice", KeyKind::Ed25519, NOW).unwrap();
        let file = dir.path().join("certificate");
        fs::write(&file, keyring.certificate("/org/alice").unwrap()).unwrap();
        let terms = IssueTerms { issuer: "org", days: 30, schema: None };
        let own = keyring.certify("/org/alice", &file, &terms, NOW);
        assert!(own.is_ok(), "one's own name is under itself");
        let by_org = keyring.certify("/org", &file, &terms, NOW).unwrap();
        fs::write(&file, by_org).unwrap();
        let entry = keyring.import(&file, None, NOW).unwrap();
        assert!(
            entry.certificate.unwrap().to_string().starts_with(&format!("{}/org/v=", alice.name))
        );

        let mut store = TrustStore::new();
        let anchor = keyring.certificate("/org").unwrap();
        store.add_anchor(&Certificate::decode(&anchor).unwrap()).unwrap();
        let member = keyring.certificate("/org/alice").unwrap();
        let now_ms = NOW.milliseconds();
        store.add(&Certificate::decode(&member).unwrap(), now_ms).unwrap();
        let mut note = Vec::new();
        let name = parse("/org/alice/note").unwrap();
        let signer = keyring.signer("/org/alice").unwrap();
        signer.data(DataBuilder::new(name.as_ref()), b"x", &mut note).unwrap();
        assert_eq!(store.data(&Data::decode(&note).unwrap(), now_ms), Ok(()));

        // What the two sign names their certificates: the imported one, and the self-signed one.
        let locator = |which: &str| keyring.signer(which).unwrap().key_locator().unwrap().to_name();
        let of = |wire: &[u8]| Certificate::decode(wire).unwrap().name().to_name();
        assert_eq!((locator("/org/alice"), locator("/org")), (of(&member), of(&anchor)));
        let signer = Certificate::decode(&member).unwrap().signer().map(|name| name.to_name());
        assert_eq!(signer, Some(of(&anchor)));
        // A certificate that cannot be read is not taken for none.
        let cert = keyring.path(&alice.name, "cert");
        fs::write(&cert, "x").unwrap();
        assert!(keyring.signer("/org/alice").is_err());
        fs::remove_file(&cert).unwrap();
        assert_eq!(locator("/org/alice"), alice.name);

        fs::write(&file, keyring.certificate("/org").unwrap()).unwrap();
        let refused = keyring.certify("/org/alice", &file, &terms, NOW).unwrap_err();
        assert_eq!(refused.blame(), Blame::Usage);
    }

    #[test]
    fn a_schema_decides_which_names_a_key_certifies() {
        let dir = tempfile::tempdir().unwrap();
        let keyring = Keyring::at(dir.path());
        for identity in ["/org", "/org/alice", "/org/bob"] {
            keyring.create(identity, KeyKind::Ed25519, NOW).unwrap();
        }
        let file = dir.path().join("certificate");
        fs::write(&file, keyring.certificate("/org/bob").unwrap()).unwrap();
        let schema = Schema::compile(
            r#"
            #key: "KEY"/_/_/_
            #root: "org"/#key
            #alice: "org"/"alice"/#key <= #root
            #bob: "org"/"bob"/#key <= #alice
            "#,
        );
        let schema = schema.unwrap();
        let by_names = IssueTerms { issuer: "x", days: 1, schema: None };
        let by_schema = IssueTerms { schema: Some(&schema), ..by_names };
        let certify = |by: &str, terms| keyring.certify(by, &file, terms, NOW);
        assert!(certify("/org", &by_names).is_ok() && certify("/org/alice", &by_schema).is_ok());
        assert!(matches!(certify("/org/alice", &by_names), Err(KeyFileError::NotBelow { .. })));
        let refused = certify("/org", &by_schema).unwrap_err();
        assert!(matches!(refused, KeyFileError::NotAllowed(_)), "{refused}");
        assert_eq!(refused.blame(), Blame::Usage);
    }
}
