//! Metrics of a node for Prometheus: a text page over HTTP, on loopback unless another address is given.

use crate::exit::{CommandFailure, Exit};
use crate::http::{self, Response};
use crate::output::Out;
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::Display;
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

/// The last counts that a node has reported.
pub(crate) type Counts = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// Serves counts as a page until the process ends.
pub(crate) fn show(
    listener: TcpListener,
    counts: Counts,
    page: fn(&BTreeMap<&'static str, u64>) -> String,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let at = listener.local_addr().ok();
    let page = move || page(&counts.lock().unwrap_or_else(PoisonError::into_inner));
    let thread = thread::Builder::new().name("metrics".into());
    thread.spawn(move || answer_all(&listener, page)).map_err(|e| CommandFailure::no_thread(&e))?;
    if let Some(at) = at {
        out.note(&format!("Metrics at http://{at}/metrics"));
    }
    Ok(())
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
