//! `xylem key`: named keys and their certificates.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::inbox::{self, CardRow};
use crate::output::Out;
use crate::passphrase;
use crate::peek::AtArgs;
use crate::publisher::{self, PublisherRow};
use crate::put::PublishedRow;
use crate::stop;
use crate::trusting::TrustArgs;
use clap::{Args, Subcommand};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use xylem_app::{Client, SignWith};
use xylem_client::{Certificates, Driver, register};
use xylem_hash::{Hash, Hasher};
use xylem_keys::{
    IssueTerms, KeyEntry, KeyKind, Keyring, Trusted, TrustedEntry, certificate, check_signature,
    reseal, schema, sign_hash, signer,
};
use xylem_node::wall_clock;
use xylem_packet::Name;
use xylem_trust::{Armor, Certificate, Moment};

/// Makes and lists keys to sign with, and certificates for them
///
/// A key belongs to a name, its identity, and signs what lies below it. `xylem ndn put --sign key:/alice` signs with it; a
/// program that gets its certificate by `--trust` accepts these signatures. Keys and certificates are files that NDNd's
/// `ndnd sec` reads and writes, too; keys under a passphrase are exported as SafeBags, which `ndnsec` reads and writes.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem key new /alice                        a key and its own certificate
  xylem key cert /alice > alice.cert          what others need to believe it
  xylem key cert --by /org alice.cert         a certificate signed by /org
  xylem key trust org.cert /org/news          believe /org's key, for names below /org/news
  xylem key serve                             answer for certificates, which others follow
  xylem key passphrase /alice                 from now on it is asked for
  xylem key export /alice -o alice.key        the secret, to be kept like one
  xylem key sign SUMS --by /alice > SUMS.sig  for holders of /alice's certificate
  xylem key check SUMS SUMS.sig --trust alice.cert   is it so?

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
        /// The name that the key belongs to, such as /alice
        identity: String,
        /// ed25519, or ecdsa (P-256) for older NDN software
        #[arg(long = "type", value_name = "TYPE", default_value = "ed25519")]
        kind: KeyKind,
        /// Keep it encrypted under a passphrase, which is asked for (or read from --passphrase-file)
        #[arg(long)]
        passphrase: bool,
    },
    /// List the keys and the trusted ones
    ///
    /// The list has all values that options of other verbs need.
    ///
    /// For each key: its name (`--sign key:NAME`), its certificate, the certificate's digest (`--ca-digest`, if it is a
    /// CA's), its fingerprint, and the public half of an Ed25519 key (what `--key ed25519:FILE` reads in a file). For
    /// this store: the publisher that `xylem share` signs as (`--publisher`), and the card (`--for`), if they exist:
    /// the first `share` or `inbox card` makes them.
    List,
    /// Give a key a passphrase, or another one
    Passphrase {
        /// The key, or an identity that has one key; `publisher`: the key that `xylem share` signs with
        key: String,
        /// Read the new passphrase from the first line of this file instead of asking
        #[arg(long, value_name = "FILE")]
        new_passphrase_file: Option<PathBuf>,
        /// Keep the key without a passphrase again
        #[arg(long, conflicts_with = "new_passphrase_file")]
        no_passphrase: bool,
    },
    /// Write a key, secret and all, to a file
    ///
    /// Only you can read the file. A key under a passphrase is written as a SafeBag.
    Export {
        /// The key, or an identity that has one key
        key: String,
        /// The file; it must not be there yet
        #[arg(short, long, value_name = "PATH")]
        output: PathBuf,
        /// Write a SafeBag, as `ndnsec import` reads it, although the key has no passphrase here; the passphrase for
        /// the file is asked for (or read from --passphrase-file)
        #[arg(long)]
        safebag: bool,
    },
    /// Import a key, a SafeBag or a certificate
    ///
    /// The certificate is one that another key's owner signed for a key of yours.
    Import {
        /// The file: as NDN programs write it, or an Ed25519 or P-256 private key as OpenSSL does (PKCS #8, SEC 1)
        file: PathBuf,
        /// The name that the key belongs to, such as /alice: needed if the file does not contain it, as OpenSSL's
        #[arg(long, value_name = "NAME")]
        identity: Option<String>,
        /// FILE is a certificate; take its key from this directory of ndn-cxx or python-ndn (~/.ndn/ndnsec-key-file)
        #[arg(long, value_name = "DIR", conflicts_with = "identity")]
        tpm: Option<PathBuf>,
    },
    /// Delete a key for good, with its certificate
    Delete {
        /// The whole name of the key, as `xylem key list` prints it
        key: String,
    },
    /// Print a key's certificate, or sign one for another person's key
    Cert {
        /// The key whose certificate to print; with --by, a file with the present certificate of the other key
        what: String,
        /// Sign with this key of yours
        #[arg(long, value_name = "KEY")]
        by: Option<String>,
        /// The issuer, in a word that becomes part of the certificate's name
        #[arg(long, value_name = "WORD", default_value = "NA", requires = "by")]
        issuer: String,
        /// How long the certificate is valid
        #[arg(long, value_name = "DAYS", default_value = "365", requires = "by")]
        days: u32,
        /// Sign what this trust schema (`xylem ndn schema`) allows; without it, names below the key's owner alone
        #[arg(long, value_name = "FILE", requires = "by")]
        schema: Option<PathBuf>,
        /// Print base64 alone, as ndnsec, NDNts and python-ndn read it, without PEM lines
        #[arg(long)]
        base64: bool,
    },
    /// Trust a key for names below a prefix
    ///
    /// It trusts the keys that this one certifies, too: `get NAME` then needs no `--trust`.
    Trust {
        /// A file with the key's certificate, or a key of yours
        what: String,
        /// The prefix; if not given, the name of the key's owner
        prefix: Option<String>,
    },
    /// Trust a key no longer
    Untrust {
        /// The certificate, key or owner, as `xylem key list` prints it
        what: String,
        /// For this prefix only
        prefix: Option<String>,
    },
    /// Serve certificates until Ctrl-C
    ///
    /// Programs that fetch what their keys signed follow them to a key that they trust.
    Serve {
        /// Files with certificates, and keys of yours [default: the certificates of all your keys]
        what: Vec<String>,
        /// Sign the registrations with this key, or a digest, as `ndn put`
        #[arg(long, value_name = "KEY", default_value = "digest-sha256")]
        sign: SignWith,
        #[command(flatten)]
        at: AtArgs,
    },
    /// Print a signature on a file, to be put beside it
    Sign {
        /// The file
        file: PathBuf,
        /// The key, or an identity that has one key
        #[arg(long, value_name = "KEY")]
        by: String,
    },
    /// Check a signature of `key sign`
    Check {
        /// The file
        file: PathBuf,
        /// The signature that `key sign` printed
        signature: PathBuf,
        #[command(flatten)]
        trust: TrustArgs,
    },
}

