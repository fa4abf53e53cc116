//! `xylem share PATH...`: serves files and directories from where they are.

use crate::buckets;
use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::AnnounceArgs;
use crate::flags::{AnnouncedArgs, ListenArgs};
use crate::get::peers;
use crate::meter::ShareMeter;
use crate::metrics::MetricsArgs;
use crate::output::text::{clean, count};
use crate::output::{Out, witnesses};
use crate::publisher;
use crate::relays::RelayArgs;
use crate::service::messages::{ServiceReply, ServiceRequest};
use crate::service::{self, control};
use crate::shaping::ShapeArgs;
use crate::showing::AnswerArgs;
use crate::stop;
pub(crate) use crate::values::resolve;
use crate::values::{ListenAt, parse_bytes, parse_name, parse_seconds};
use crate::web;
use clap::Args;
use clap::builder::FalseyValueParser;
use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use xylem_files::{LibraryEvent, read_rule, read_rules, walk::Selection};
use xylem_keys::SignWith;
use xylem_link::PeerKey;
use xylem_node::{AnnounceOptions, Event, NDN_PORT, PeerUri, Prove, ShareOptions};
use xylem_publish::Recipients;
use xylem_publish::follow::{FollowInput, FollowOptions};
use xylem_publish::registry::{Registered, Registry, ShareTerms};

/// Shares files and directories: prints tickets, serves until Ctrl-C
///
/// If the background node of this user runs (`xylem service install`), it takes over and serves them for good, and this
/// run ends with the tickets.
///
/// A file is read once to build its hash tree, which is kept in the store (under 1 % of the file's size). The file
/// itself stays where it is and is not copied. Standard output has the tickets and nothing else, a line for each path
/// in the order of the arguments.
///
/// Content that `xylem get` fetched and that has not changed since is served as it was published: the ticket names the
/// publisher's own publication, with its signature, at this machine's addresses. --as or --sign publishes it anew as
/// your own.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem share film.mkv                    prints a ticket
  xylem share film.mkv --for alice,bob    for people of `xylem inbox people`
  xylem share film.mkv --code             with a code to read aloud
  xylem share a.iso b.iso photos/         several at once, a ticket for each
  xylem share photos/ --as /alice/photos  under a name of your own
  xylem share film.mkv --listen 7000      on a port of your own, all interfaces
  xylem share film.mkv --announce me.example.org:7000   that a router forwards to this machine
  xylem share film.mkv --relay KEY@relay.example.org:7348   behind a router that lets nobody in
  xylem share film.mkv --web              and a link for browsers, which prove what they fetch
  xylem share film.mkv --plain            for NDN software too, unencrypted, on port 6363
  xylem share film.mkv --via unix:///run/nfd/nfd.sock   through an NDN forwarder
  xylem share film.mkv > ticket.txt       the ticket alone in a file
  xylem share site/ --exclude '*.tmp' --exclude /drafts
  xylem share src/ --ignore-file src/.gitignore
  xylem share s3://models/llama/          the content of an S3 bucket; AWS_... variables hold the key
  xylem share --public film.mkv           for everybody: get b3:HASH finds it
  xylem share --follow app.log            a file that another program appends to, as it grows
  xylem share film.mkv --metrics 9700     with counts for Prometheus
  producer | xylem share --follow -       what comes over standard input, as it comes

",
    exit_help!()
))]
pub(crate) struct ShareArgs {
    /// Files and directories, each a publication of its own
    ///
    /// s3://BUCKET/KEY is content in an S3 bucket. With --follow, - is standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Publish a file that grows, in signed checkpoints
    ///
    /// Another program appends to it; Ctrl-C signs the last checkpoint. With - for PATH, standard input is published
    /// until it ends. The ticket is good for all of it: `xylem get --follow` writes the stream as it comes.
    #[arg(long)]
    follow: bool,

