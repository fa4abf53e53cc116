//! `xylem get TICKET`: fetches a publication and verifies it piece by piece.

use crate::buckets::{IntoBucketOptions, into_bucket, is_in_bucket};
use crate::cli::Common;
use crate::code::{CodeSource, FoundTicket};
use crate::demand::{self, DemandArgs};
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::{FindArgs, FindTerms, MapArgs};
use crate::flags::{FromArgs, PaceArgs, TimeoutArgs};
use crate::meant;
use crate::meter::SeedMeter;
use crate::metrics::MetricsArgs;
use crate::output::text::bytes;
use crate::output::{FetchedPart, Out, not_with_json, report, report_object};
use crate::relays::RelayArgs;
use crate::shaping::ShapeArgs;
use crate::share::resolve;
use crate::showing::{AnswerArgs, AskArgs};
use crate::stop;
use crate::trusting::TrustArgs;
pub(crate) use crate::values::peers;
use crate::values::{ByteRange, ListenAt, joined, output};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xylem_app::VerifyWith;
use xylem_app::object::{FetchedObject, ObjectOptions, get_object};
use xylem_base::{Blame, Error, Stop};
use xylem_files::{Existing, FetchMode, Output, SaveOptions, SpaceCheck, read_rule};
use xylem_node::{Event, GetOptions, LinkOptions, ServeOptions, VersionDialer};
use xylem_witness::{DialVersions, VersionSource, WitnessedError, witnessed};

/// Fetches what a ticket or a name stands for, verified on arrival
///
/// A ticket is all that a fetch needs, and an earlier run is resumed. A name is found through an NDN forwarder, and
/// anybody may have published it: --publisher, --key or --trust gives the keys to trust.
///
/// The result gets its final name only when it is complete. Until then its verified pieces are kept beside it, and the
/// same command resumes from there. The last line on standard output is the one that `xylem sum` prints for a file, and
/// `xylem sum --tree` for a directory.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem get xylem:...                         into this directory
  xylem get @ticket.txt -o films/             a ticket from a file, into films/
  xylem get 7-alpha-cobra-violin              a code that `share --code` shows
  xylem get b3:HASH                           what `xylem sum` hashes so, of who shares it --public
  xylem get @PUBLISHER/film.mkv               what this publisher (64 hex digits) calls so now
  xylem get xylem:... -o - | tar x            a .tar that was shared, as its verified bytes come
  xylem get xylem:... --from 192.0.2.7:7000   from that peer only
  xylem get xylem:... --from udp://192.0.2.7  through an NDN forwarder
  xylem get xylem:... --overwrite             a newer version: moves only what changed
  xylem get xylem:... --like old.iso          the same from a copy of another name
  xylem get xylem:... -o s3://models/a.bin    into an S3 bucket; AWS_... variables hold the key
  xylem get xylem:... --seed                  and serve it to others until Ctrl-C
  xylem get xylem:... --seed --metrics 9700   with counts for Prometheus
  xylem get xylem:... --no-serve              fetch only, tell nobody an address
  xylem get xylem:... --from unix:///run/nfd/nfd.sock   through the one of this machine
  xylem get xylem:... --range 1G..1100M -o part.bin
  xylem get xylem:... --overwrite --delete    and remove what it does not have any more
  xylem get xylem:... --overwrite --delete --dry-run   what that would do, file by file
  xylem get --follow xylem:... -o app.log     a file that still grows, written as it comes
  xylem get --follow xylem:... -o - | grep E  the same, to a pipe
  xylem get xylem:... --witness w.cert        only if this witness has seen it, too
  xylem get /alice/film --publisher alice     by name, newest version, signed by somebody whom
                                               `xylem inbox people` lists, or 64 hex digits
  xylem get /lab/data --insecure --from tcp://192.0.2.7   whatever that forwarder finds

",
    exit_help!()
))]
pub(crate) struct GetArgs {
    /// A ticket, @FILE or - with one, a code, or an NDN name
    ///
    /// A ticket is what `xylem share` prints, also wrapped or quoted; @FILE or - reads one from a file or standard
    /// input. A code is what `xylem share --code` shows (7-alpha-cobra-violin). Also an NDN name (/alice/film), or
    /// something public (`xylem share --public`): b3:HASH, the hash that `xylem sum` prints, or @PUBLISHER/NAME.
    #[arg(value_name = "TICKET|CODE|NAME", required = true, num_args = 1..)]
    ticket: Vec<String>,

