//! The log for whoever looks into trouble: `-vv`, `-vvv` or `XYLEM_LOG` put what the node's room says
//! of faces, links and fetches on standard error, a line each, as text or as a JSON object.
//!
//! It is no interface: scripts read JSON events. Whoever writes to it keeps keys, tickets (whoever has
//! one may fetch) and what mail says out of it.

use crate::cli::{Common, LogFormat};
use crate::exit::{Exit, Failure};
use crate::output::text::clean;
use serde::Serialize;
use std::fmt::{Debug, Write as _};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The variable that asks for the log: off, error, warn, info, debug or trace.
const VARIABLE: &str = "XYLEM_LOG";

/// Begins to log, if anybody wants that.
pub(crate) fn start(common: &Common) -> Result<(), Failure> {
    let asked = std::env::var(VARIABLE).unwrap_or_default();
    let level = match (asked.as_str(), common.verbose) {
        ("", 0 | 1) => return Ok(()),
        ("", 2) => LevelFilter::DEBUG,
        ("", _) => LevelFilter::TRACE,
        (asked, _) => asked.parse().map_err(|_| {
            let levels = "off, error, warn, info, debug or trace";
            Failure::new(Exit::Usage, format!("{VARIABLE}: {asked:?} is none of {levels}"))
        })?,
    };
    if level != LevelFilter::OFF {
        let log = Log { level, format: common.log_format, started: Instant::now() };
        // Only this sets one, and once.
        let _ = tracing::subscriber::set_global_default(log);
    }
    Ok(())
}

/// Whether all that is written to standard error is a JSON object a line.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// From now on what people are told on standard error has the form of the log, where that is JSON.
pub(crate) fn shape_lines(format: LogFormat) {
    AS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Writes a line that is told to people to standard error: behind its prefix, or as an object of the log.
pub(super) fn say(level: Level, prefix: &str, text: &str) {
    let line = if AS_JSON.load(Ordering::Relaxed) {
        let fields = [("message".to_owned(), text.into())].into_iter().collect();
        row(level, "xylem", fields)
    } else {
        format!("{prefix}{text}")
    };
    // Nobody is left to be told where this write fails.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

fn row(level: Level, target: &str, fields: serde_json::Map<String, serde_json::Value>) -> String {
    let time_ms = xylem_node::wall_clock().microseconds() / 1_000;
    super::json_line(&Row { time_ms, level: level.as_str(), target, fields })
}

/// Writes each event at once. Spans are not kept: an event says what it is about.
struct Log {
    level: LevelFilter,
    format: LogFormat,
    started: Instant,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with("xylem")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = match self.format {
            LogFormat::Text => {
                let time = self.started.elapsed().as_secs_f64();
                let start = format!("{time:9.3} {:5} {}", metadata.level(), metadata.target());
                let mut line = Line(start);
                event.record(&mut line);
                line.0
            }
            LogFormat::Json => {
                let mut fields = Fields::default();
                event.record(&mut fields);
                row(*metadata.level(), metadata.target(), fields.0)
            }
        };
        line.push('\n');
        // Nobody is left to be told where this write fails.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// A line as JSON; what is said of it are fields of their own, `message` among them.
#[derive(Serialize)]
struct Row<'a> {
    /// Since 1970.
    time_ms: u64,
    level: &'a str,
    target: &'a str,
    #[serde(flatten)]
    fields: serde_json::Map<String, serde_json::Value>,
}

#[derive(Default)]
struct Fields(serde_json::Map<String, serde_json::Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let start = self.0.len();
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, ": {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        // What others say may stand in it: it neither begins a line nor commands a terminal.
        let said = self.0.split_off(start);
        self.0.push_str(&clean(&said));
    }
}
