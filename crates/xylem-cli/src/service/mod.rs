//! `xylem service`: the background node of a user. It serves everything that was shared with it, also after restarts.

#[cfg(unix)]
pub(crate) mod control;
#[cfg(unix)]
mod folders;
#[cfg(unix)]
mod keeper;
pub(crate) mod listed;
pub(crate) mod messages;
pub(crate) mod unit;

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::finding::{AnnounceArgs, NearArgs, ServiceDhtArgs};
use crate::flags::{AnnouncedArgs, ListenArgs};
use crate::metrics::MetricsArgs;
use crate::output::Out;
use crate::output::text::count;
use crate::relays::RelayArgs;
use crate::shaping::ShapeArgs;
use crate::showing::AnswerArgs;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use xylem_node::{AnnounceOptions, NamedRelay};
use xylem_publish::registry::Registered;
use xylem_publish::served::ServedCounts;

/// A process that takes requests in a store.
#[derive(Clone, Copy)]
pub(crate) struct ControlPlace {
    /// The name of its socket.
    #[cfg_attr(not(unix), allow(dead_code))]
    socket: &'static str,
    /// Its name in messages.
    #[cfg_attr(not(unix), allow(dead_code))]
    process: &'static str,
}

/// The background node.
pub(crate) const SERVICE: ControlPlace =
    ControlPlace { socket: "control.sock", process: "the background node" };
/// A relay.
pub(crate) const RELAY: ControlPlace = ControlPlace { socket: "relay.sock", process: "the relay" };

/// Systems without a background node.
#[cfg(not(unix))]
pub(crate) mod control {
    use super::ControlPlace;
    pub(crate) use super::RELAY;
    use super::messages::{ServiceReply, ServiceRequest};
    use crate::exit::CommandFailure;
    use std::path::Path;

    /// No relay takes orders on this system.
    pub(crate) fn ask_at(
        _store: &Path,
        _place: ControlPlace,
        _request: &ServiceRequest,
        _tell: &mut dyn FnMut(ServiceReply),
    ) -> Result<Option<ServiceReply>, CommandFailure> {
        Ok(None)
    }

    /// There is no background node on this system.
    pub(crate) fn ask(
        _store: &Path,
        _request: &ServiceRequest,
        _tell: &mut dyn FnMut(ServiceReply),
    ) -> Result<Option<ServiceReply>, CommandFailure> {
        Ok(None)
    }
}

/// Runs this user's background node, which shares after restarts, too
///
/// While it runs, `xylem share PATH` hands over to it and returns. It serves everything that was shared with it on one
/// port, also after a restart; `xylem shares` lists that, `xylem unshare` ends a share. It reads what is shared. It
/// writes only to the store and to folders in step (`xylem sync DIR --background`).
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem service install                  starts it now and at each login
  xylem share film.mkv photos/           tickets, and back at once
  xylem shares                           lists them, with counts
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
    /// Run it until Ctrl-C or SIGTERM: what the unit starts
    Run(RunArgs),
    /// Have systemd run it now and at each login
    ///
    /// It runs whenever this user logs in or, if lingering is allowed, the machine starts.
    Install {
        #[command(flatten)]
        run: RunArgs,
        /// Only write the unit
        #[arg(long)]
        no_start: bool,
    },
    /// End it and remove the unit; what was shared stays in the list
    Remove,
    /// Report whether it runs; the exit status is 3 if not
    Status,
}

/// How the background node runs.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    listen: ListenArgs,

    #[command(flatten)]
    announced: AnnouncedArgs,

    #[command(flatten)]
    relay: RelayArgs,

    /// Announce all of it in the public DHT of BitTorrent [default: `public` in the settings]
    ///
    /// As `xylem share --public` does for one share.
    #[arg(long)]
    public: bool,

    #[command(flatten)]
    near: NearArgs,

    #[command(flatten)]
    dht: ServiceDhtArgs,

    #[command(flatten)]
    metrics: MetricsArgs,

    #[command(flatten)]
    answer: AnswerArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

