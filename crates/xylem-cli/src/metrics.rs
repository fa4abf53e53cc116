//! Metrics of a node for Prometheus: a text page over HTTP, on loopback unless another address is given.

use crate::exit::{CommandFailure, Exit};
use crate::http::{self, Response};
use crate::output::Out;
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use xylem_node::look_up_place;
use xylem_peers::reachable::{HostPort, HostPortError};

/// The flag of commands that count what they do.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MetricsArgs {
    /// Show counts for Prometheus: PORT or HOST:PORT
    ///
    /// They are at http://ADDR/metrics; PORT alone is on 127.0.0.1.
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
}

impl MetricsArgs {
    /// Shows `page` at the address until the process ends, if an address is given.
    pub(crate) fn show(
        &self,
        page: impl Fn() -> String + Send + Sync + 'static,
        out: &mut Out,
    ) -> Result<(), CommandFailure> {
        let Some(listener) = self.listen()? else { return Ok(()) };
        let at = listener.local_addr().ok();
        let thread = thread::Builder::new().name("metrics".into());
        thread
            .spawn(move || answer_all(&listener, page))
            .map_err(|e| CommandFailure::no_thread(&e))?;
        if let Some(at) = at {
            out.note(&format!("Metrics at http://{at}/metrics"));
        }
        Ok(())
    }

    /// Listens at the address, if one is given.
    pub(crate) fn listen(&self) -> Result<Option<TcpListener>, CommandFailure> {
        let Some(text) = &self.metrics else { return Ok(None) };
        let at = place("--metrics", text)?;
        let failed = |e| format!("cannot show metrics at {at}: {e}");
        TcpListener::bind(at).map(Some).map_err(|e| CommandFailure::new(Exit::Local, failed(e)))
    }
}

/// The address of the page that `flag` asks for: PORT, on loopback, or HOST:PORT.
pub(crate) fn place(flag: &str, text: &str) -> Result<SocketAddr, CommandFailure> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let wrong =
        |why: &dyn Display| CommandFailure::new(Exit::Usage, format!("{flag} {text}: {why}"));
    let place: HostPort = text.parse().map_err(|why: HostPortError| wrong(&why))?;
    Ok(look_up_place(&place).map_err(|why| wrong(&why))?[0])
}

/// The page of counts that are shown by their names after `prefix`. `gauges` are present numbers; the others count
/// events.
pub(crate) fn counts_page(
    prefix: &str,
    counts: &BTreeMap<&'static str, u64>,
    gauges: &[&str],
    help: fn(&str) -> &'static str,
) -> String {
    let mut page = String::new();
    for (name, count) in counts {
        let help = help(name);
        let (name, kind) = match gauges.contains(name) {
            true => (format!("{prefix}_{name}"), "gauge"),
            false => (format!("{prefix}_{name}_total"), "counter"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {count}");
    }
    page
}

/// The last counts that a node has reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastCounts(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl LastCounts {
    /// Replaces them.
    pub(crate) fn set(&self, counts: &BTreeMap<&'static str, u64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(counts);
    }

    /// Returns them.
    pub(crate) fn get(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Accepts and answers connections as long as the process runs.
pub(crate) fn answer_all(
    listener: &TcpListener,
    page: impl Fn() -> String + Send + Sync + 'static,
) {
    http::serve(listener, move |request| match request.path.as_str() {
        "/metrics" => Response::ok("text/plain; version=0.0.4; charset=utf-8", page().into_bytes()),
        _ => Response::refused("404 Not Found", "there is one page here, at /metrics"),
    });
}
