//! `xylem service`: the background node of a user, which serves everything that was shared, and again
//! after every restart.

#[cfg(unix)]
pub(crate) mod control;
#[cfg(unix)]
mod keeper;
pub(crate) mod messages;
#[cfg(unix)]
mod page;
mod unit;

use crate::cli::Common;
use crate::exit::{Exit, Failure, exit_help};
use crate::finding::DhtArgs;
use crate::output::Out;
use crate::showing::AnswerArgs;
use crate::values::{LinkAt, links};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use xylem_library::registry::Registered;
use xylem_library::served::Counts;
use xylem_node::{Peer, Relay};
use xylem_object::ticket::Address;

/// This system has none.
#[cfg(not(unix))]
pub(crate) mod control {
    use super::messages::{Reply, Request};
    use crate::exit::Failure;
    use std::path::Path;

    /// There is no background node to be asked.
    pub(crate) fn ask(
        _store: &Path,
        _request: &Request,
        _tell: &mut dyn FnMut(Reply),
    ) -> Result<Option<Reply>, Failure> {
        Ok(None)
    }
}

/// Shares things once and for good: the background node of this user
///
/// Where it runs, `xylem share PATH` hands over to it and returns. It serves everything that was
/// shared with it on one port, and again after a restart; `xylem shares` lists that, `xylem unshare`
/// ends a share. It reads what is shared and writes the store alone.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem service install                  starts it now and whenever this machine starts (systemd)
  xylem share film.mkv photos/           tickets, and back at once
  xylem shares                           what is shared, and how often it was fetched
  xylem unshare film.mkv                 ends that; the file stays
  xylem service run --metrics 9700       the node itself, until Ctrl-C, with metrics for Prometheus
  xylem service run --public             the same, and everybody finds what is shared by its hash
  xylem service remove                   ends it; what was shared stays in the list

",
    exit_help!()
))]
pub(crate) struct ServiceArgs {
    #[command(subcommand)]
    command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
enum ServiceCommand {
    /// Run the background node until Ctrl-C or SIGTERM: what the unit starts
    Run(RunArgs),
    /// Have systemd run it now, and whenever this user logs in or, where lingering is allowed, the
    /// machine starts
    Install {
        #[command(flatten)]
        run: RunArgs,
        /// Only write the unit
        #[arg(long)]
        no_start: bool,
    },
    /// End it and remove the unit; what was shared stays in the list
    Remove,
    /// Does it run? The exit status is 3 if not
    Status,
}

/// How it runs.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// Where the encrypted link listens: HOST:PORT, PORT (all interfaces), or an address, over UDP;
    /// can be repeated [default: all interfaces, port 7348 or, where that is taken, another one that
    /// is kept]
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    listen: Vec<String>,

    /// Another address that tickets name first, HOST:PORT, such as a port that a router forwards to this
    /// machine; can be repeated
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    announce: Vec<Address>,

    /// Relay through which this machine is reached, as for `share`; can be repeated
    #[arg(long, value_name = "URI", value_delimiter = ',')]
    relay: Vec<Relay>,

    /// Tell everybody what is shared, all of it: announce it in the mainline DHT, as `xylem share --public` does
    #[arg(long)]
    public: bool,

    #[command(flatten)]
    dht: DhtArgs,

    /// Show metrics for Prometheus at http://ADDR/metrics: PORT (on 127.0.0.1) or HOST:PORT
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,

    #[command(flatten)]
    answer: AnswerArgs,
}

impl RunArgs {
    fn links(&self) -> Result<Vec<Peer>, Failure> {
        let parse = |text: &String| {
            let wrong = |why| Failure::new(Exit::Usage, format!("--listen {text}: {why}"));
            text.parse::<LinkAt>().map_err(wrong)
        };
        links(&self.listen.iter().map(parse).collect::<Result<Vec<_>, _>>()?)
    }

    /// The flags that were given.
    fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        let listen = self.listen.iter().map(|at| ("--listen", Some(at.clone())));
        let announce = self.announce.iter().map(|at| ("--announce", Some(at.to_string())));
        let relay = self.relay.iter().map(|uri| ("--relay", Some(uri.to_string())));
        let metrics = self.metrics.iter().map(|at| ("--metrics", Some(at.clone())));
        let open = self.answer.accept_open.then_some(("--accept-open", None));
        let public = self.public.then_some(("--public", None));
        let dht = self.dht.named().iter().map(|at| ("--dht-bootstrap", Some(at.clone())));
        listen
            .chain(announce)
            .chain(relay)
            .chain(metrics)
            .chain(open)
            .chain(public)
            .chain(dht)
            .collect()
    }
}

/// Runs `xylem service`.
pub(crate) fn run(args: ServiceArgs, common: &Common, out: &mut Out) -> Result<Exit, Failure> {
    if !cfg!(unix) {
        let what = "there is no background node on this system: it needs Unix sockets; `xylem share` \
                    serves as long as it runs";
        return Err(Failure::new(Exit::Usage, what));
    }
    match args.command {
        #[cfg(unix)]
        ServiceCommand::Run(args) => running::run(&args, common, out),
        #[cfg(not(unix))]
        ServiceCommand::Run(_) => Ok(Exit::Usage),
        ServiceCommand::Install { run, no_start } => unit::install(&run, !no_start, common, out),
        ServiceCommand::Remove => unit::remove(common, out),
        ServiceCommand::Status => unit::status(common, out),
    }
}