impl RunArgs {
    /// All values given by flags or variables, as flags: a unit has no access to the variables of the shell that
    /// installs it.
    fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        let Self { listen, announced, relay, public, near, dht, metrics, answer, shape } = self;
        let AnswerArgs { accept_open } = answer;
        let mut flags = Vec::new();
        flags.extend(listen.listen.iter().map(|at| ("--listen", Some(at.clone()))));
        flags.extend(announced.announce.iter().map(|at| ("--announce", Some(at.to_string()))));
        flags.extend(relay.named().iter().map(|uri| ("--relay", Some(uri.to_string()))));
        flags.extend(metrics.metrics.iter().map(|at| ("--metrics", Some(at.clone()))));
        flags.extend(accept_open.then_some(("--accept-open", None)));
        flags.extend(public.then_some(("--public", None)));
        flags.extend(near.flags().map(|flag| (flag, None)));
        flags.extend(dht.flags());
        flags.extend(shape.flags().into_iter().map(|(flag, value)| (flag, Some(value))));
        flags
    }

    /// What to announce, and where.
    fn announces(&self, common: &Common) -> Result<AnnounceOptions, CommandFailure> {
        AnnounceArgs::of_service(self.public, &self.near, &self.dht).options(common)
    }
}

/// Runs `xylem service`.
pub(crate) fn run(
    args: ServiceArgs,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    if !cfg!(unix) {
        let what = "there is no background node on this system: it needs Unix sockets; `xylem share` \
                    serves as long as it runs";
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    match args.command {
        #[cfg(unix)]
        ServiceCommand::Run(args) => running::run(&args, common, out),
        #[cfg(not(unix))]
        ServiceCommand::Run(_) => Ok(Exit::Usage),
        ServiceCommand::Install { run, no_start } => {
            // A unit that could not start is not written.
            run.announces(common)?;
            if run.relay.named().iter().any(NamedRelay::has_token) {
                let what = "--relay with a token: all users of this machine can read a unit's flags; put the relay \
                            under `relay` in the settings";
                return Err(CommandFailure::new(Exit::Usage, what));
            }
            unit::install(&run, !no_start, common, out)
        }
        ServiceCommand::Remove => unit::remove(common, out),
        ServiceCommand::Status => unit::status(common, out),
    }
}

/// The store's absolute path; an error if it cannot be accessed.
pub(crate) fn store(common: &Common) -> Result<PathBuf, CommandFailure> {
    let store = absolute(&common.store()?)?;
    match std::fs::metadata(store.join("service")) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            let what = "name a store of your own with --store DIR";
            Err(CommandFailure::new(
                Exit::Local,
                format!("the store {}: {e}; {what}", store.display()),
            ))
        }
        _ => Ok(store),
    }
}

/// Makes a path absolute, and leaves the rest as it was given.
pub(crate) fn absolute(path: &std::path::Path) -> Result<PathBuf, CommandFailure> {
    std::path::absolute(path)
        .map_err(|e| CommandFailure::new(Exit::Usage, format!("{}: {e}", path.display())))
}

/// The failure for a path or id that is not shared.
pub(crate) fn not_shared(path: &std::path::Path, id: &str) -> CommandFailure {
    let shown = if path.exists() { path.to_string_lossy() } else { id.into() };
    let what = format!("{shown} is not shared in the background; `xylem shares` lists what is");
    CommandFailure::new(Exit::Usage, what)
}

/// The name of a share in messages: its path, and what distinguishes it from others of the same path.
fn called(
    path: &Path,
    name: Option<&str>,
    recipients: Option<&[String]>,
    exclude: &[String],
) -> String {
    let mut called = path.display().to_string();
    if let Some(name) = name {
        called += &format!(" as {name}");
    }
    if let Some(who) = recipients {
        called += &format!(" for {}", count(who.len() as u64, "reader"));
    }
    if !exclude.is_empty() {
        called += " in part";
    }
    called
}

/// The name in messages of a share of the list.
pub(crate) fn called_of(share: &Registered) -> String {
    row(share, ServedCounts::default(), None).called()
}