    /// With --follow: a checkpoint after this many new bytes, such as 64K
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "1M",
          requires = "follow")]
    every_bytes: u64,

    /// With --follow: a checkpoint after this many seconds, if anything is new
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "1",
          allow_negative_numbers = true, requires = "follow")]
    every: Duration,

    /// With --follow -: store the input in this file and begin with what it holds already [default: a new file in the
    /// store]
    #[arg(long, value_name = "FILE", requires = "follow")]
    tee: Option<PathBuf>,

    /// Serve from this process, not by the background node
    #[arg(long)]
    foreground: bool,

    /// Name to publish the one PATH under, such as /a/photos
    ///
    /// [default: below the key's id]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,

    /// Encrypt it for these people alone; can be repeated
    ///
    /// Names of files are encrypted, too, whichever peer serves it. WHO is a name of `xylem inbox people`, a card
    /// (xylem-peer:...), or @FILE with one or with a certificate (`xylem key cert`). They fetch it as anything else. If
    /// it is shared again with other people, only the list of readers changes: a former reader may have kept a copy.
    #[arg(long = "for", value_name = "WHO", value_delimiter = ',', conflicts_with_all = ["follow", "code"])]
    recipients: Vec<String>,

    /// With --for: make files up to a sixteenth longer, and short ones 4 KiB, so that peers which carry them cannot
    /// recognize files by their sizes. The number of files still shows
    #[arg(long, requires = "recipients")]
    pad: bool,

    /// Sign with this key: key:NAME or ed25519:FILE
    ///
    /// key:NAME is one of `xylem key`, such as key:/alice: its certificate is served, too, and what has no --as is
    /// published below its owner's name. FILE holds a secret key of 32 bytes. [default: the store's own identity]
    #[arg(long, value_name = "KEY", value_parser = parse_publication_key, env = "XYLEM_SIGN",
          hide_env_values = true)]
    sign: Option<PublicationKey>,

    /// Get co-signatures of the witness with this certificate (`xylem key cert`), and send them to getters that ask for
    /// them; can be repeated (`xylem witness`)
    #[arg(long, value_name = "CERT")]
    witness: Vec<PathBuf>,

    /// Refuse names that other systems would confuse (README, readme) or cannot have (aux.c on Windows), instead of
    /// warning of them
    #[arg(long)]
    portable: bool,

    /// Leave out what matches, by the rules of .gitignore
    ///
    /// It applies to directories and can be repeated. It is remembered: without this flag, what was left out when the
    /// directory was shared last is left out again.
    #[arg(long, value_name = "GLOB", value_parser = read_rule, conflicts_with = "follow")]
    exclude: Vec<String>,

    /// Leave out what matches a line of this file, with the rules of a .gitignore in the shared directory; can be
    /// repeated. No .gitignore is read unless it is named here
    #[arg(long, value_name = "FILE", conflicts_with = "follow")]
    ignore_file: Vec<PathBuf>,

    /// Leave nothing out, whatever was left out last time
    #[arg(long, conflicts_with_all = ["exclude", "ignore_file"])]
    no_exclude: bool,

    /// End with an error if something in a directory cannot be read, instead of leaving it out
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    listen: ListenArgs,

    #[command(flatten)]
    announced: AnnouncedArgs,

    #[command(flatten)]
    relay: RelayArgs,

    /// PEM file with the certificate for TLS [default: one made up for this run]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// PEM file with the certificate's key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Also show a code of a number and three words
    ///
    /// A person can read it aloud: `xylem get CODE` fetches the one PATH. It is good for one fetch within ten minutes;
    /// three wrong guesses end it, and the share goes on by its ticket.
    #[arg(long, conflicts_with = "follow")]
    code: bool,

    /// Show the ticket as a QR code [default: if the terminal has room for it]
    #[arg(long)]
    qr: bool,

    /// Serve unencrypted NDN over UDP and TCP too, on port 6363 of all interfaces
    #[arg(long, env = "XYLEM_PLAIN", hide_env_values = true,
          value_parser = FalseyValueParser::new())]
    plain: bool,

    /// Serve unencrypted NDN there instead: HOST:PORT, PORT, or an address; can be repeated
    #[arg(
        long,
        value_name = "ADDR",
        env = "XYLEM_PLAIN_LISTEN",
        hide_env_values = true,
        value_delimiter = ','
    )]
    plain_listen: Vec<ListenAt>,

    /// Also serve a page for browsers, and print its link
    ///
    /// It listens on port 7380 of all interfaces (a free one if that is taken). A browser at this link fetches over
    /// WebSocket, unencrypted, and the page proves every piece. The part behind the # of the link never leaves the
    /// browser.
    #[arg(long)]
    web: bool,

    /// Serve the page there instead: HOST:PORT, PORT, or an address; can be repeated
    #[arg(
        long,
        value_name = "ADDR",
        env = "XYLEM_WEB_LISTEN",
        hide_env_values = true,
        value_delimiter = ','
    )]
    web_listen: Vec<ListenAt>,

    /// Over plain UDP, send answers without limit also to an address that has not yet proven that it receives; for
    /// networks without forged addresses
    #[arg(long)]
    answer_unproven: bool,

    /// Also serve through this NDN forwarder, where the name is registered: unix:///PATH, tcp://HOST, udp://HOST or
    /// ws://HOST; can be repeated
    #[arg(
        long,
        value_name = "URI",
        env = "XYLEM_VIA",
        hide_env_values = true,
        value_delimiter = ','
    )]
    via: Vec<PeerUri>,

    #[command(flatten)]
    beside: AnnounceArgs,

    #[command(flatten)]
    metrics: MetricsArgs,

    #[command(flatten)]
    answer: AnswerArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// Bytes of patterns that are remembered with a directory at most.
