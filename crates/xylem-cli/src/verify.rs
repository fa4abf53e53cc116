//! `xylem verify PATH TICKET`: compares files on disk with a ticket.

use crate::buckets;
use crate::cli::Common;
use crate::demand::{self, DemandArgs};
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::flags::{FromArgs, TimeoutArgs};
use crate::output::Out;
use crate::output::text::{bytes, clean, count};
use crate::stop;
use crate::values::parse_ticket;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use xylem_base::Stop;
use xylem_check::verify::{Damage, DamageKind, ExtraKind, ExtraPath, Extras, VerifySummary};
use xylem_files::{Existing, Output, SaveOptions};
use xylem_node::{GetError, GetOptions, LinkOptions, VerifyOptions, VersionDialer};
use xylem_object::PublicationKind;
use xylem_witness::ExtendsOptions;

/// Checks a path against a ticket; prints each damaged byte range
///
/// Standard output has one line per damaged place: the path, the bytes from..to (the end is not included), and the kind
/// of damage; and one line for each thing that is there and was not published: files, directories, links, set-uid bits.
/// Nothing is changed. If the store has no tree of the file, peers are asked for it, so that damage can be narrowed
/// down.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem verify film.mkv xylem:...
  xylem verify s3://models/llama xylem:...       what lies in a bucket
  xylem verify photos/ @ticket.txt && echo good
  xylem verify --extends OLD_TICKET NEW_TICKET   is the old checkpoint the new one's beginning?
  xylem verify --extends OLD_TICKET NEW_TICKET --witness w.cert   and has this witness seen it?
  xylem verify --evidence FILE                   two histories, signed by one publisher

",
    exit_help!()
))]
pub(crate) struct VerifyArgs {
    /// The path; with --extends the longer one's ticket
    #[arg(value_name = "PATH|NEW_TICKET", required_unless_present = "evidence")]
    path: Option<PathBuf>,

    /// A ticket (xylem:...), or @FILE or - with one
    ///
    /// Other users of this machine can read a ticket among the arguments, but not one given by @FILE or -.
    #[arg(required_unless_present_any = ["extends", "evidence"], conflicts_with = "extends")]
    ticket: Option<String>,

    /// Check that OLD_TICKET is where NEW_TICKET begins
    ///
    /// A proof from the other's peers shows whether the content of this ticket is the beginning of that of the other
    /// one: nothing of the history is fetched.
    #[arg(long, value_name = "OLD_TICKET")]
    extends: Option<String>,

    /// Ignore what was not published
    #[arg(long, conflicts_with_all = ["extends", "evidence"])]
    allow_extra: bool,

    #[command(flatten)]
    demand: DemandArgs,

    /// Check the evidence in FILE of two histories
    ///
    /// FILE is what `xylem witness` and --extends write. No peer is asked.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["path", "ticket", "extends", "witness"])]
    evidence: Option<PathBuf>,