/// The store's absolute path.
pub(crate) fn store(common: &Common) -> Result<PathBuf, Failure> {
    absolute(&common.store()?)
}

/// A path from the root on, as it was given otherwise.
pub(crate) fn absolute(path: &std::path::Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|e| Failure::new(Exit::Usage, format!("{}: {e}", path.display())))
}

/// Why something cannot be found.
pub(crate) fn not_shared(path: &std::path::Path, id: &str) -> Failure {
    let shown = if path.exists() { path.to_string_lossy() } else { id.into() };
    let what = format!("{shown} is not shared in the background; `xylem shares` lists what is");
    Failure::new(Exit::Usage, what)
}

/// A share as it is listed; `why` it is not served.
pub(crate) fn row(share: &Registered, counts: Counts, why: Option<String>) -> messages::Row {
    messages::Row {
        id: share.id(),
        path: share.path.clone(),
        ticket: share.ticket.clone(),
        bytes: share.bytes,
        files: share.files,
        since_s: share.since_s,
        sent: counts.bytes,
        peers: counts.peers,
        fetched: counts.fetched,
        served: why.is_none(),
        why,
    }
}

#[cfg(unix)]
mod running {
    use super::keeper::Keeper;
    use super::{RunArgs, control, page::page};
    use crate::cli::Common;
    use crate::exit::{Exit, Failure};
    use crate::finding::AnnounceArgs;
    use crate::metrics;
    use crate::output::Out;
    use crate::relays::relays;
    use crate::stop;
    use std::fs::{File, TryLockError};
    use std::os::unix::net::UnixDatagram;
    use std::path::Path;
    use std::sync::{Arc, mpsc};
    use std::thread;
    use xylem_library::registry::Registry;
    use xylem_node::ShareOptions;

    /// `xylem service run`
    pub(super) fn run(args: &RunArgs, common: &Common, out: &mut Out) -> Result<Exit, Failure> {
        let store = super::store(common)?;
        let folder = Registry::folder(&store)?;
        let _lock = lock(&folder)?;
        let registry = Registry::load(&store)?;
        let shown = args.metrics.as_deref().map(metrics::listen).transpose()?;
        let options = ShareOptions {
            listen: args.links()?,
            announce: args.announce.clone(),
            relays: relays(&args.relay, common)?,
            accept_open: args.answer.accept_open,
            beside: AnnounceArgs::of_service(args.public, &args.dht).options(common)?,
            store: store.clone(),
            ..ShareOptions::default()
        };
        let stop = stop::on_signals()?;
        out.ends_with(&stop);
        out.runs_as("service", &store);
        let listener = control::listen(&store)?;
        let shown_at = shown.as_ref().and_then(|shown| shown.local_addr().ok());
        let (end, ended) = mpsc::channel();
        let (mut kept, mut no_thread) = (None, None);
        let port = registry.port;
        let ready = |handle, port| {
            let keeper = Arc::new(Keeper::new(&store, registry, port, handle, &stop));
            kept = Some(keeper.clone());
            // These threads end with the process: what they do is whole at every moment.
            let answers = keeper.clone();
            let start =
                |work: Box<dyn FnOnce() + Send>| thread::Builder::new().spawn(work).map(drop);
            let mut started = start(Box::new(move || {
                control::answer_all(&listener, move |request, tell| answers.answer(request, tell));
            }));
            if let Some(shown) = shown {
                let keeper = keeper.clone();
                let show = Box::new(move || metrics::answer_all(&shown, move || page(&keeper)));
                started = started.and_then(|()| start(show));
            }
            match started.and_then(|()| start(Box::new(move || keeper.keep(&ended)))) {
                Ok(()) => notify(b"READY=1"),
                Err(e) => {
                    no_thread = Some(Failure::no_thread(&e));
                    stop.raise();
                }
            }
        };
        if let Some(at) = shown_at {
            out.note(&format!("Metrics at http://{at}/metrics"));
        }
        let served = xylem_node::serve(&options, port, &stop, ready, &mut |event| out.event(event));
        drop(end);
        control::close(&store);
        if let (Some(keeper), Ok(snapshot)) = (kept, &served) {
            keeper.save(snapshot);
        }
        out.take_broken()?;
        served?;
        no_thread.map_or(Ok(Exit::Done), Err)
    }

    /// One background node a store.
    fn lock(folder: &Path) -> Result<File, Failure> {
        let path = folder.join("lock");
        let wrong = |e| Failure::new(Exit::Local, format!("cannot lock {}: {e}", path.display()));
        let file = File::create(&path).map_err(wrong)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                Err(Failure::new(Exit::Local, "a background node of this store runs already"))
            }
            Err(TryLockError::Error(e)) => Err(wrong(e)),
        }
    }

    /// Tells systemd, where it asks for that (sd_notify(3)).
    fn notify(state: &[u8]) {
        let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
        let Ok(datagram) = UnixDatagram::unbound() else { return };
        #[cfg(target_os = "linux")]
        if let Some(name) = socket.as_encoded_bytes().strip_prefix(b"@") {
            use std::os::linux::net::SocketAddrExt as _;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name);
            // Whoever does not listen gives the service up in time; it is all that can be done.
            let _ = address.and_then(|address| datagram.send_to_addr(state, &address));
            return;
        }
        let _ = datagram.send_to(state, socket);
    }
}