    /// Where to put it: FILE, DIR/, s3://... or - (stdout)
    ///
    /// A directory that exists or ends in / (made if it is missing) gets it under the name that its publisher gave it;
    /// s3://BUCKET/KEY is an object of a bucket. [default: this directory]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    #[command(flatten)]
    from: FromArgs,

    #[command(flatten)]
    relay: RelayArgs,

    /// Fetch these bytes only: A..B, A.. or ..B
    ///
    /// Numbers take K, M, G (1024) or KB, MB, GB (1000). Without a name by -o they go to NAME.START-END.part.
    #[arg(long, value_name = "A..B")]
    range: Option<ByteRange>,

    /// Fetch a stream as it grows, until its end
    ///
    /// It is what `xylem share --follow` publishes. The result has its final name from the beginning and holds a
    /// verified beginning of the stream at every moment; a later run resumes from there. Without this flag the newest
    /// checkpoint is fetched once.
    #[arg(long, conflicts_with_all = ["range", "exclude", "seed"])]
    follow: bool,

    /// With --follow: begin with the checkpoint of this version (the number in v=...), not the newest
    #[arg(long, value_name = "VERSION", requires = "follow")]
    since: Option<u64>,

    #[command(flatten)]
    trust: TrustArgs,

    #[command(flatten)]
    demand: DemandArgs,

    /// Accept what a name brings although nobody vouches for it
    #[arg(long, conflicts_with_all = ["key", "publisher", "trust"])]
    insecure: bool,

    /// Replace a file, merge into a directory
    ///
    /// A file is replaced once the new one is complete. In a directory, files that have not changed are not fetched,
    /// and what was not published stays. A copy that this store has fetched, and that is still right, needs no peer.
    #[arg(long)]
    overwrite: bool,

    /// With --overwrite: remove from the directory what was not published, when the rest is complete. What --exclude
    /// matches stays, and so do xylem stores, other file systems and unfinished fetches
    #[arg(long, requires = "overwrite", conflicts_with_all = ["range", "follow"])]
    delete: bool,

    /// List what would change, and change nothing
    ///
    /// It names each file that would be fetched, replaced and (with --delete) removed. With old copies at hand, much
    /// fewer bytes than listed may be fetched.
    #[arg(long, conflicts_with_all = ["range", "follow", "seed"])]
    dry_run: bool,

    /// Begin although the disk has no room for all of it: blocks of zeros may need none. Without this flag, a fetch
    /// that would fill the disk does not begin
    #[arg(long)]
    no_space_check: bool,

    /// If the final name is taken, use NAME.1, NAME.2, ...
    #[arg(long, conflicts_with = "overwrite")]
    rename: bool,

    /// Search this old copy first, whatever its name, and fetch only what is new; every byte is verified wherever it
    /// comes from. A file that --overwrite replaces is searched without this flag; can be repeated
    #[arg(long, value_name = "OLD", conflicts_with_all = ["range", "follow"])]
    like: Vec<PathBuf>,

    /// Leave out what matches, from a directory, with the rules of .gitignore; can be repeated
    #[arg(long, value_name = "GLOB", value_parser = read_rule)]
    exclude: Vec<String>,

    /// Serve what is verified here to other getters of the same content, over the encrypted link, at HOST:PORT, PORT
    /// (all interfaces), or an address (a free port); can be repeated [default: a free port of all interfaces]. Ranges
    /// and -o - are not served
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    listen: Vec<ListenAt>,

    /// Fetch only: serve no peer, and send no address to any. This is the default with --shape high and paranoid,
    /// unless --seed or --listen is given, because an observer can see that a machine serves
    #[arg(long, conflicts_with_all = ["seed", "listen"])]
    no_serve: bool,

    /// Stay and serve it to others until Ctrl-C
    ///
    /// It is served with the publisher's signature, this store's link key, the same port in each run (unless --listen
    /// names one) and a ticket of its own. Started again when all of it is here, it needs no other peer. It is
    /// announced as shares are: on the LAN, by a port that the router forwards; and for b3: and @ in the DHT.
    #[arg(long, conflicts_with = "range")]
    seed: bool,

