//! The flags that say whose packets are believed.

use clap::Args;
use std::path::PathBuf;
use xylem_node::client::{Believe, KeyFile};

/// Whom to believe.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Believe what this key signed: hmac:FILE, blake3-keyed:FILE (secrets), ed25519:FILE or
    /// ecdsa:FILE (public keys)
    #[arg(long, value_name = "TYPE:FILE")]
    key: Option<KeyFile>,

    /// Believe what this publisher signed: 64 hexadecimal digits, an Ed25519 key
    #[arg(long, value_name = "HEXKEY", conflicts_with = "key")]
    publisher: Option<String>,

    /// Believe what the key of this NDN certificate signed under its owner's name; can be repeated
    #[arg(long, value_name = "CERT", conflicts_with_all = ["key", "publisher"])]
    trust: Vec<PathBuf>,
}

impl TrustArgs {
    /// Whom the flags name.
    pub(crate) fn believe(&self) -> Believe {
        if let Some(key) = &self.key {
            return Believe::Key(key.clone());
        }
        if let Some(publisher) = &self.publisher {
            return Believe::Publisher(publisher.clone());
        }
        match self.trust.is_empty() {
            true => Believe::Nobody,
            false => Believe::Certificates(self.trust.clone()),
        }
    }
}
