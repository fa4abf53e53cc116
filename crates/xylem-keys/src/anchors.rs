//! Reads certificates and schemas from files, and makes a trust store of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_store::read_stream;
use xylem_trust::schema::{FileError, MAX_SCHEMA, Schema};
use xylem_trust::{Certificate, TrustRules, TrustStore};

use super::error::KeyFileError;
use super::files::certificate;

/// Reads a schema, in its text or its binary form.
///
/// # Errors
/// The file does not exist, or holds no schema.
pub fn schema(path: &Path) -> Result<Schema, KeyFileError> {
    let mut bytes = Vec::new();
    read_stream(path, MAX_SCHEMA as u64 + 1, &mut bytes)
        .map_err(|source| KeyFileError::Open { path: path.to_path_buf(), source })?;
    schema_in(&bytes, path)
}

/// Parses a schema from the bytes of a file; `path` is for errors.
///
/// # Errors
/// The bytes are no valid schema.
pub fn schema_in(bytes: &[u8], path: &Path) -> Result<Schema, KeyFileError> {
    let bad = |source: FileError| KeyFileError::NoSchema { path: path.to_path_buf(), source };
    Schema::read(bytes).map_err(bad)
}

/// Makes a trust store with the certificates in these files as anchors. They are trusted for names below their owners',
/// or for what a schema allows.
///
/// # Errors
/// Files that do not exist or hold no certificate or schema, and a certificate that no rule of the schema matches.
pub fn anchors(certificates: &[PathBuf], rules: Option<&Path>) -> Result<TrustStore, KeyFileError> {
    let mut store = TrustStore::new();
    let rules = rules.map(schema).transpose()?.map(Arc::new);
    for path in certificates {
        let wire = certificate(path)?;
        let bad = |source| KeyFileError::NoCertificate { path: path.clone(), source };
        let certificate = Certificate::decode(&wire).map_err(bad)?;
        let Some(rules) = &rules else {
            store.add_anchor(&certificate).map_err(bad)?;
            continue;
        };
        // Everything that it certifies would be refused, without a visible reason.
        if rules.matches(certificate.name()).is_ok_and(|matches| matches.is_empty()) {
            let (name, anchors) = (certificate.name().to_name(), rules.anchors().join(" "));
            return Err(KeyFileError::NotInSchema { path: path.clone(), name, anchors });
        }
        let rules: Arc<dyn TrustRules> = rules.clone();
        store.add_anchor_under(&certificate, rules).map_err(bad)?;
    }
    Ok(store)
}