    /// Keep what is shared --for certain people as it was published, encrypted. A seed, or `xylem share`, can then
    /// serve it without being able to read it
    #[arg(long)]
    ciphertext: bool,

    /// Wait until everything is on the device, names included: what is reported complete then survives a loss of power
    /// (slow with many files)
    #[arg(long)]
    fsync: bool,

    #[command(flatten)]
    pace: PaceArgs,

    #[command(flatten)]
    timeout: TimeoutArgs,

    /// Wait for a sharer that is off or asleep, until --timeout or Ctrl-C. Without this flag a fetch ends within
    /// seconds if the relays answer that the sharer is not there, and no other way is left
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    find: FindArgs,

    #[command(flatten)]
    map: MapArgs,

    #[command(flatten)]
    metrics: MetricsArgs,

    #[command(flatten)]
    ask: AskArgs,

    #[command(flatten)]
    answer: AnswerArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// A fetch without progress ends after this long by default.
const GIVE_UP_S: u32 = 30;
/// Why --metrics is refused.
const NOT_SEEDING: &str = "--metrics counts what --seed serves; give both, or neither";
/// Practically never, and within the range of clocks.
const NEVER_S: u32 = u32::MAX;

impl GetArgs {
    fn give_up(&self) -> Duration {
        self.timeout.or_seconds(if self.wait { NEVER_S } else { GIVE_UP_S })
    }
}

/// Runs `xylem get`.
pub(crate) fn run(args: GetArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let output = output(args.output.clone());
    if matches!(output, Output::Stdout) {
        not_with_json(out, "-o -")?;
    }
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let ticket = joined(&args.ticket)?;
    if args.metrics.metrics.is_some() && !args.seed {
        return Err(CommandFailure::new(Exit::Usage, NOT_SEEDING));
    }
    if ticket.starts_with('/') || ticket.starts_with("ndn:") {
        // A path of this machine looks like a name. A user who means a name also gives a key to trust.
        let mistaken =
            meant::ticket_hint(&ticket).filter(|_| !args.insecure && !args.trust.is_given());
        if let Some(what) = mistaken {
            return Err(CommandFailure::new(Exit::Usage, what));
        }
        return by_name(ticket, args, output, &stop, common, out);
    }
    if args.insecure || args.trust.is_given() {
        let what = "a ticket names its publisher; --publisher, --key, --trust and --insecure are for names";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    // A missing store is reported first, whatever the ticket contains.
    out.runs_as("get", &common.store()?);
    let from = args.from.peers()?;
    let lan = args.find.lan(common)?;
    let (relays, dht) = (args.relay.relays(common)?, args.find.code_dht(common)?);
    let whom = CodeSource { from, relays, lan, dht };
    // Do not write the same bytes to standard output twice.
    let again = !matches!(output, Output::Stdout);
    let terms = FindTerms {
        give_up: args.give_up(),
        shape: &args.shape,
        stop: &stop,
        again,
        hides: hides(&args),
    };
    let fetch = |found, out: &mut Out| by_ticket(found, &args, output.clone(), &stop, common, out);
    args.find.each_found(&ticket, whom, &terms, common, out, fetch)
}

fn by_ticket(
    found: FoundTicket,
    args: &GetArgs,
    output: Output,
    stop: &Stop,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let part = match args.range.is_none() && args.exclude.is_empty() {
        true => FetchedPart::Whole,
        false => FetchedPart::Part,
    };
    if let Some(output) = args.output.as_ref().filter(|output| is_in_bucket(output)) {
        return by_ticket_into(found, args, output, stop, common, out);
    }
    let FoundTicket { ticket, from, port } = found;
    let mut options = GetOptions {
        ticket,
        save: SaveOptions {
            output,
            range: args.range.map(|range| (range.start, range.end)),
            existing: existing(args),
            exclude: args.exclude.clone(),
            like: args.like.clone(),
            delete: args.delete,
            room: if args.no_space_check { SpaceCheck::AsFarAsItGoes } else { SpaceCheck::ForAll },
            doing: if args.dry_run { FetchMode::DryRun } else { FetchMode::Fetch },
            only: None,
        },
        from,
        relays: args.relay.relays(common)?,
        limit_rate: args.pace.rate.limit,
        background: args.pace.low_priority,
        links: LinkOptions { port, ..args.shape.links() },
        ask_who_answers: args.ask.ask_who_answers,
        give_up: args.give_up(),
        wait: args.wait,
        store: common.store()?,
        fsync: args.fsync,
        lan: args.find.lan(common)?,
        dht: args.find.ticket_dht(hides(args), common)?,
        ciphertext: args.ciphertext,
        serve: serve(args, common)?,
    };
    let meter = SeedMeter::default();
    if let Some(serve) = &mut options.serve {
        serve.meter = meter.served();
    }
    let demand = args.demand.demand(out)?;
    if let Some(demand) = demand.as_ref().filter(|_| !args.follow) {
        let mut dialling = VersionDialer {
            from: &options.from,
            relays: &options.relays,
            links: &options.links,
            ask_who_answers: options.ask_who_answers,
            lan: options.lan,
            wait: options.wait,
            stop,
            on_event: &mut |event| out.event(event),
        };
        let dialled = dialling.dial(&options.ticket, args.give_up());
        let heard = dialled.map_err(WitnessedError::Peers).and_then(|mut peers| {
            let newest = peers.of_ticket().map_err(WitnessedError::Peers)?;
            witnessed(&mut peers, &newest, demand, &options.store, args.give_up())
        });
        out.take_broken()?;
        demand::report(&heard.map_err(|error| ended(error, stop))?, out)?;
    }
    if args.follow {
        let mut tell = demand::show_witnesses_once(out);
        let followed = xylem_node::follow(&options, args.since, demand.as_ref(), stop, &mut tell);
        drop(tell);
        out.take_broken()?;
        report(&followed.map_err(|error| ended(error, stop))?, FetchedPart::Whole, out)?;
        return Ok(Exit::Done);
    }
    if args.dry_run && matches!(options.save.output, Output::Stdout) {
        let what = "--dry-run shows what would happen to files; leave out `-o -`";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    if args.seed && matches!(options.save.output, Output::Stdout) {
        return Err(CommandFailure::new(Exit::Usage, "--seed needs a file; leave out `-o -`"));
    }
    let shown = meter.clone();
    args.metrics.show(move || shown.page(), out)?;
    fetch(&options, part, &meter, stop, out)?;
    Ok(Exit::Done)
}

/// Fetches a ticket into a bucket.
fn by_ticket_into(
    FoundTicket { ticket, from, port }: FoundTicket,
    args: &GetArgs,
    output: &Path,
    stop: &Stop,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let asked = [
        (args.range.is_some(), "--range"),
        (!args.exclude.is_empty(), "--exclude"),
        (args.follow, "--follow"),
        (args.seed, "--seed"),
        (args.delete, "--delete"),
        (args.dry_run, "--dry-run"),
        (args.no_space_check, "--no-space-check"),
        (args.rename, "--rename"),
        (!args.like.is_empty(), "--like"),
        (args.ciphertext, "--ciphertext"),
        (args.demand.is_given(), "--witness"),
    ];
    if let Some((_, flag)) = asked.into_iter().find(|(given, _)| *given) {
        let what = format!(
            "{flag} does not work with buckets: -o s3://... fetches all that a ticket names"
        );
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let options = xylem_reader::Options {
        from,
        relays: args.relay.relays(common)?,
        limit_rate: args.pace.rate.limit,
        background: args.pace.low_priority,
        links: LinkOptions { port, ..args.shape.links() },
        ask_who_answers: args.ask.ask_who_answers,
        timeout: args.give_up(),
        wait: args.wait,
        lan: args.find.lan(common)?,
        dht: args.find.ticket_dht(hides(args), common)?,
        ..xylem_reader::Options::new(ticket, common.store()?)
    };
    let (output, existing) = (output.to_path_buf(), existing(args));
    let what = IntoBucketOptions { options, output, existing };
    let summary = into_bucket(what, stop, out)?;
    report(&summary, FetchedPart::Whole, out)?;
    Ok(Exit::Done)
}

pub(crate) fn fetch(
    options: &GetOptions,
    part: FetchedPart,
    meter: &SeedMeter,
    stop: &Stop,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let (mut reported, mut own_ticket) = (None, None);
    let fetched = xylem_node::get(options, stop, &mut |event| match event {
        // Seeding has no end of its own, so report the result now.
        Event::Seeding(summary) => {
            let seeding = Event::Seeding(summary.clone());
            meter.see(&seeding);
            out.seen(&seeding);
            reported = Some(report(&summary, part, out));
            if reported.as_ref().is_some_and(Result::is_err) {
                stop.raise();
            }
            if let Some(ticket) = &own_ticket {
                out.note(&format!("Ticket: {ticket}"));
            }
            out.note("Serving it to others until Ctrl-C.");
        }
        event => {
            if let Event::Offering { ticket: Some(ticket), .. } = &event {
                own_ticket = Some(ticket.clone());
            }
            out.event(event);
        }
    });
    out.take_broken()?;
    let summary = fetched.map_err(|error| ended(error, stop))?;
    if options.save.doing == FetchMode::DryRun && !summary.already_complete {
        // A dry run has printed its list.
        return Ok(());
    }
    match reported {
        None => report(&summary, part, out),
        Some(told) => {
            out.note(&format!("Sent {} to others", bytes(summary.served)));
            told
        }
    }
}

/// Whether no other peer is to learn this machine's address.
fn hides(args: &GetArgs) -> bool {
    // A node that serves is introduced to other peers once the fetch has lasted a while. That is visible, even though
    // the links are shaped.
    let asked = args.seed || !args.listen.is_empty();
    args.no_serve || (args.shape.is_covered() && !asked)
}

/// How to serve other peers during the fetch.
fn serve(args: &GetArgs, common: &Common) -> Result<Option<ServeOptions>, CommandFailure> {
    if hides(args) {
        return Ok(None);
    }
    let beside = args.find.of_seed(args.map, &joined(&args.ticket)?, common)?;
    let (listen, accept_open) = (resolve(&args.listen)?, args.answer.accept_open);
    Ok(Some(ServeOptions { listen, seed: args.seed, accept_open, beside, ..Default::default() }))
}

/// Fetches an object by name through one forwarder. A program other than xylem may have published it.
fn by_name(
    name: String,
    args: GetArgs,
    output: Output,
    stop: &Stop,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let believe = match args.insecure {
        true => args.trust.believe(common)?,
        false => args.trust.believe_or_trusted(common)?,
    };
    if believe == VerifyWith::Nobody && !args.insecure {
        let what = "no key is trusted for this name: give --publisher, --key or --trust, trust a certificate with \
                    `xylem key trust`, or take unverified data with --insecure";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    if args.demand.is_given() {
        let what = "--witness works with tickets only: a name alone does not fix the publisher";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    if args.from.from.len() > 1 {
        let what = "a name is found through one forwarder; give --from once";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    if args.dry_run {
        let what = "--dry-run works with tickets only: what a name stands for is unknown before it is fetched";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    let options = ObjectOptions {
        at: args.from.from.first().cloned(),
        name,
        believe,
        output: output.clone(),
        existing: existing(&args),
        give_up: args.give_up(),
        whole: args.range.is_none() && args.pace.rate.limit.is_none() && args.exclude.is_empty(),
    };
    let fetched = get_object(&options, stop, &mut |news| out.event(news.into()));
    out.take_broken()?;
    let summary = match fetched.map_err(|error| ended(error, stop))? {
        FetchedObject::Ours { ticket, forwarder } => {
            let found = FoundTicket { ticket: *ticket, from: vec![forwarder], port: None };
            return by_ticket(found, &args, output, stop, common, out);
        }
        FetchedObject::Object(summary) => summary,
    };
    report_object(&summary, out)?;
    Ok(Exit::Done)
}

fn existing(args: &GetArgs) -> Existing {
    match (args.overwrite, args.rename) {
        (true, _) => Existing::Overwrite,
        (_, true) => Existing::Rename,
        _ => Existing::Refuse,
    }
}

/// Turns an error into a failure. If the run was interrupted without a signal, the reader of standard output has gone.
pub(crate) fn ended(error: impl Into<Error>, stop: &Stop) -> CommandFailure {
    let error = error.into();
    let by_reader = error.blame == Blame::Interrupted && !stop.raised();
    if by_reader { CommandFailure::closed_pipe() } else { CommandFailure::from(error) }
}
