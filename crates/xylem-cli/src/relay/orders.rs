//! `xylem relay top`, `ban`, `unban` and `drain`: orders to the relay that runs with this store, and how that relay takes
//! them: at a socket in its store that only its user can enter, in the form of the background node's requests.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::output::text::{bytes, clean, count};
use crate::service;
use crate::service::control::{self, RELAY};
use crate::service::messages::{RelayLoadReply, ServiceReply, ServiceRequest};
use crate::stop;
use clap::Subcommand;
use serde::Serialize;
use std::io::IsTerminal;
use std::thread;
use std::time::{Duration, Instant};
use xylem_node::RelayBan;

/// Time between two tables of `top`.
const INTERVAL: Duration = Duration::from_secs(2);
/// Longest time for which a relay may be drained.
const MAX_WITHIN: u64 = 86_400;

#[derive(Debug, Subcommand)]
pub(crate) enum RelayCommand {
    /// Show the clients and networks that use the relay, every two seconds
    ///
    /// Networks of 24 bits (IPv6: 48) and link keys, with bytes from and to them in the last second. Of clients only those
    /// are listed that have any. It asks the relay of this machine that runs with the same --store.
    Top {
        /// Lines of each table
        #[arg(long, value_name = "COUNT", default_value_t = 10,
              value_parser = clap::value_parser!(u16).range(1..=1_000))]
        rows: u16,
        /// Show them once, and end
        #[arg(long)]
        once: bool,
    },
    /// Keep clients away by link key, address or network; without any, list the bans
    ///
    /// Their registrations end at once, and new ones are refused, also after a restart of the relay, until `unban`.
    Ban {
        /// A link key, an address, or a network such as 192.0.2.0/24
        #[arg(value_name = "KEY|HOST|NETWORK")]
        clients: Vec<RelayBan>,
    },
    /// End bans
    Unban {
        /// A link key, an address or a network, as `ban` lists it
        #[arg(value_name = "KEY|HOST|NETWORK", required = true)]
        clients: Vec<RelayBan>,
    },
    /// Take no more clients, and end the relay when no pair has used it for ten seconds
    ///
    /// A pair that has sent nothing for ten seconds does not count, and loses its way through this relay.
    Drain {
        /// End after this many seconds in any case
        #[arg(long, value_name = "SECONDS", default_value_t = 300,
              value_parser = clap::value_parser!(u64).range(0..=MAX_WITHIN))]
        within: u64,
    },
}

/// An answer as an event of `docs/spec/json-events.md`.
#[derive(Debug, Serialize)]
#[serde(tag = "event")]
pub(crate) enum RelayOrderEvent {
    #[serde(rename = "relay_banned")]
    Banned { client: String, removed: u64 },
    #[serde(rename = "relay_unbanned")]
    Unbanned { client: String },
    #[serde(rename = "relay_bans")]
    Bans { bans: Vec<String> },
    #[serde(rename = "relay_draining")]
    Draining { seconds: u64 },
}

/// Gives an order to the relay of the store.
fn ask(common: &Common, request: &ServiceRequest) -> Result<ServiceReply, CommandFailure> {
    let store = service::store(common)?;
    let answer = control::ask_at(&store, RELAY, request, &mut |_| {})?;
    answer.ok_or_else(|| {
        let what = format!(
            "no relay runs with the store {}; name the relay's with --store DIR (a service's is /var/lib/xylem-relay)",
            store.display()
        );
        CommandFailure::new(Exit::Unreachable, what)
    })
}

fn strange() -> CommandFailure {
    let what = "the relay's answer is for another request: it may run another version of xylem; restart it";
    CommandFailure::new(Exit::Local, what)
}

