//! `xylem ndn ca`: a certificate authority (NDNCERT). It certifies the key of a client that proves its identity.

#[cfg_attr(not(feature = "smtp"), path = "no_mail.rs")]
mod mail;
mod mail_args;
mod serving;

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::peek::AtArgs;
use crate::share::parse_identity;
use crate::stop;
use clap::Args;
use mail::Mailer;
use mail_args::MailArgs;
use serde::Serialize;
use serving::CaServing;
use std::path::PathBuf;
use std::sync::Arc;
use xylem_app::{Client, parse_name};
use xylem_client::{Driver, register};
use xylem_hash::Hash;
use xylem_keys::{Issued, Keyring, schema};
use xylem_ndncert::{CaConfig, CertificateAuthority, ChallengeKind, StandardPolicy};
use xylem_node::wall_clock;
use xylem_packet::{Name, NameRef};
use xylem_trust::{
    Certificate, HierarchyRules, Moment, PrefixRules, Signer, TrustRules, TrustStore, Verifier,
};

const DAY_MS: u64 = 86_400_000;

/// Runs a certificate authority (NDNCERT 0.3)
///
/// A client, `xylem ndn request`, passes one of the challenges that are allowed: a code that is printed here and that
/// you pass on (pin), a code that comes by email (email), or a certificate of this CA that is still valid (possession:
/// renewal). The CA keeps the certificates that it issues in the store and serves them, also in later runs. Other
/// programs can request certificates, too: ndnd, and NDNts if the CA's key is of P-256 (`xylem key new --type ecdsa`).
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem key new /org                     once: the key that it signs with
  xylem ndn ca /org                      shows codes, renews old certificates
  xylem ndn ca /org --accept /org/staff  for names below /org/staff alone
  xylem ndn ca /org --challenge email --smtp mail.example.org --smtp-from ca@example.org
                                         who reads al@example.org gets /org/al@example.org, and
                                         /org/org/example/_user/al

",
    exit_help!()
))]
pub(crate) struct CaArgs {
    /// Certify names below this one, and answer below PREFIX/CA
    prefix: String,

    /// Sign with this key: key:NAME [default: the one of PREFIX]
    ///
    /// It is one of `xylem key`.
    #[arg(long, value_name = "KEY", value_parser = parse_identity)]
    sign: Option<String>,

    /// Challenges that are allowed
    ///
    /// pin, email and possession; one of them is enough.
    #[arg(long, value_name = "HOW", value_delimiter = ',', default_value = "pin,possession", value_parser = parse_kind)]
    challenge: Vec<ChallengeKind>,

    /// Accept proofs of possession that are bound to nothing, as NDNts and the C++ client make them. Another CA that
    /// such a program contacts can then get a certificate here in the program's name
    #[arg(long)]
    bare_proofs: bool,

    /// Certify only names below this one
    ///
    /// It is below PREFIX; can be repeated.
    #[arg(long, value_name = "NAME", conflicts_with = "schema")]
    accept: Vec<String>,

    /// Certify what this trust schema (`xylem ndn schema`) lets the CA's certificate sign
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,

    /// How long certificates are valid at most; none outlives the CA's own
    #[arg(long, value_name = "DAYS", default_value = "30", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,

    /// The description in the CA's profile
    #[arg(long, value_name = "TEXT", default_value = "")]
    info: String,

    #[command(flatten)]
    mail: MailArgs,

    #[command(flatten)]
    at: AtArgs,
}

/// Parses a challenge's name.
pub(crate) fn parse_kind(text: &str) -> Result<ChallengeKind, String> {
    ChallengeKind::of(text).ok_or_else(|| "expected pin, email or possession".to_owned())
}