/// A share's row in the list. `why` is the reason if it is not served.
pub(crate) fn row(
    share: &Registered,
    counts: ServedCounts,
    why: Option<String>,
) -> messages::ShareRow {
    messages::ShareRow {
        id: share.id(),
        path: share.path.clone(),
        name: share.terms.name.clone(),
        recipients: share.terms.recipients.clone(),
        exclude: share.terms.exclude.clone().unwrap_or_default(),
        lan: share.terms.lan,
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
    use super::folders::FolderProcesses;
    use super::keeper::ShareKeeper;
    use super::{RunArgs, control, unit};
    use crate::cli::Common;
    use crate::exit::{CommandFailure, Exit};
    use crate::metrics;
    use crate::output::Out;
    use crate::stop;
    use crate::values::stored_links;
    use std::fs::{File, TryLockError};
    use std::os::unix::net::UnixDatagram;
    use std::path::Path;
    use std::sync::{Arc, mpsc};
    use std::thread;
    use xylem_node::ShareOptions;
    use xylem_publish::registry::Registry;

    /// Runs `xylem service run`.
    pub(super) fn run(
        args: &RunArgs,
        common: &Common,
        out: &mut Out,
    ) -> Result<Exit, CommandFailure> {
        let store = super::store(common)?;
        let folder = Registry::folder(&store)?;
        let _lock = lock(&folder)?;
        let registry = Registry::load(&store)?;
        let folders = Arc::new(FolderProcesses::load(&store, unit::settings_flags(common)?)?);
        let again = args.listen.listen.is_empty();
        let listen = if again { registry.listen.clone() } else { args.listen.listen.clone() };
        if again && !listen.is_empty() {
            let at = listen.join(",");
            out.note(&format!("Listening at {at}, as last time; --listen PORT: all interfaces"));
        }
        let shown = args.metrics.listen()?;
        let options = share_options(args, common, &listen, &store)?;
        let stop = stop::on_signals()?;
        out.ends_with(&stop);
        out.runs_as("service", &store);
        let listener = control::listen(&store)?;
        let shown_at = shown.as_ref().and_then(|shown| shown.local_addr().ok());
        let (end, ended) = mpsc::channel();
        let (mut kept, mut no_thread) = (None, None);
        let port = registry.port;
        let ready = |handle, port| {
            let keeper = Arc::new(ShareKeeper::new(&store, registry, port, listen, handle, &stop));
            kept = Some(keeper.clone());
            // These threads end with the process; what they write is consistent at every moment.
            let (answers, of_folders, keeps) = (keeper.clone(), folders.clone(), folders.clone());
            let start =
                |work: Box<dyn FnOnce() + Send>| thread::Builder::new().spawn(work).map(drop);
            let mut started = start(Box::new(move || {
                control::answer_all(&listener, move |request, tell| {
                    let of_folders = of_folders.answer(&request);
                    of_folders.unwrap_or_else(|| answers.answer(request, tell))
                });
            }));
            started = started.and_then(|()| start(Box::new(move || keeps.keep())));
            if let Some(shown) = shown {
                let keeper = keeper.clone();
                let show = Box::new(move || metrics::answer_all(&shown, move || keeper.page()));
                started = started.and_then(|()| start(show));
            }
            match started.and_then(|()| start(Box::new(move || keeper.keep(&ended)))) {
                Ok(()) => notify(b"READY=1"),
                Err(e) => {
                    no_thread = Some(CommandFailure::no_thread(&e));
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
        folders.end();
        if let (Some(keeper), Ok(snapshot)) = (kept, &served) {
            keeper.save(snapshot);
        }
        out.take_broken()?;
        served?;
        no_thread.map_or(Ok(Exit::Done), Err)
    }

    fn share_options(
        args: &RunArgs,
        common: &Common,
        listen: &[String],
        store: &Path,
    ) -> Result<ShareOptions, CommandFailure> {
        let chosen = args.relay.chosen(common)?;
        Ok(ShareOptions {
            listen: stored_links(listen)?,
            announce: args.announced.announce.clone(),
            relays: chosen.relays,
            relay_list: chosen.list,
            accept_open: args.answer.accept_open,
            beside: args.announces(common)?,
            links: args.shape.links(),
            store: store.to_path_buf(),
            ..ShareOptions::default()
        })
    }

    /// Takes the lock that allows one background node per store.
    fn lock(folder: &Path) -> Result<File, CommandFailure> {
        let path = folder.join("lock");
        let wrong =
            |e| CommandFailure::new(Exit::Local, format!("cannot lock {}: {e}", path.display()));
        let file = File::create(&path).map_err(wrong)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(CommandFailure::new(
                Exit::Local,
                "a background node of this store runs already; see `xylem service status`",
            )),
            Err(TryLockError::Error(e)) => Err(wrong(e)),
        }
    }

    /// Notifies systemd if it asks for that (sd_notify(3)).
    fn notify(state: &[u8]) {
        let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
        let Ok(datagram) = UnixDatagram::unbound() else { return };
        #[cfg(target_os = "linux")]
        if let Some(name) = socket.as_encoded_bytes().strip_prefix(b"@") {
            use std::os::linux::net::SocketAddrExt as _;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name);
            // A failure needs no handling: systemd ends a service that does not notify in time.
            let _ = address.and_then(|address| datagram.send_to_addr(state, &address));
            return;
        }
        let _ = datagram.send_to(state, socket);
    }
}