/// Runs one of them.
pub(super) fn run(
    command: RelayCommand,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    match command {
        RelayCommand::Top { rows, once } => return top(rows, once, common, out),
        RelayCommand::Ban { clients } if clients.is_empty() => {
            let ServiceReply::RelayBans { bans } = ask(common, &ServiceRequest::RelayBans)? else {
                return Err(strange());
            };
            if !out.is_json() {
                bans.iter().try_for_each(|ban| out.line(ban))?;
            }
            out.json(&RelayOrderEvent::Bans { bans })?;
        }
        RelayCommand::Ban { clients } => {
            for client in clients.iter().map(ToString::to_string) {
                let request = ServiceRequest::RelayBan { client: client.clone() };
                let ServiceReply::RelayBanned { removed } = ask(common, &request)? else {
                    return Err(strange());
                };
                out.note(&format!("{client} is banned; {} ended", count(removed, "registration")));
                out.json(&RelayOrderEvent::Banned { client, removed })?;
            }
        }
        RelayCommand::Unban { clients } => {
            for client in clients.iter().map(ToString::to_string) {
                let request = ServiceRequest::RelayUnban { client: client.clone() };
                let ServiceReply::RelayUnbanned = ask(common, &request)? else {
                    return Err(strange());
                };
                out.note(&format!("{client} is banned no more"));
                out.json(&RelayOrderEvent::Unbanned { client })?;
            }
        }
        RelayCommand::Drain { within: seconds } => {
            let ServiceReply::RelayDraining = ask(common, &ServiceRequest::RelayDrain { seconds })?
            else {
                return Err(strange());
            };
            out.note(&format!(
                "the relay takes no more clients, and ends when no pair uses it, in {seconds} s at the latest"
            ));
            out.json(&RelayOrderEvent::Draining { seconds })?;
        }
    }
    Ok(Exit::Done)
}

