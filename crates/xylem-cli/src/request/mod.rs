//! `xylem ndn request`: gets a certificate for a key of ours from a certificate authority (NDNCERT).

mod asking;
mod typed;

use crate::ca::parse_kind;
use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::peek::AtArgs;
use crate::stop;
use asking::{LookupClient, RequestClient};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use typed::Typed;
use xylem_app::{Client, VerifyWith as Whom, parse_name};
use xylem_client::{Driver, verify_with_chain};
use xylem_hash::Hash;
use xylem_keys::{KeyKind, Keyring, Trusted};
use xylem_ndncert::{
    CaProfile, CertificateRequest, ChallengeChoice, ChallengeKind, Derivation, ErrorCode, Lookup,
    ProfileTrust, Proof, RequestError, RequestState,
};
use xylem_node::wall_clock;
use xylem_packet::{Name, NameRef};
use xylem_trust::{Certificate, Moment, TrustPolicy, TrustStore};

const DAY_MS: u64 = 86_400_000;

/// Gets a certificate for a key of yours from a certificate authority
///
/// The authority is a `xylem ndn ca`, or another program that speaks NDNCERT 0.3. It asks for a proof: a code from its
/// operator, a code that comes by email, or a certificate that is still valid.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem ndn request /org --name /org/alice --ca org.cert   asks for a code
  xylem ndn request /org --name /org/al@x.org --email al@x.org   by email
  xylem ndn request /org --name /org/alice --challenge possession --ca org.cert

",
    exit_help!()
))]
pub(crate) struct RequestArgs {
    /// The CA's prefix, such as /org
    #[arg(value_name = "CA")]
    prefix: String,

    /// The name to certify
    ///
    /// A key is made for it if there is none. It may be the whole name of a key of yours.
    #[arg(long, value_name = "NAME")]
    name: String,

    /// The kind of a new key
    ///
    /// ed25519, or ecdsa (P-256) for older NDN software.
    #[arg(long = "type", value_name = "TYPE", default_value = "ed25519")]
    kind: KeyKind,

    /// The proof to give: pin, email or possession
    ///
    /// pin is a code from the CA's operator, possession that of a certificate. [default: pin; email with --email,
    /// possession with --with]
    ///
    /// If the CA is a `xylem ndn ca`, a proof of possession is good at this CA, for this request and key alone. Other CAs
    /// get a signature over a number that they choose, and nothing else. Such a CA can use it to ask a third CA, where
    /// your certificate is accepted, for a certificate of your name and its own key. A warning precedes such a proof;
    /// pin and email have no such weakness.
    #[arg(long, value_name = "HOW", value_parser = parse_kind)]
    challenge: Option<ChallengeKind>,

    /// Get the code by email to this address
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,

    /// With possession: the key whose certificate is the proof [default: the one that is to be certified]
    #[arg(long = "with", value_name = "KEY", conflicts_with = "email")]
    with: Option<String>,

    /// Trust the CA with this certificate
    ///
    /// Or one that the certificate's key has certified. [default: the keys of `xylem key trust`]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Trust the CA whose certificate has this SHA-256
    ///
    /// `xylem ndn ca` prints it.
    #[arg(long, value_name = "DIGEST", conflicts_with = "ca", value_parser = parse_digest)]
    ca_digest: Option<[u8; 32]>,

    /// How long the certificate should be valid [default: as long as the CA allows]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    days: Option<u32>,

    #[command(flatten)]
    at: AtArgs,
}

fn parse_digest(text: &str) -> Result<[u8; 32], String> {
    let hash = Hash::from_hex(text.to_ascii_lowercase());
    hash.map(|hash| *hash.as_bytes()).map_err(|_| "expected 64 hexadecimal digits".to_owned())
}

fn usage(why: impl ToString) -> CommandFailure {
    CommandFailure::new(Exit::Usage, why.to_string())
}

fn now_ms() -> u64 {
    wall_clock().milliseconds()
}

