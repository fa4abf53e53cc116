//! The flags that name trusted keys.

use crate::cli::Common;
use crate::exit::CommandFailure;
use crate::publisher::look_up;
use clap::Args;
use std::path::PathBuf;
use xylem_app::{KeyFile, VerifyWith};
use xylem_keys::Trusted;

/// The keys to trust.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Accept what this key signed
    ///
    /// TYPE:FILE is hmac:FILE, blake3-keyed:FILE (secrets), ed25519:FILE or ecdsa:FILE (public keys).
    #[arg(long, value_name = "TYPE:FILE")]
    key: Option<KeyFile>,

    /// Accept what this publisher signed: 64 hexadecimal digits, as `xylem key list` and `xylem share -v` print them; a
    /// ticket or card of the publisher; a name of `xylem inbox people`; or a file with such a key, ticket or card
    #[arg(long, value_name = "WHO", conflicts_with = "key")]
    publisher: Option<String>,

    /// Accept what the key of this NDN certificate signed under its owner's name, and the keys that it certifies, whose
    /// certificates are fetched; can be repeated
    #[arg(
        long,
        value_name = "CERT",
        conflicts_with_all = ["key", "publisher"]
    )]
    trust: Vec<PathBuf>,

    /// Accept what this trust schema (`xylem ndn schema`) lets the keys of --trust sign, and the keys that they certify,
    /// instead of names below their owners'
    #[arg(long, value_name = "FILE", requires = "trust")]
    schema: Option<PathBuf>,
}

impl TrustArgs {
    /// The keys that the flags name.
    pub(crate) fn believe(&self, common: &Common) -> Result<VerifyWith, CommandFailure> {
        if let Some(key) = &self.key {
            return Ok(VerifyWith::Key(key.clone()));
        }
        if let Some(publisher) = &self.publisher {
            let publisher = look_up(publisher, &common.store()?)?;
            return Ok(VerifyWith::Publisher(publisher.to_string()));
        }
        let anchors = self.trust.clone();
        Ok(match &self.schema {
            Some(schema) => VerifyWith::Schema { schema: schema.clone(), anchors },
            None if anchors.is_empty() => VerifyWith::Nobody,
            None => VerifyWith::Certificates(anchors),
        })
    }

    /// The keys that the flags name, else those of `xylem key trust`.
    pub(crate) fn believe_or_trusted(&self, common: &Common) -> Result<VerifyWith, CommandFailure> {
        let believe = self.believe(common)?;
        if believe != VerifyWith::Nobody {
            return Ok(believe);
        }
        let store = common.store()?;
        if !Trusted::at(&store).list()?.is_empty() {
            return Ok(VerifyWith::Trusted(store));
        }
        Ok(believe)
    }

    /// Whether any flag names a key.
    pub(crate) fn is_given(&self) -> bool {
        self.key.is_some() || self.publisher.is_some() || !self.trust.is_empty()
    }
}
