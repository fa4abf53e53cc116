//! `xylem ndn node`: the daemon, a forwarder with faces of every kind.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::metrics::{self, Counts, MetricsArgs};
use crate::output::Out;
use crate::settings;
use crate::shaping::ShapeArgs;
use crate::showing::AnswerArgs;
use crate::stop;
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::PoisonError;
use xylem_node::{Event, NodeConfig, PeerUri};

/// Runs an NDN forwarder for programs and other forwarders
///
/// Programs reach it through a Unix socket (/run/xylem/xylem.sock for root, else below $XDG_RUNTIME_DIR, or without that
/// in /tmp/xylem-UID), others by UDP and TCP on port 6363, WebSocket on 9696 and the encrypted link on 7348. It is
/// managed by the NFD protocol (`xylem ndn ctl`, or the tools of NFD and NDNd), and reads the table [node] of the settings
/// file.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem ndn node                                   at the usual places
  xylem ndn node --listen unix:///tmp/ndn.sock     there and nowhere else
  xylem ndn node --config node.toml                with settings of your own, such as a repository
  xylem share film.mkv --via unix:///tmp/ndn.sock  something to fetch through it

",
    exit_help!()
))]
pub(crate) struct NodeArgs {
    /// Listen at this URI, not where the settings say
    ///
    /// unix:///PATH, udp://HOST:PORT, tcp://HOST:PORT, ws://HOST:PORT or xylem://HOST:PORT (encrypted; within TCP as
    /// xylem+tls://, xylem+ws://, xylem+wss:// or xylem+doh://); can be repeated.
    #[arg(
        long,
        value_name = "ADDR",
        env = "XYLEM_NODE_LISTEN",
        hide_env_values = true,
        value_delimiter = ','
    )]
    listen: Vec<PeerUri>,

    #[command(flatten)]
    metrics: MetricsArgs,

    #[command(flatten)]
    answer: AnswerArgs,

    #[command(flatten)]
    shape: ShapeArgs,
}

/// Runs `xylem ndn node`.
pub(crate) fn run(args: NodeArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let mut config = configuration(common)?;
    if !args.listen.is_empty() {
        config.listen = Some(args.listen);
    }
    config.links = args.shape.over(&config.links);
    config.accept_open |= args.answer.accept_open;
    let counts = Counts::default();
    if let Some(listener) = args.metrics.listen()? {
        if config.repo.is_none() {
            let what = "--metrics: the counts of `xylem ndn node` are those of its repository, and the settings have no \
                        table [node.repo]; for all else type `xylem ndn ctl status`";
            return Err(CommandFailure::new(Exit::Usage, what));
        }
        metrics::show(listener, counts.clone(), page, out)?;
    }
    serve("node", config, out, |event| {
        if let Event::Repository { counts: latest, .. } = event {
            counts.lock().unwrap_or_else(PoisonError::into_inner).clone_from(latest);
        }
    })
}

/// The counts of the repository, for Prometheus.
fn page(counts: &BTreeMap<&'static str, u64>) -> String {
    let mut page = String::new();
    for (name, count) in counts {
        let (name, kind, help) = match *name {
            "stored_packets" => ("packets", "gauge", "Packets in the repository."),
            "stored_bytes" => ("bytes", "gauge", "Bytes that they take on disk."),
            "quota_bytes" => ("quota_bytes", "gauge", "Bytes that they may take."),
            "inserted" => ("inserted_total", "counter", "Packets that commands have inserted."),
            "removed" => ("removed_total", "counter", "Packets that commands have removed."),
            "refused" => ("refused_total", "counter", "Commands that were refused."),
            _ => continue,
        };
        let name = format!("xylem_repo_{name}");
        // Writing to a string cannot fail.
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {count}");
    }
    page
}

/// Runs a node until a signal ends it. `xylem ui` shows it as this verb; `see` gets each event before it is printed.
pub(crate) fn serve(
    verb: &str,
    config: NodeConfig,
    out: &mut Out,
    mut see: impl FnMut(&Event),
) -> Result<Exit, CommandFailure> {
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    out.runs_as(verb, &config.store);
    let ran = xylem_node::run_node(config, &stop, &mut |event| {
        see(&event);
        out.event(event);
    });
    out.take_broken()?;
    ran?;
    Ok(Exit::Done)
}

/// The settings of the table [node], or the usual ones if there is no settings file.
pub(crate) fn configuration(common: &Common) -> Result<NodeConfig, CommandFailure> {
    let store = common.store()?;
    match common.settings() {
        Some(path) => {
            settings::read(&path, store).map_err(|what| CommandFailure::new(Exit::Usage, what))
        }
        None => Ok(NodeConfig::new(store)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_count_of_a_repository() {
        let names =
            ["stored_packets", "stored_bytes", "quota_bytes", "inserted", "removed", "refused"];
        let page = page(&names.into_iter().zip(1..).collect());
        assert_eq!(page.lines().count(), 3 * names.len(), "{page}");
        assert!(page.contains("# TYPE xylem_repo_packets gauge\nxylem_repo_packets 1\n"), "{page}");
        assert!(page.contains("\nxylem_repo_refused_total 6\n"), "{page}");
    }
}
