//! `xylem key`: named keys and their certificates.

use crate::cli::Common;
use crate::exit::{Exit, Failure, exit_help};
use crate::output::Out;
use crate::publisher::{self, PublisherRow};
use crate::trusting::TrustArgs;
use clap::{Args, Subcommand};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use xylem_hash::{Hash, Hasher};
use xylem_library::keys::{KeyEntry, KeyKind, Keyring, check_signature, sign_hash};
use xylem_node::wall_clock;
use xylem_trust::Armor;

/// Keys to sign with in NDN, and certificates for them
///
/// A key belongs to a name, its identity, and signs what lies below it. `xylem put --sign
/// key:/alice` signs with it; who gives `--trust` its certificate believes it. Keys and certificates
/// are files that NDNd's `ndnd sec` reads and writes too.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem key new /alice                     a key, with a certificate by itself
  xylem key cert /alice > alice.cert       what others need to believe it
  xylem key cert --by /org /org/alice.cert a certificate that /org's key signs
  xylem key export /alice -o alice.key     the secret, to be kept like one
  xylem key sign SUMS --by /alice > SUMS.sig          for who has /alice's certificate
  xylem key check SUMS SUMS.sig --trust alice.cert    is it so?

",
    exit_help!()
))]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make a key
    New {
        /// Whose key: a name, such as /alice
        identity: String,
        /// ed25519, or ecdsa (P-256) for older NDN software
        #[arg(long = "type", value_name = "TYPE", default_value = "ed25519")]
        kind: KeyKind,
    },
    /// List the keys, and say which publisher `xylem share` signs as (what `--publisher` takes)
    List,
    /// Write a key, secret and all, to a file that only you can read
    Export {
        /// The key, or an identity that has one key
        key: String,
        /// The file; it must not be there yet
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Take in a key, or a certificate that somebody signed for a key of yours
    Import {
        /// The file
        file: PathBuf,
    },
    /// Print a key's certificate, or sign one for somebody else's
    Cert {
        /// The key whose certificate to print; with --by, a file with the certificate that the
        /// other key has so far
        what: String,
        /// Sign with this key of yours
        #[arg(long, value_name = "KEY")]
        by: Option<String>,
        /// Who signs, in a word that becomes part of the certificate's name
        #[arg(long, value_name = "WORD", default_value = "NA", requires = "by")]
        issuer: String,
        /// How long the certificate is valid
        #[arg(long, value_name = "DAYS", default_value = "365", requires = "by")]
        days: u32,
        /// Base64 alone, without the lines around it: what `ndnsec` and older programs read
        #[arg(long)]
        base64: bool,
    },
    /// Print a signature on a file, to be put beside it
    Sign {
        /// The file
        file: PathBuf,
        /// The key, or an identity that has one key
        #[arg(long, value_name = "KEY")]
        by: String,
    },
    /// Check such a signature
    Check {
        /// The file
        file: PathBuf,
        /// What `key sign` printed for it
        signature: PathBuf,
        #[command(flatten)]
        trust: TrustArgs,
    },
}

/// Runs `xylem key`.
pub(crate) fn run(args: KeyArgs, common: &Common, out: &mut Out) -> Result<Exit, Failure> {
    let keyring = Keyring::at(&common.store()?);
    match args.command {
        KeyCommand::New { identity, kind } => {
            show(&keyring.create(&identity, kind, wall_clock())?, out)?
        }
        KeyCommand::List => {
            for entry in keyring.list()? {
                show(&entry, out)?;
            }
            if let Some(own) = publisher::own(&common.store()?)? {
                let key = &own.to_string();
                out.json(&PublisherRow { key })?;
                out.note(&format!("What `xylem share` publishes here is signed by {key}"));
            }
        }
        KeyCommand::Export { key, output } => {
            keyring.export_to(&key, &output)?;
            out.note(&format!(
                "{} holds the secret key: whoever reads it can sign as you",
                output.display()
            ));
        }
        KeyCommand::Import { file } => show(&keyring.import(&file, wall_clock())?, out)?,
        KeyCommand::Cert { what, by, issuer, days, base64 } => {
            let text = match by {
                None => keyring.certificate(&what)?,
                Some(by) => {
                    keyring.certify(&by, &PathBuf::from(what), &issuer, days, wall_clock())?
                }
            };
            let text = if base64 { Armor::bare(&text) } else { text };
            out.bytes(text.as_bytes())?;
        }
        KeyCommand::Sign { file, by } => {
            let text = sign_hash(&keyring, &by, &hash(&file)?, wall_clock())?;
            out.bytes(text.as_bytes())?;
        }
        KeyCommand::Check { file, signature, trust } => {
            let believe = trust.believe(common)?;
            let by = check_signature(&hash(&file)?, &signature, &believe, wall_clock())?;
            if out.is_json() {
                out.json(&by)?;
            } else {
                out.line(&format!("{}: signed by {}", file.display(), by.identity))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// What `xylem sum` prints for a file.
fn hash(path: &Path) -> Result<Hash, Failure> {
    let cannot =
        |e: io::Error| Failure::new(Exit::Usage, format!("cannot read {}: {e}", path.display()));
    let mut hasher = Hasher::new();
    io::copy(&mut File::open(path).map_err(cannot)?, &mut hasher).map_err(cannot)?;
    Ok(hasher.finalize())
}

fn show(entry: &KeyEntry, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(entry);
    }
    out.line(&format!("{}  {}", entry.name, entry.algorithm))
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;
    use xylem_library::keys::SignedBy;
    use xylem_packet::Name;

    #[test]
    fn rows_are_documented() {
        assert_documented(&KeyEntry {
            name: Name::from_uri("/a/KEY/1").expect("is a name"),
            algorithm: "x",
            certificate: None,
            valid_until_ms: None,
        });
        assert_documented(&SignedBy {
            identity: Name::from_uri("/a").expect("is a name"),
            hash: String::new(),
            time_ms: 0,
        });
    }
}
