//! [`PageData`]: collects what `xylem ui` shows, as JSON: notes of running processes, the background node's shares, folders in step, and the
//! forwarder's tables.
//!
//! Nothing is collected while no page is open. Threads of their own query the background node and the forwarder, so
//! that one that hangs delays no page.

use crate::ctl::DatasetPoller;
use crate::exit::CommandFailure;
use crate::output::json_line;
use crate::running;
use crate::service::control;
use crate::service::messages::{ServiceReply, ServiceRequest};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use xylem_base::Stop;
use xylem_node::PeerUri;

/// How long collected data are reused.
const FRESH: Duration = Duration::from_millis(500);
/// How often the background node and the forwarder are queried while a page is open.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// See the module's documentation.
pub(super) struct PageData {
    store: PathBuf,
    runs: Mutex<Option<(Instant, String)>>,
    folders: PolledAnswer,
    service: PolledAnswer,
    node: PolledAnswer,
}

impl PageData {
    /// Collects from the processes on `store`, and from the forwarder at `at` (`None`: the default one).
    pub(super) fn new(
        store: PathBuf,
        at: Option<PeerUri>,
        stop: &Stop,
    ) -> Result<Self, CommandFailure> {
        let (of, mut node) = (store.clone(), DatasetPoller::new(at, stop));
        let of_folders = store.clone();
        Ok(Self {
            store,
            runs: Mutex::default(),
            folders: PolledAnswer::begin("folders", move || {
                json!(xylem_sync::all_statuses(&of_folders))
            })?,
            service: PolledAnswer::begin("service", move || service(&of))?,
            node: PolledAnswer::begin("node", move || node.look().unwrap_or(Value::Null))?,
        })
    }

    /// The parts with their names; each is one line of JSON.
    pub(super) fn parts(&self) -> [(&'static str, String); 4] {
        [
            ("runs", self.runs()),
            ("folders", self.folders.last()),
            ("service", self.service.last()),
            ("node", self.node.last()),
        ]
    }

    fn runs(&self) -> String {
        let mut seen = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        match &*seen {
            Some((at, text)) if at.elapsed() < FRESH => text.clone(),
            _ => {
                let text = json_line(&running::notes(&self.store));
                *seen = Some((Instant::now(), text.clone()));
                text
            }
        }
    }
}

/// The last answer of a service that is queried repeatedly, as long as the answers are read.
struct PolledAnswer {
    last: Arc<Mutex<String>>,
    wanted: Arc<AtomicBool>,
}

impl PolledAnswer {
    fn begin(
        name: &str,
        mut ask: impl FnMut() -> Value + Send + 'static,
    ) -> Result<Self, CommandFailure> {
        let (last, wanted) =
            (Arc::new(Mutex::new("null".to_owned())), Arc::new(AtomicBool::new(true)));
        let (into, is_wanted) = (last.clone(), wanted.clone());
        // The thread ends with the process.
        let asking = thread::Builder::new().name(name.into()).spawn(move || {
            loop {
                if is_wanted.swap(false, Ordering::Relaxed) {
                    let answer = ask().to_string();
                    *into.lock().unwrap_or_else(PoisonError::into_inner) = answer;
                }
                thread::sleep(ASK_EVERY);
            }
        });
        asking.map_err(|e| CommandFailure::no_thread(&e))?;
        Ok(Self { last, wanted })
    }

    fn last(&self) -> String {
        self.wanted.store(true, Ordering::Relaxed);
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The shares of the background node, without tickets; `null` if none runs.
fn service(store: &Path) -> Value {
    match control::ask(store, &ServiceRequest::Shares, &mut |_| {}) {
        Ok(Some(ServiceReply::Shares { shares })) => shares
            .iter()
            .map(|row| {
                json!({
                    "path": row.called(), "bytes": row.bytes, "files": row.files,
                    "since_s": row.since_s, "sent": row.sent, "peers": row.peers,
                    "fetched": row.fetched, "served": row.served, "why": row.why,
                })
            })
            .collect(),
        _ => Value::Null,
    }
}