/// The names of challenges, for messages.
fn listed(kinds: &[ChallengeKind]) -> String {
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

fn usage(why: impl ToString) -> CommandFailure {
    CommandFailure::new(Exit::Usage, why.to_string())
}

/// Runs `xylem ndn ca`.
pub(crate) fn run(args: CaArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let prefix = parse_name(&args.prefix)?;
    let store = common.store()?;
    let keyring = Keyring::at(&store);
    let which = args.sign.as_deref().unwrap_or(&args.prefix);
    let key = keyring.entry_of(which)?;
    let key = key.ok_or_else(|| {
        usage(format!(
            "this store has no key of {which} to sign with; `xylem key new {which}` makes one"
        ))
    })?;
    let key = key.name.to_string();
    let own = keyring.certificate(&key)?;
    let certificate = Certificate::decode(&own).map_err(usage)?;
    let now = wall_clock();
    if !certificate.validity().contains(now.milliseconds()) {
        let (name, until) = (certificate.name(), Moment(certificate.validity().not_after_ms));
        return Err(usage(format!(
            "the CA's own certificate, {name}, is not valid now (until {until}): requesters would refuse it"
        )));
    }
    let by_mail = args.challenge.contains(&ChallengeKind::Email);
    let mailer = Mailer::of(args.mail, by_mail, &prefix)?;
    let config = CaConfig {
        info: args.info,
        probe_keys: if by_mail { vec!["email".to_owned()] } else { Vec::new() },
        max_validity_ms: u64::from(args.days) * DAY_MS,
        challenges: args.challenge.clone(),
        bare_proofs: args.bare_proofs,
        ..CaConfig::new(prefix.clone())
    };
    let most = config.limits.issued;
    let rules = rules(&args.accept, args.schema.as_ref(), prefix.as_ref(), &certificate)?;
    let mut believed = TrustStore::new();
    believed.add_anchor_under(&certificate, rules.clone()).map_err(usage)?;
    let policy = Box::new(StandardPolicy::new(rules, believed));
    let signer = || -> Result<Signer, CommandFailure> { Ok(keyring.signer(&key)?) };
    let authority = CertificateAuthority::new(config, signer()?, &own, policy, now.milliseconds());
    let authority = authority.map_err(usage)?;

    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let mut client = Client::connect(args.at.at.as_ref(), &stop)?;
    let commander = signer()?;
    register(&mut client, authority.requests_prefix().as_ref(), &commander)?;
    tell(&prefix, &certificate, &args.challenge, args.days, out)?;

    let issued = Issued::at(&store, &prefix);
    let (kept, unreadable) = issued.load(most, now)?;
    for path in unreadable {
        out.warn(&format!("ignored {}: it contains no certificate", path.display()));
    }
    let at = client.at().to_owned();
    let mut serving = CaServing::new(authority, commander, &at, issued, mailer, out);
    // Serve no certificates that another key of this name has issued.
    let ours = Verifier::of(certificate.public_key()).map_err(usage)?;
    for wire in [own.clone()].into_iter().chain(kept) {
        let Ok(old) = Certificate::decode(&wire) else { continue };
        if wire == own || ours.data(old.data()).is_ok() {
            serving.answer_for(&old);
        }
    }
    client.run(&mut serving)?;
    serving.end()?;
    Ok(Exit::Done)
}

/// The names that the CA may certify.
fn rules(
    accept: &[String],
    file: Option<&PathBuf>,
    prefix: NameRef<'_>,
    own: &Certificate<'_>,
) -> Result<Arc<dyn TrustRules>, CommandFailure> {
    if let Some(file) = file {
        return Ok(Arc::new(schema(file)?));
    }
    if accept.is_empty() {
        return Ok(Arc::new(HierarchyRules));
    }
    let accept: Vec<Name> = accept.iter().map(|name| parse_name(name)).collect::<Result<_, _>>()?;
    if let Some(other) = accept.iter().find(|name| !prefix.is_prefix_of(name.as_ref())) {
        return Err(usage(format!("--accept {other}: it is not below {prefix}")));
    }
    Ok(Arc::new(PrefixRules::new(own.key_name().to_name(), accept)))
}

/// Prints what a client needs to request a certificate.
fn tell(
    prefix: &Name,
    certificate: &Certificate<'_>,
    challenges: &[ChallengeKind],
    days: u32,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let digest = Hash::from_bytes(certificate.data().implicit_digest()).to_string();
    let (prefix, certificate) = (prefix.to_string(), certificate.name().to_string());
    if out.is_json() {
        let challenges: Vec<_> = challenges.iter().map(|kind| kind.name()).collect();
        let (prefix, certificate, digest) = (&*prefix, &*certificate, &*digest);
        return out.json(&CaRow { prefix, certificate, digest, challenges, days });
    }
    out.line(&format!("CA of {prefix}: {}; {days} days at most", listed(challenges)))?;
    out.line(&format!("  certificate {certificate}"))?;
    out.line(&format!("  digest      {digest}"))?;
    out.line(&format!("  xylem ndn request {prefix} --name {prefix}/NAME --ca-digest {digest}"))
}

/// Event: a CA is ready.
#[derive(Serialize)]
#[serde(tag = "event", rename = "ca")]
struct CaRow<'a> {
    prefix: &'a str,
    certificate: &'a str,
    digest: &'a str,
    challenges: Vec<&'a str>,
    days: u32,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        let (prefix, certificate, digest) = ("/a", "/a/KEY/1/self/v=1", "00");
        assert_documented(&CaRow { prefix, certificate, digest, challenges: vec!["pin"], days: 1 });
    }
}