const MAX_PATTERNS: usize = 32 * 1024;
/// Bytes of a file of patterns at most, with its comments.
const MAX_RULES_FILE: u64 = 1 << 20;

/// Runs `xylem share`.
pub(crate) fn run(
    mut args: ShareArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    if std::env::var_os("XYLEM_KEY").is_some_and(|value| !value.is_empty()) {
        // To sign with another key without a word would be worse.
        let what = "XYLEM_KEY has no meaning: set XYLEM_SIGN=ed25519:FILE, or give --sign";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let mut plain = resolve(&args.plain_listen)?;
    if args.plain && plain.is_empty() {
        plain.push(SocketAddr::from((Ipv4Addr::UNSPECIFIED, NDN_PORT)));
    }
    let mut at_web = resolve(&args.web_listen)?;
    if args.web && at_web.is_empty() {
        at_web.push(web::default_address());
    }
    let follow = follow(&args)?;
    if follow.is_some() && !at_web.is_empty() {
        let what = "a web page does not follow a growing file: leave out --web, or share the file when it is complete";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    if args.name.is_some() && args.paths.len() > 1 {
        let what = "--as names one PATH; share the others with a command of their own";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    if args.code && args.paths.len() > 1 {
        let what = "a code stands for one PATH; share the directory, or the others with a command of their own";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let selection = selection(&args)?;
    let medium = buckets::for_paths(&mut args.paths, None, common, out)?.medium();
    if let Some(PublicationKey::File(key)) = &args.sign {
        require_outside(key, &args.paths)?;
    }
    let recipients = recipients(&args.recipients, args.pad, common)?;
    if args.qr {
        out.wants_qr();
    }
    match for_node(&args, &selection, recipients.as_ref(), common)? {
        Err(why) => serves_itself(why, out),
        Ok(terms) => {
            if let Some(done) = hand_over(&args, &terms, common, out)? {
                return Ok(done);
            }
        }
    }
    warn_of_other_shares(&args.paths, &[], common, out)?;
    let (key_file, identity) = match args.sign {
        None => (None, None),
        Some(PublicationKey::Named(which)) => (None, Some(which)),
        Some(PublicationKey::File(path)) => (Some(path), None),
    };
    let chosen = args.relay.chosen(common)?;
    let options = ShareOptions {
        medium,
        follow,
        paths: args.paths,
        name: args.name.as_deref().map(parse_name).transpose()?,
        key_file,
        identity,
        selection,
        recipients,
        listen: args.listen.places()?,
        announce: args.announced.announce,
        relays: chosen.relays,
        relay_list: chosen.list,
        certificate: args.tls_cert.zip(args.tls_key),
        plain,
        pages: if at_web.is_empty() { Vec::new() } else { web::pages() },
        web: at_web,
        prove: if args.answer_unproven { Prove::Nobody } else { Prove::default() },
        via: peers(&args.via)?,
        links: args.shape.links(),
        accept_open: args.answer.accept_open,
        beside: args.beside.options(common)?,
        code: args.code,
        code_dht: args.beside.of_codes(common)?,
        witnesses: args.witness,
        store: common.store()?,
    };
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    out.runs_as("share", &options.store);
    let meter = ShareMeter::default();
    let shown = meter.clone();
    args.metrics.show(move || shown.page(), out)?;
    let (mut to_come, mut paths) = (options.paths.len(), options.paths.iter().peekable());
    let shared = xylem_node::share(&options, &stop, &mut |event| {
        let ready = matches!(event, Event::Shared { .. });
        if let (Event::Shared { name, .. }, Some(path)) = (&event, paths.next_if(|_| ready)) {
            meter.shared(path, args.name.as_deref(), name);
        }
        meter.see(&event);
        match &event {
            // There may be some for each checkpoint.
            Event::Library(LibraryEvent::Cosigned(said)) if !out.is_json() => {
                out.detail(&witnesses::cosigned(said));
            }
            _ => out.event(event),
        }
        if ready {
            to_come -= 1;
            if to_come == 0 {
                out.note("Serving until Ctrl-C.");
            }
        }
    });
    out.take_broken()?;
    shared?;
    Ok(Exit::Done)
}

/// What to leave out of directories. Lines of files come first, so that the command line overrides them.
fn selection(args: &ShareArgs) -> Result<Selection, CommandFailure> {
    let mut lines = Vec::new();
    for file in &args.ignore_file {
        let failed = |why: &dyn Display| {
            let what = format!("--ignore-file {}: {why}", file.display());
            CommandFailure::new(Exit::Usage, what)
        };
        let mut text = Vec::new();
        let opened = fs::File::open(file).map_err(|e| failed(&e))?;
        opened.take(MAX_RULES_FILE + 1).read_to_end(&mut text).map_err(|e| failed(&e))?;
        if text.len() as u64 > MAX_RULES_FILE {
            return Err(failed(&format!("it has more than {MAX_RULES_FILE} bytes")));
        }
        lines.extend(read_rules(&text).map_err(|e| failed(&e))?);
    }
    lines.extend(args.exclude.iter().cloned());
    if lines.iter().map(String::len).sum::<usize>() > MAX_PATTERNS {
        let what =
            format!("--exclude and --ignore-file give more than {MAX_PATTERNS} bytes of patterns");
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let asked = args.no_exclude || !args.ignore_file.is_empty() || !args.exclude.is_empty();
    let (portable, strict) = (args.portable, args.strict);
    let exclude = asked.then_some(lines);
    Ok(Selection { portable, strict, exclude, ..Selection::default() })
}

/// The recipients that --for names, by their link keys.
fn recipients(
    who: &[String],
    padded: bool,
    common: &Common,
) -> Result<Option<Recipients>, CommandFailure> {
    let store = common.store()?;
    let keys: Result<Vec<PeerKey>, CommandFailure> =
        who.iter().map(|who| publisher::recipient(who, &store)).collect();
    Ok(Some(keys?).filter(|keys| !keys.is_empty()).map(|keys| Recipients { keys, padded }))
}

/// Refuses to publish the signing key together with what it signs.
fn require_outside(key: &Path, paths: &[PathBuf]) -> Result<(), CommandFailure> {
    let Ok(key) = key.canonicalize() else { return Ok(()) };
    for path in paths.iter().filter_map(|path| path.canonicalize().ok()) {
        if key.starts_with(&path) {
            let what = "the key would be shared with what it signs; keep it elsewhere";
            return Err(CommandFailure::new(Exit::Usage, format!("{}: {what}", key.display())));
        }
    }
    Ok(())
}

/// The key that signs a publication.
#[derive(Clone, Debug)]
enum PublicationKey {
    /// A key of the keyring, by its name or its owner's.
    Named(String),
    /// A file with an Ed25519 secret key.
    File(PathBuf),
}

/// Parses the key that signs a publication: those of `put --sign` that a manifest can have.
fn parse_publication_key(text: &str) -> Result<PublicationKey, String> {
    let expected = "expected key:NAME, a key of `xylem key list`, or ed25519:FILE";
    match text.parse() {
        Ok(SignWith::Named(which)) => Ok(PublicationKey::Named(which)),
        Ok(SignWith::Key(file)) => match file.ed25519() {
            Some(path) => Ok(PublicationKey::File(path.to_owned())),
            None => Err(expected.to_owned()),
        },
        _ => Err(expected.to_owned()),
    }
}

/// Parses a key of the keyring, as `put --sign` names it.
pub(crate) fn parse_identity(text: &str) -> Result<String, String> {
    match text.parse() {
        Ok(SignWith::Named(which)) => Ok(which),
        _ => Err("expected key:NAME, a key of `xylem key list`".to_owned()),
    }
}

/// The request for the background node; or else the flag that the node does not support, so that this process serves.
/// The pattern is exhaustive, so that each new flag is considered.
fn for_node(
    args: &ShareArgs,
    selection: &Selection,
    readers: Option<&Recipients>,
    common: &Common,
) -> Result<Result<ShareTerms, &'static str>, CommandFailure> {
    let ShareArgs {
        paths,
        follow,
        // Has an effect with --follow alone.
        every_bytes: _,
        every: _,
        tee: _,
        foreground,
        name,
        // `readers` holds it.
        recipients: _,
        pad: _,
        sign,
        witness,
        // `selection` holds it.
        portable: _,
        exclude: _,
        ignore_file: _,
        no_exclude: _,
        strict: _,
        listen,
        announced,
        relay,
        tls_cert,
        tls_key: _, // Has an effect with --tls-cert alone.
        code,
        qr: _, // This process shows it.
        plain,
        plain_listen,
        web,
        web_listen,
        answer_unproven,
        via,
        beside,
        metrics,
        answer: AnswerArgs { accept_open },
        shape,
    } = args;
    let asked = [
        (*foreground, "--foreground"),
        (
            paths.iter().any(|path| buckets::is_in_bucket(path)),
            "s3://, whose credentials the background node lacks",
        ),
        (*follow, "--follow"),
        (*code, "--code"),
        (sign.is_some(), "--sign"),
        (!witness.is_empty(), "--witness"),
        (!listen.listen.is_empty(), "--listen"),
        (!announced.announce.is_empty(), "--announce"),
        (!relay.named().is_empty(), "--relay"),
        (tls_cert.is_some(), "--tls-cert"),
        (*plain || !plain_listen.is_empty(), "--plain"),
        (*web || !web_listen.is_empty(), "--web"),
        (*answer_unproven, "--answer-unproven"),
        (!via.is_empty(), "--via"),
        (metrics.metrics.is_some(), "--metrics"),
        (*accept_open, "--accept-open"),
    ];
    let asked = asked.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag);
    if let Some(flag) = asked.or(beside.for_all(common)?).or(shape.given()) {
        return Ok(Err(flag));
    }
    let Selection { portable, strict, exclude, changed: _, for_members: _, in_step: _, omitted: _ } =
        selection.clone();
    let AnnounceOptions { lan, map, public: _ } = beside.options(common)?;
    let keys = |readers: &Recipients| readers.keys.iter().map(ToString::to_string).collect();
    Ok(Ok(ShareTerms {
        name: name.clone(),
        portable,
        strict,
        exclude,
        recipients: readers.map(keys),
        padded: readers.is_some_and(|readers| readers.padded),
        lan,
        map,
    }))
}

fn serves_itself(why: &str, out: &mut Out) {
    out.detail(&format!("Serving from this process: {why}"));
}

/// Makes the background node serve the paths, if one runs and supports the flags.
fn hand_over(
    args: &ShareArgs,
    terms: &ShareTerms,
    common: &Common,
    out: &mut Out,
) -> Result<Option<Exit>, CommandFailure> {
    let store = service::store(common)?;
    let before = Registry::load(&store)?;
    let mut taken = Vec::new();
    for path in &args.paths {
        let request =
            ServiceRequest::Share { path: service::absolute(path)?, terms: terms.clone() };
        let answer = control::ask(&store, &request, &mut |reply| {
            let event = match reply {
                ServiceReply::Hashing { done, total } => LibraryEvent::Hashing { done, total },
                ServiceReply::Warning { what } => LibraryEvent::Warning { what },
                _ => return,
            };
            out.event(Event::Library(event));
        })?;
        match answer {
            // The node may have ended between two paths.
            None if taken.is_empty() => return Ok(None),
            Some(ServiceReply::Declined { why }) if taken.is_empty() => {
                serves_itself(&why, out);
                return Ok(None);
            }
            Some(ServiceReply::Shared(shared)) => out.event(shared.event()?),
            Some(ServiceReply::Declined { why }) => {
                let what =
                    format!("{}: the background node does not share it: {why}", path.display());
                return Err(CommandFailure::new(Exit::Local, what));
            }
            _ => {
                return Err(CommandFailure::new(
                    Exit::Local,
                    "the background node ended before it answered; `xylem service status` reports on it",
                ));
            }
        }
        out.take_broken()?;
        taken.push(path.canonicalize().unwrap_or_else(|_| path.clone()));
    }
    let now = Registry::load(&store)?;
    let taken_over =
        |share: &&Registered| taken.contains(&share.path) && share.terms.name == terms.name;
    for share in before.shares.iter().filter(taken_over) {
        if share.terms.recipients != terms.recipients {
            let (was, is) = (readers(&share.terms), readers(terms));
            let path = share.path.display();
            out.note(&clean(&format!(
                "{path} was shared with {was} and is shared with {is} now; the earlier ticket no longer works"
            )));
        }
    }
    let leaves_out = terms.exclude.as_ref().is_some_and(|exclude| !exclude.is_empty());
    if terms.recipients.is_some() || leaves_out {
        let own: Vec<String> = now.shares.iter().filter(taken_over).map(Registered::id).collect();
        warn_of_other_shares(&taken, &own, common, out)?;
    }
    out.note("Served in the background; `xylem shares` lists it, `xylem unshare PATH` ends it.");
    Ok(Some(Exit::Done))
}

/// The people that can read a share, as text.
fn readers(terms: &ShareTerms) -> String {
    match &terms.recipients {
        Some(who) => count(who.len() as u64, "reader") + " alone",
        None => "whoever has the ticket".to_owned(),
    }
}

/// Warns of each path that the background node also serves on other terms, and how to end that. Leaves out the shares
/// with the ids in `but`.
fn warn_of_other_shares(
    paths: &[PathBuf],
    but: &[String],
    common: &Common,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let registry = Registry::load(&service::store(common)?)?;
    for path in paths.iter().filter_map(|path| path.canonicalize().ok()) {
        for share in registry.covering(&path).filter(|share| !but.contains(&share.id())) {
            let (id, called) = (share.id(), service::called_of(share));
            let whose = if share.path == path { "It" } else { "The folder that contains it" };
            let whom = readers(&share.terms);
            out.event(Event::warning(format!(
                "{whose} is also shared in the background, with {whom}: {called}; `xylem unshare {id}` ends that"
            )));
        }
    }
    Ok(())
}

/// The options of `--follow`.
fn follow(args: &ShareArgs) -> Result<Option<FollowOptions>, CommandFailure> {
    let from_input = args.paths.iter().any(|path| path == Path::new("-"));
    if from_input && args.follow && args.paths.len() > 1 {
        let what = "standard input is shared with a command of its own: `xylem share --follow -`";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    if args.tee.is_some() && !from_input {
        let what = "--tee works with standard input only: `xylem share --follow - --tee FILE`";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    if !args.follow {
        return Ok(None);
    }
    let keep = args.tee.clone().map_or(FollowInput::Store, FollowInput::Keep);
    Ok(Some(FollowOptions {
        every_bytes: args.every_bytes.max(1),
        every: args.every,
        input: from_input.then_some(keep),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches, Parser};
    use std::collections::BTreeSet;

    #[derive(Parser)]
    struct ShareFlags {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        share: ShareArgs,
    }

    /// A value for a flag, and the other flags that it requires.
    fn sample(flag: &str) -> &'static [&'static str] {
        match flag {
            "every-bytes" | "every" => &["7", "--follow"],
            "tee" => &["file", "--follow"],
            "tls-cert" => &["cert.pem", "--tls-key", "key.pem"],
            "tls-key" => &["key.pem", "--tls-cert", "cert.pem"],
            "as" => &["/a"],
            "pad" => &["--for", "file"],
            "for" | "key" | "ignore-file" | "exclude" | "witness" => &["file"],
            "sign" => &["key:/a"],
            "announce" | "dht-bootstrap" => &["host:7"],
            "listen" | "plain-listen" | "web-listen" => &["127.0.0.1:7"],
            "relay" => &["9ad1c8f3aabc26e4589ad1c8f3aabc26e4589ad1c8f3aabc26e4589ad1c8f3aa@h:7"],
            "via" => &["udp://127.0.0.1"],
            "metrics" => &["9700"],
            "shape" => &["low"],
            "post-quantum" => &["never"],
            _ => &[],
        }
    }

    /// docs/service.md lists exactly the flags that the node does not take over.
    #[test]
    fn flags_not_handed_over_match_the_documentation() {
        let store = tempfile::tempdir().unwrap();
        let own = |flag: &clap::Arg| flag.get_help_heading() != Some("Common options");
        let command = ShareFlags::command();
        let all =
            command.get_arguments().filter(|flag| own(flag)).filter_map(|flag| flag.get_long());
        let all: Vec<&str> = all.filter(|flag| !matches!(*flag, "help" | "version")).collect();
        let (mut stay, mut count) = (BTreeSet::new(), 0);
        for flag in all {
            let long = format!("--{flag}");
            let store = store.path().to_str().unwrap();
            let line = ["xylem", "--store", store, "path", &long]
                .into_iter()
                .chain(sample(flag).iter().copied());
            let found = ShareFlags::command().try_get_matches_from(line).expect(flag);
            let ShareFlags { common, share } = ShareFlags::from_arg_matches(&found).unwrap();
            let selection = Selection::default();
            if for_node(&share, &selection, None, &common).unwrap().is_err() {
                stay.insert(long);
            }
            count += 1;
        }
        assert!(count > 30 && stay.len() < count);
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/service.md");
        let text = std::fs::read_to_string(page).unwrap();
        // Marked by comments, which the page does not show: its sentences may be written anew.
        let marked = text
            .split("<!-- flags that the node does not take over -->")
            .nth(1)
            .expect("the list's start is marked");
        let (list, _) =
            marked.split_once("<!-- end of flags -->").expect("the list's end is marked");
        let named = list.split('`').filter(|word| word.starts_with("--")).map(str::to_owned);
        assert_eq!(stay, named.collect());
    }
}