/// Shows the load until a signal.
fn top(rows: u16, once: bool, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let clears = !once && !out.is_json() && std::io::stdout().is_terminal();
    loop {
        let began = Instant::now();
        let ServiceReply::RelayLoad(load) = ask(common, &ServiceRequest::RelayLoad { rows })?
        else {
            return Err(strange());
        };
        if !out.is_json() {
            // Home, and clear what is below: the table stays in its place.
            let before = if clears { "\x1b[H\x1b[J" } else { "" };
            out.exact_line(&format!("{before}{}", table(&load)))?;
        }
        out.json(&load)?;
        if once {
            return Ok(Exit::Done);
        }
        while began.elapsed() < INTERVAL {
            if stop.raised() {
                return Ok(Exit::Done);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The load as text. The relay may be another user's, so its texts are escaped.
fn table(load: &RelayLoadReply) -> String {
    let per_second = |count: u64| format!("{}/s", bytes(count));
    let mut lines = vec![format!(
        "{}, {}, {}, {} dropped since the start",
        count(load.registrations, "registration"),
        count(load.circuits, "pair"),
        per_second(load.bytes_per_second),
        count(load.dropped, "datagram"),
    )];
    lines.push(format!("{:<40} {:>13} {:>14}", "network", "registrations", "from and to it"));
    for site in &load.sites {
        let rate = per_second(site.bytes_per_second);
        lines.push(format!("{:<40} {:>13} {rate:>14}", clean(&site.site), site.registrations));
    }
    lines.push(format!("{:<64} {:>6} {:>14}  host", "client", "pairs", "from and to it"));
    for client in &load.clients {
        let (key, host) = (clean(&client.key), clean(&client.host));
        let rate = per_second(client.bytes_per_second);
        lines.push(format!("{key:<64} {:>6} {rate:>14}  {host}", client.circuits));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(unix)]
pub(crate) use serving::OpenRelay;

#[cfg(unix)]
mod serving {
    use super::{Exit, Out, RELAY, ServiceReply, ServiceRequest, control, count};
    use crate::service::messages::RelayLoadReply;
    use std::fs::File;
    use std::path::{Path, PathBuf};
    use std::time::Duration;
    use std::{io, thread};
    use xylem_node::{MAX_BANS, RelayAnswer, RelayBan, RelayControl, RelayOrder};
    use xylem_publish::registry::Registry;

    /// A relay that takes orders as long as this lives.
    pub(crate) struct OpenRelay {
        store: PathBuf,
        _lock: File,
    }

    impl OpenRelay {
        /// Listens in the store. A relay that cannot do so runs, and takes no orders.
        pub(crate) fn new(store: &Path, relay: RelayControl, out: &mut Out) -> Option<Self> {
            match Self::open(store, relay) {
                Ok(open) => Some(open),
                Err(why) => {
                    out.warn(&format!(
                        "`xylem relay top` and `xylem relay ban` do not reach this relay: {why}"
                    ));
                    None
                }
            }
        }

        fn open(store: &Path, relay: RelayControl) -> Result<Self, String> {
            let folder = Registry::folder(store).map_err(|e| e.to_string())?;
            let lock = File::create(folder.join("relay.lock")).map_err(|e| e.to_string())?;
            lock.try_lock().map_err(|_| "another relay runs with this store")?;
            let listener = control::listen_in(store, RELAY).map_err(|e| e.message)?;
            let answers = move || {
                control::answer_all(&listener, move |request, _| answer(&relay, request));
            };
            let started = thread::Builder::new().name("orders".into()).spawn(answers);
            started.map_err(|e: io::Error| e.to_string())?;
            Ok(Self { store: store.to_owned(), _lock: lock })
        }
    }

    impl Drop for OpenRelay {
        fn drop(&mut self) {
            control::close_at(&self.store, RELAY);
        }
    }

    fn answer(relay: &RelayControl, request: ServiceRequest) -> ServiceReply {
        let failed =
            |exit: Exit, message: String| ServiceReply::Failed { exit: exit as u8, message };
        let ban = |client: &str| {
            let wrong = |e| failed(Exit::Usage, format!("{client}: {e}"));
            client.parse::<RelayBan>().map_err(wrong)
        };
        let order = match &request {
            ServiceRequest::RelayLoad { rows } => Ok(RelayOrder::Load((*rows).into())),
            ServiceRequest::RelayBan { client } => ban(client).map(RelayOrder::Ban),
            ServiceRequest::RelayUnban { client } => ban(client).map(RelayOrder::Unban),
            ServiceRequest::RelayBans => Ok(RelayOrder::Bans),
            ServiceRequest::RelayDrain { seconds } => {
                Ok(RelayOrder::Drain(Duration::from_secs((*seconds).min(super::MAX_WITHIN))))
            }
            _ => Err(failed(Exit::Usage, "this is a relay, which shares nothing".into())),
        };
        let order = match order {
            Ok(order) => order,
            Err(reply) => return reply,
        };
        let Some(answer) = relay.ask(order) else {
            return failed(Exit::Local, "the relay has no time for an answer; try again".into());
        };
        match answer {
            RelayAnswer::Load(load) => ServiceReply::RelayLoad(RelayLoadReply::of(&load)),
            RelayAnswer::Banned(Some(removed)) => {
                ServiceReply::RelayBanned { removed: removed as u64 }
            }
            RelayAnswer::Banned(None) => {
                failed(Exit::Usage, format!("there are {} already", count(MAX_BANS as u64, "ban")))
            }
            RelayAnswer::Unbanned(true) => ServiceReply::RelayUnbanned,
            RelayAnswer::Unbanned(false) => failed(
                Exit::Usage,
                "there is no such ban; `xylem relay ban` lists those that there are".into(),
            ),
            RelayAnswer::NotStored(why) => failed(Exit::Local, why),
            RelayAnswer::Bans(bans) => {
                ServiceReply::RelayBans { bans: bans.iter().map(ToString::to_string).collect() }
            }
            RelayAnswer::Draining => ServiceReply::RelayDraining,
            RelayAnswer::NoRelayAlone => failed(
                Exit::Usage,
                "this relay is part of `xylem ndn node`, which does more; end that with a signal"
                    .into(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;
    use crate::service::messages::{ClientLoadReply, SiteLoadReply};

    #[test]
    fn answers_are_documented() {
        assert_documented(&RelayOrderEvent::Banned { client: "c".into(), removed: 1 });
        assert_documented(&RelayOrderEvent::Unbanned { client: "c".into() });
        assert_documented(&RelayOrderEvent::Bans { bans: vec![] });
        assert_documented(&RelayOrderEvent::Draining { seconds: 1 });
    }

    #[test]
    fn the_table_names_networks_and_clients() {
        let load = RelayLoadReply {
            registrations: 2,
            circuits: 1,
            bytes_per_second: 2_048,
            dropped: 0,
            sites: vec![SiteLoadReply {
                site: "192.0.2.0/24".into(),
                registrations: 2,
                bytes_per_second: 4_096,
            }],
            clients: vec![ClientLoadReply {
                key: "a5".repeat(32),
                host: "192.0.2.7".into(),
                circuits: 1,
                bytes_per_second: 2_048,
            }],
        };
        assert_documented(&load);
        let text = table(&load);
        assert!(
            text.starts_with("2 registrations, 1 pair, 2.00 KiB/s, 0 datagrams dropped"),
            "{text}"
        );
        assert!(text.contains("192.0.2.0/24") && text.contains("192.0.2.7"), "{text}");
        let odd = || "\x1b[2J\u{202e}\n".to_string();
        let mut load = load;
        load.sites[0].site = odd();
        (load.clients[0].key, load.clients[0].host) = (odd(), odd());
        let escaped = table(&load);
        assert!(!escaped.contains(['\x1b', '\u{202e}']), "{escaped}");
        assert_eq!(escaped.lines().count(), text.lines().count());
    }
}