    #[command(flatten)]
    from: FromArgs,

    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// Runs `xylem verify`.
pub(crate) fn run(
    args: VerifyArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    if let Some(file) = &args.evidence {
        return demand::show_evidence(file, out);
    }
    // The parser requires one of the three.
    let path = args.path.clone().unwrap_or_default();
    if let Some(old) = args.extends.clone() {
        return extends(&args, &old, &path.to_string_lossy(), common, out);
    }
    if args.demand.is_given() {
        let what = "--witness needs --extends; `xylem get --witness` checks what it fetches";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    // The parser requires one without --extends.
    let ticket = parse_ticket(&args.ticket.unwrap_or_default())?;
    let mut path = [path];
    let buckets = buckets::for_paths(&mut path, Some(&ticket), common, out)?;
    let [path] = path;
    let options = VerifyOptions {
        path,
        ticket,
        from: args.from.peers()?,
        give_up: args.timeout.or_seconds(30),
        extras: if args.allow_extra { Extras::Allow } else { Extras::Name },
        store: common.store()?,
        medium: buckets.medium(),
    };
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let is_list =
        |damage: &Damage| damage.path == Path::new("list") && damage.what == DamageKind::Missing;
    let verified =
        match options.path.is_file() && options.ticket.kind == Some(PublicationKind::Directory) {
            true => None,
            false => Some(xylem_node::verify(&options, &stop, &mut |event| out.event(event))),
        };
    out.take_broken()?;
    let summary = verified.transpose()?;
    // The ticket may name the ciphertext of what is here.
    if summary.as_ref().is_none_or(|summary| summary.damage.iter().any(is_list))
        && let Some(decrypted) = decrypted(&options, &stop, out)?
    {
        return report(&decrypted, &options.path, out);
    }
    let mut summary = match summary {
        Some(summary) => summary,
        None => xylem_node::verify(&options, &stop, &mut |event| out.event(event))?,
    };
    if !args.allow_extra {
        let extra = |name: String| ExtraPath { path: name.into(), what: ExtraKind::Object };
        summary.extra.extend(buckets.unlisted(&options.path).into_iter().map(extra));
    }
    report(&summary, &options.path, out)
}

/// Compares with the decrypted publication, if the ticket names one that is encrypted to us and its peers send its list
/// of files.
fn decrypted(
    options: &VerifyOptions,
    stop: &Stop,
    out: &mut Out,
) -> Result<Option<VerifySummary>, CommandFailure> {
    let VerifyOptions { path, ticket, from, give_up, store, .. } = options;
    let manifest = match xylem_node::look(ticket, from, *give_up, stop, &mut |_| {}) {
        Ok((_, manifest)) if manifest.sealed => manifest,
        _ => return Ok(None),
    };
    // Nothing is changed on the disk: this only compares.
    let save = SaveOptions::to(Output::At(path.clone()), Existing::Refuse);
    let fetch = GetOptions {
        from: from.clone(),
        give_up: *give_up,
        ..GetOptions::new(ticket.clone(), save, store.clone())
    };
    let compared = xylem_node::get(&fetch, stop, &mut |_| {});
    out.take_broken()?;
    let (bytes, files, what) = match compared {
        Ok(summary) => (summary.bytes, summary.files, None),
        Err(GetError::Taken(_)) => (0, 0, Some(DamageKind::NotAsEncrypted)),
        Err(e) => return Err(e.into()),
    };
    let place = |what| Damage { path: PathBuf::new(), start: 0, end: 0, what };
    let damage: Vec<Damage> = what.map(place).into_iter().collect();
    let located = damage.is_empty();
    // If there is more than was encrypted, the root differs.
    let extra = Vec::new();
    Ok(Some(VerifySummary { root: manifest.root, bytes, files, damage, extra, located }))
}

fn extends(
    args: &VerifyArgs,
    old: &str,
    new: &str,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let options = ExtendsOptions {
        old: parse_ticket(old)?,
        new: parse_ticket(new)?,
        give_up: args.timeout.or_seconds(30),
        store: common.store()?,
    };
    let (demand, from) = (args.demand.demand(out)?, args.from.peers()?);
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let mut dialling = VersionDialer {
        from: &from,
        relays: &[],
        links: &LinkOptions::default(),
        ask_who_answers: false,
        lan: false,
        wait: false,
        stop: &stop,
        on_event: &mut |event| out.event(event),
    };
    let shown = xylem_witness::extends(&options, demand.as_ref(), &mut dialling);
    out.take_broken()?;
    let summary = shown?;
    let why = summary.why_not.map(|why| why.to_string());
    out.json(&ExtendsRow {
        old_bytes: summary.old_bytes,
        new_bytes: summary.new_bytes,
        proof_bytes: summary.proof_bytes,
        extends: why.is_none(),
        why: why.as_deref(),
        two_histories: summary.split.as_ref().map(|(split, _)| split.to_string()),
        evidence: summary.split.as_ref().map(|(_, path)| path.to_string_lossy().into_owned()),
    })?;
    let (old, new) = (bytes(summary.old_bytes), bytes(summary.new_bytes));
    if let Some(why) = why {
        let bad = out.paint("1;31", "NOT A CONTINUATION");
        out.note(&format!(
            "{bad}: the new version ({new}) does not begin with the old one ({old}): {why}"
        ));
        if let Some((split, path)) = &summary.split {
            let bad = out.paint("1;31", "TWO HISTORIES");
            let path = path.display();
            out.note(&format!(
                "{bad}: {split}; evidence: {path}, which `xylem verify --evidence {path}` shows to anybody"
            ));
        }
        return Ok(Exit::Damaged);
    }
    if let Some(heard) = &summary.witnessed {
        demand::report(heard, out)?;
    }
    let good = out.paint("32", "Verified");
    let proof = bytes(summary.proof_bytes as u64);
    out.note(&format!(
        "{good}: the new version ({new}) begins with the old one ({old}), by a proof of {proof}"
    ));
    Ok(Exit::Done)
}

fn report(summary: &VerifySummary, path: &Path, out: &mut Out) -> Result<Exit, CommandFailure> {
    let whole = |inner: &Path| match inner.as_os_str().is_empty() {
        true => path.to_owned(),
        false => path.join(inner),
    };
    for damage in &summary.damage {
        out.json(damage)?;
        if !out.is_json() {
            let Damage { path: inner, start, end, what } = damage;
            out.line(&clean(&format!("{}: {start}..{end}: {what}", whole(inner).display())))?;
        }
    }
    for extra in &summary.extra {
        out.json(extra)?;
        if !out.is_json() {
            let ExtraPath { path: inner, what } = extra;
            out.line(&clean(&format!("{}: {what}", whole(inner).display())))?;
        }
    }
    out.json(summary)?;
    let what = format!("{} in {}", bytes(summary.bytes), count(summary.files, "file"));
    if summary.is_right() {
        let good = out.paint("32", "Verified");
        out.note(&format!("{good} {what}: it is what the ticket names"));
        return Ok(Exit::Done);
    }
    if summary.damage.is_empty() {
        let bad = out.paint("1;31", "MORE THAN PUBLISHED");
        let extra = count(summary.extra.len() as u64, "thing");
        out.note(&format!(
            "{bad}: {extra} beside {what}, which are what the ticket names; --allow-extra allows that"
        ));
        return Ok(Exit::Damaged);
    }
    let bad = out.paint("1;31", "DAMAGED");
    let places = count(summary.damage.len() as u64, "place");
    out.note(&format!("{bad}: {places}, of {what}"));
    if !summary.located {
        out.note("Without a hash tree the damage cannot be located; --from ADDR names a peer that has one");
    }
    Ok(Exit::Damaged)
}

/// Event of `verify --extends`.
#[derive(Serialize)]
#[serde(tag = "event", rename = "extends")]
struct ExtendsRow<'a> {
    old_bytes: u64,
    new_bytes: u64,
    proof_bytes: usize,
    extends: bool,
    why: Option<&'a str>,
    two_histories: Option<String>,
    evidence: Option<String>,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&ExtendsRow {
            old_bytes: 1,
            new_bytes: 2,
            proof_bytes: 32,
            extends: true,
            why: Some("w"),
            two_histories: Some("t".into()),
            evidence: Some("e".into()),
        });
        let (path, what) = (std::path::PathBuf::new(), DamageKind::Missing);
        let damage = Damage { path, start: 0, end: 1, what };
        assert_documented(&damage);
        let extra = ExtraPath { path: std::path::PathBuf::new(), what: ExtraKind::File };
        assert_documented(&extra);
        let (root, damage, extra) = (xylem_hash::hash(b""), vec![damage], vec![extra]);
        assert_documented(&VerifySummary {
            root,
            bytes: 1,
            files: 1,
            damage,
            extra,
            located: true,
        });
    }
}