/// Runs `xylem key`.
pub(crate) fn run(args: KeyArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let keyring = Keyring::at(&common.store()?);
    match args.command {
        KeyCommand::New { identity, kind, passphrase } => {
            let passphrase = match passphrase {
                true => Some(passphrase::new(
                    &identity,
                    common.passphrase_file.as_ref(),
                    passphrase::FLAG,
                )?),
                false => None,
            };
            let under = passphrase.as_ref().map(|bytes| bytes.as_slice());
            show(&keyring.create_under(&identity, kind, under, wall_clock())?, out)?
        }
        KeyCommand::List => list(&keyring, &common.store()?, out)?,
        KeyCommand::Passphrase { key, new_passphrase_file, no_passphrase } => {
            let passphrase = match no_passphrase {
                true => None,
                false => {
                    let flag = "--new-passphrase-file FILE";
                    Some(passphrase::new(&key, new_passphrase_file.as_ref(), flag)?)
                }
            };
            let under = passphrase.as_ref().map(|bytes| bytes.as_slice());
            if key == "publisher" {
                let path = common.store()?.join("keys").join("publisher");
                reseal(&path, under, wall_clock())?;
                let word = if no_passphrase { "removed" } else { "set" };
                out.note(&format!("{}: the passphrase is {word}", path.display()));
            } else {
                show(&keyring.reseal(&key, under, wall_clock())?, out)?;
            }
        }
        KeyCommand::Export { key, output, safebag } => {
            let passphrase = match safebag {
                true => {
                    Some(passphrase::new(&key, common.passphrase_file.as_ref(), passphrase::FLAG)?)
                }
                false => None,
            };
            let under = passphrase.as_ref().map(|bytes| bytes.as_slice());
            let file = output.display();
            out.note(&match keyring.export_to(&key, under, &output, wall_clock())? {
                true => {
                    format!(
                        "{file} is a SafeBag: whoever has it and its passphrase can sign as you"
                    )
                }
                false => format!("{file} holds the secret key: whoever reads it can sign as you"),
            });
        }
        KeyCommand::Import { file, tpm: Some(tpm), .. } => {
            show(&keyring.import_from_tpm(&file, &tpm, wall_clock())?, out)?;
        }
        KeyCommand::Import { file, identity, tpm: None } => {
            show(&keyring.import(&file, identity.as_deref(), wall_clock())?, out)?;
        }
        KeyCommand::Delete { key } => {
            let name = keyring.delete(&key)?;
            out.note(&format!("{name} is deleted"));
        }
        KeyCommand::Cert { what, by, issuer, days, schema: file, base64 } => {
            let wire = match by {
                None => keyring.certificate(&what)?,
                Some(by) => {
                    let rules = file.map(|file| schema(&file)).transpose()?;
                    let terms = IssueTerms { issuer: &issuer, days, schema: rules.as_ref() };
                    keyring.certify(&by, &PathBuf::from(what), &terms, wall_clock())?
                }
            };
            let text = match base64 {
                true => Armor::bare(&wire),
                false => {
                    let name = Certificate::decode(&wire).map(|c| c.name().to_string());
                    Armor::Certificate.encode(&name.unwrap_or_default(), &wire)
                }
            };
            out.bytes(text.as_bytes())?;
        }
        KeyCommand::Trust { what, prefix } => {
            let wire = certificate_of(&keyring, &what)?;
            let entry = Trusted::at(&common.store()?).add(&wire, prefix.as_deref())?;
            show_trusted(&entry, out)?;
        }
        KeyCommand::Untrust { what, prefix } => {
            for entry in Trusted::at(&common.store()?).remove(&what, prefix.as_deref())? {
                match entry.prefixes.is_empty() {
                    true => out.note(&format!("{} is no longer trusted", entry.certificate)),
                    false => show_trusted(&entry, out)?,
                }
            }
        }
        KeyCommand::Serve { what, sign, at } => {
            serve(certificates(&keyring, &what)?, &sign, &at, common, out)?;
        }
        KeyCommand::Sign { file, by } => {
            let text = sign_hash(&keyring, &by, &hash(&file)?, wall_clock())?;
            out.bytes(text.as_bytes())?;
        }
        KeyCommand::Check { file, signature, trust } => {
            let believe = trust.believe_or_trusted(common)?;
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

/// The certificate in a file, or of a key of the keyring.
fn certificate_of(keyring: &Keyring, what: &str) -> Result<Vec<u8>, CommandFailure> {
    Ok(match Path::new(what).is_file() {
        true => certificate(Path::new(what))?,
        false => keyring.certificate(what)?,
    })
}

/// The certificates that `what` names; without names, all in the keyring.
fn certificates(keyring: &Keyring, what: &[String]) -> Result<Vec<Vec<u8>>, CommandFailure> {
    if !what.is_empty() {
        return what.iter().map(|what| certificate_of(keyring, what)).collect();
    }
    let entries = keyring.list()?.into_iter().filter(|entry| entry.certificate.is_some());
    let all: Vec<_> = entries
        .map(|entry| keyring.certificate(&entry.name.to_string()))
        .collect::<Result<_, _>>()?;
    if all.is_empty() {
        return Err(CommandFailure::new(
            Exit::Usage,
            "there are no named keys here; `xylem key new /NAME` makes one",
        ));
    }
    Ok(all)
}

fn serve(
    certificates: Vec<Vec<u8>>,
    sign: &SignWith,
    at: &AtArgs,
    common: &Common,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let signer = signer(sign, &common.store()?, &Name::default())?;
    let mut client = Client::connect(at.at.as_ref(), &stop)?;
    for wire in &certificates {
        let Ok(certificate) = Certificate::decode(wire) else { continue };
        register(&mut client, certificate.key_name(), &signer)?;
        let (name, bytes) = (&certificate.name().to_string(), wire.len() as u64);
        match out.is_json() {
            true => out.json(&PublishedRow { name, segments: None, bytes })?,
            false => out.line(name)?,
        }
    }
    client.run(&mut Certificates::new(certificates))?;
    Ok(())
}

/// The hash that `xylem sum` prints for a file.
fn hash(path: &Path) -> Result<Hash, CommandFailure> {
    let cannot = |e: io::Error| {
        CommandFailure::new(Exit::Usage, format!("cannot read {}: {e}", path.display()))
    };
    let mut hasher = Hasher::new();
    io::copy(&mut File::open(path).map_err(cannot)?, &mut hasher).map_err(cannot)?;
    Ok(hasher.finalize())
}

/// Lists all values that options of other verbs need.
fn list(keyring: &Keyring, store: &Path, out: &mut Out) -> Result<(), CommandFailure> {
    let entries = keyring.list()?;
    for entry in &entries {
        show(entry, out)?;
        if out.is_json() {
            continue;
        }
        if let (Some(certificate), Some(until)) = (&entry.certificate, entry.valid_until_ms) {
            out.line(&format!("    certificate {certificate}"))?;
            out.line(&format!("    valid until {}", Moment(until)))?;
        }
        if let Some(digest) = &entry.digest {
            out.line(&format!("    digest {digest}"))?;
        }
        out.line(&format!("    fingerprint {}", entry.fingerprint))?;
        if let Some(public) = &entry.public {
            out.line(&format!("    public {public}"))?;
        }
    }
    if entries.is_empty() {
        out.note("No named keys here; `xylem key new /NAME` makes one");
    }
    for entry in Trusted::at(store).list()? {
        show_trusted(&entry, out)?;
    }
    let own = publisher::own(store)?;
    if let Some(card) = inbox::own_card(store)? {
        match out.is_json() {
            true => out.json(&CardRow { card: &card })?,
            false => out.line(&format!("card {card}"))?,
        }
    } else if own.is_some() {
        out.note("`xylem inbox card` prints the card that --for takes");
    }
    match own {
        None => out.note(
            "No publisher and no card yet: the first `xylem share`, or `xylem inbox card`, makes the keys for both",
        ),
        Some(own) => {
            let key = &own.to_string();
            out.json(&PublisherRow { key })?;
            out.note(&format!("What `xylem share` publishes here is signed by {key}"));
        }
    }
    Ok(())
}

fn show(entry: &KeyEntry, out: &mut Out) -> Result<(), CommandFailure> {
    if out.is_json() {
        return out.json(entry);
    }
    let encrypted = if entry.encrypted { "  encrypted" } else { "" };
    out.line(&format!("{}  {}{encrypted}", entry.name, entry.algorithm))
}

fn show_trusted(entry: &TrustedEntry, out: &mut Out) -> Result<(), CommandFailure> {
    if out.is_json() {
        return out.json(entry);
    }
    let (prefixes, until) = (entry.prefixes.join(" "), Moment(entry.valid_until_ms));
    out.line(&format!("trusted for {prefixes}: {} until {until}", entry.certificate))
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;
    use xylem_keys::SignedBy;

    #[test]
    fn rows_are_documented() {
        assert_documented(&KeyEntry {
            name: Name::from_uri("/a/KEY/1").expect("is a name"),
            algorithm: "x",
            encrypted: false,
            fingerprint: String::new(),
            certificate: None,
            digest: None,
            valid_until_ms: None,
            public: None,
        });
        assert_documented(&TrustedEntry {
            certificate: Name::from_uri("/a/KEY/1/self/v=1").expect("is a name"),
            prefixes: Vec::new(),
            valid_until_ms: 0,
        });
        assert_documented(&SignedBy {
            identity: Name::from_uri("/a").expect("is a name"),
            hash: String::new(),
            time_ms: 0,
        });
    }
}