/// Runs `xylem ndn request`.
pub(crate) fn run(
    args: RequestArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let prefix = parse_name(&args.prefix)?;
    let which = args.name.strip_prefix("key:").unwrap_or(&args.name);
    let (store, wanted) = (common.store()?, parse_name(which)?);
    if !prefix.as_ref().is_prefix_of(wanted.as_ref()) || wanted.len() == prefix.len() {
        return Err(usage(format!("--name {wanted} is not below {prefix}, the prefix of the CA")));
    }
    let keyring = Keyring::at(&store);
    let kind = challenge(&args)?;
    let mut trust = CaTrust::of(&args, &store)?;
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let mut client = Client::connect(args.at.at.as_ref(), &stop)?;
    out.note(&format!("looking for the CA of {prefix} through {}", client.at()));
    let mut looking = LookupClient(Lookup::new(prefix.clone()));
    client.finish(&mut looking)?;
    let profile = looking.0.take().unwrap_or(Err(RequestError::Silent("INFO"))).map_err(failed)?;
    trust.judge(&mut client, &profile)?;

    // Make no key before the CA is known to be the right one.
    let key = match keyring.entry_of(which)? {
        Some(key) => key,
        None => keyring.create(which, args.kind, wall_clock())?,
    };
    let key = key.name.to_string();
    let until = args.days.map_or(u64::MAX, |days| now_ms() + u64::from(days) * DAY_MS);
    let (signer, seed) = (keyring.signer(&key)?, xylem_base::random()?);
    let request = CertificateRequest::new(profile, trust.believe(), signer, until, now_ms(), seed);
    let mut asking = RequestClient::new(request.map_err(failed)?);
    let mut typed = Typed::new(stop);
    loop {
        client.finish(&mut asking)?;
        let request = &mut asking.request;
        match request.state() {
            RequestState::Waiting => {}
            RequestState::Choose(offered) => {
                if !offered.iter().any(|name| ChallengeKind::of(name) == Some(kind)) {
                    let (has, none) = (offered.join(", "), kind.name());
                    return Err(usage(format!(
                        "the CA of {prefix} has no challenge {none}; --challenge takes {has}"
                    )));
                }
                if kind == ChallengeKind::Possession && request.proof() == Proof::Bare {
                    out.warn(&format!(
                        "the CA of {prefix} does not bind proofs of possession to itself: it can pass this one off as its own \
                         at another CA that takes such proofs"
                    ));
                }
                let choice = choice(&args, kind, &keyring, &key)?;
                request.choose(choice, now_ms(), xylem_base::random()?).map_err(failed)?;
            }
            RequestState::Code { wrong, tries, until_ms } => {
                let code = typed.code(&WantedCode { kind, wrong, tries, until_ms }, out)?;
                request.code(&code, now_ms(), xylem_base::random()?).map_err(failed)?;
            }
            RequestState::Done(wire) => {
                let wire = wire.to_vec();
                install(&keyring, &wire, request.derivation(), &prefix, out)?;
                return Ok(Exit::Done);
            }
            RequestState::Failed(why) => return Err(failed(why.clone())),
        }
    }
}

/// The challenge that the flags select.
fn challenge(args: &RequestArgs) -> Result<ChallengeKind, CommandFailure> {
    let meant = match (&args.email, &args.with) {
        (Some(_), _) => Some(ChallengeKind::Email),
        (_, Some(_)) => Some(ChallengeKind::Possession),
        _ => None,
    };
    match (args.challenge, meant) {
        (Some(ChallengeKind::Email), None) => Err(usage("--challenge email needs --email ADDRESS")),
        (Some(said), Some(meant)) if said != meant => {
            let flag = if meant == ChallengeKind::Email { "--email" } else { "--with" };
            Err(usage(format!("{flag} does not go with --challenge {}", said.name())))
        }
        (said, meant) => Ok(said.or(meant).unwrap_or(ChallengeKind::Pin)),
    }
}

fn choice(
    args: &RequestArgs,
    kind: ChallengeKind,
    keyring: &Keyring,
    key: &str,
) -> Result<ChallengeChoice, CommandFailure> {
    Ok(match kind {
        ChallengeKind::Pin => ChallengeChoice::Pin,
        ChallengeKind::Email => ChallengeChoice::Email(args.email.clone().unwrap_or_default()),
        ChallengeKind::Possession => {
            let with = args.with.as_deref().unwrap_or(key);
            let with = with.strip_prefix("key:").unwrap_or(with);
            let certificate = keyring.certificate(with)?;
            ChallengeChoice::Possession { certificate, signer: Box::new(keyring.signer(with)?) }
        }
    })
}

/// Which CA to trust. A CA is never trusted merely because it is the only one that answers.
enum CaTrust {
    Digest([u8; 32]),
    Store(Box<TrustStore>),
}

impl CaTrust {
    fn of(args: &RequestArgs, store: &Path) -> Result<Self, CommandFailure> {
        if let Some(digest) = args.ca_digest {
            return Ok(Self::Digest(digest));
        }
        let whom = match &args.ca {
            Some(file) => Whom::Certificates(vec![file.clone()]),
            None if Trusted::at(store).list()?.is_empty() => {
                let prefix = &args.prefix;
                return Err(usage(format!(
                    "no trusted key for the CA of {prefix}: give --ca FILE (its certificate) or \
                     --ca-digest DIGEST (which `xylem ndn ca` prints), or trust it (`xylem key trust FILE`)"
                )));
            }
            None => Whom::Trusted(store.to_path_buf()),
        };
        match whom.policy()? {
            TrustPolicy::Anchors(store) => Ok(Self::Store(Box::new(store))),
            _ => Err(usage("a CA is verified by certificates only")),
        }
    }

    /// Checks that this is the CA to trust; fetches the certificates that this needs.
    fn judge(&mut self, client: &mut Client, profile: &CaProfile) -> Result<(), CommandFailure> {
        let digest = Hash::from_bytes(profile.digest());
        let why = match self {
            Self::Digest(wanted) if *wanted == profile.digest() => None,
            Self::Digest(_) => Some("the digest differs from --ca-digest".to_owned()),
            Self::Store(store) => {
                let own = Certificate::decode(&profile.info().certificate).map_err(usage)?;
                verify_with_chain(client, store, own.data())?.err().map(|why| why.to_string())
            }
        };
        let prefix = &profile.info().prefix;
        why.map_or(Ok(()), |why| {
            let message = format!(
                "the CA of {prefix} that answers, with digest {digest}, is not trusted: {why}"
            );
            Err(CommandFailure::new(Exit::Damaged, message))
        })
    }

    fn believe(&self) -> ProfileTrust<'_> {
        match self {
            Self::Digest(digest) => ProfileTrust::Digest(*digest),
            Self::Store(store) => ProfileTrust::Store(store),
        }
    }
}

/// Turns an error of a request into a failure with its exit code.
fn failed(why: RequestError) -> CommandFailure {
    let exit = match &why {
        RequestError::Silent(_) => Exit::Unreachable,
        RequestError::Refused { code, .. } => match *code {
            ErrorCode::OUT_OF_TIME => Exit::Unreachable,
            ErrorCode::NAME_NOT_ALLOWED | ErrorCode::BAD_VALIDITY_PERIOD => Exit::Usage,
            _ => Exit::Damaged,
        },
        RequestError::NoKey | RequestError::Name(..) | RequestError::TooLong => Exit::Usage,
        _ => Exit::Damaged,
    };
    CommandFailure::new(exit, why.to_string())
}

/// A code that the user has to type.
struct WantedCode {
    kind: ChallengeKind,
    wrong: bool,
    tries: u64,
    until_ms: u64,
}

fn install(
    keyring: &Keyring,
    wire: &[u8],
    derivation: Derivation,
    ca: &Name,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let certificate = Certificate::decode(wire).map_err(usage)?;
    keyring.install(&certificate, Path::new("the certificate"))?;
    let derivation = match derivation {
        Derivation::Blake3 => "blake3",
        Derivation::HkdfSha256 => "hkdf-sha256",
    };
    let (name, until) = (certificate.name(), certificate.validity().not_after_ms);
    tell(name, until, derivation, ca, out)
}

fn tell(
    name: NameRef<'_>,
    until: u64,
    derivation: &str,
    ca: &Name,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let (certificate, ca) = (&*name.to_string(), &*ca.to_string());
    if out.is_json() {
        let valid_until_ms = until;
        return out.json(&CertifiedRow { certificate, ca, valid_until_ms, derivation });
    }
    out.detail(&format!("the session's key was derived by {derivation}"));
    out.line(certificate)?;
    out.note(&format!(
        "certified by the CA of {ca} until {}; `xylem ndn request … --challenge possession` renews it",
        Moment(until)
    ));
    Ok(())
}

/// Event: the certificate is there.
#[derive(Serialize)]
#[serde(tag = "event", rename = "certified")]
struct CertifiedRow<'a> {
    certificate: &'a str,
    ca: &'a str,
    valid_until_ms: u64,
    derivation: &'a str,
}

/// Event: a code is expected on standard input.
#[derive(Serialize)]
#[serde(tag = "event", rename = "code_wanted")]
struct CodeWantedRow<'a> {
    challenge: &'a str,
    wrong: bool,
    tries: u64,
    until_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        let (certificate, ca, derivation) = ("/a", "/a", "blake3");
        assert_documented(&CertifiedRow { certificate, ca, valid_until_ms: 1, derivation });
        assert_documented(&CodeWantedRow { challenge: "pin", wrong: false, tries: 3, until_ms: 1 });
    }

    #[test]
    fn digests() {
        assert_eq!(parse_digest(&"0A".repeat(32)), Ok([10; 32]));
        for bad in ["", "0a", &"0a".repeat(33), &"0g".repeat(32)] {
            assert!(parse_digest(bad).is_err(), "{bad}");
        }
    }
}
