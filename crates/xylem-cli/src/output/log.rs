//! The log for diagnosis: `-vv`, `-vvv` or `XYLEM_LOG` print the node's events about faces, links and fetches to
//! standard error, one line each, as text or as a JSON object.
//!
//! It is no stable interface: scripts read JSON events. Code that logs must leave out keys, tickets (which let anyone
//! fetch) and the content of mail.

use crate::cli::{Common, LogFormat};
use crate::exit::{CommandFailure, Exit};
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

/// The environment variable that sets the level: off, error, warn, info, debug or trace.
const VARIABLE: &str = "XYLEM_LOG";

/// Starts the log if a flag or the variable asks for it.
pub(crate) fn start(common: &Common) -> Result<(), CommandFailure> {
    let asked = std::env::var(VARIABLE).unwrap_or_default();
    let level = match (asked.as_str(), common.verbose) {
        ("", 0 | 1) => return Ok(()),
        ("", 2) => LevelFilter::DEBUG,
        ("", _) => LevelFilter::TRACE,
        (asked, _) => asked.parse().map_err(|_| {
            let levels = "off, error, warn, info, debug or trace";
            CommandFailure::new(Exit::Usage, format!("{VARIABLE}: {asked:?} is none of {levels}"))
        })?,
    };
    if level != LevelFilter::OFF {
        let log = LogSubscriber { level, format: common.log_format, started: Instant::now() };
        // Cannot fail: this is the only call, and it runs once.
        let _ = tracing::subscriber::set_global_default(log);
    }
    Ok(())
}

/// Whether each line on standard error is a JSON object.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// Sets the form of later messages on standard error: JSON objects if the log is JSON.
pub(crate) fn set_line_format(format: LogFormat) {
    AS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Whether standard error has JSON objects alone.
pub(crate) fn has_json_lines() -> bool {
    AS_JSON.load(Ordering::Relaxed)
}

/// Writes a message to standard error: after `prefix`, or as an object of the log.
pub(super) fn write_message(level: Level, prefix: &str, text: &str) {
    let line = if has_json_lines() {
        let fields = [("message".to_owned(), text.into())].into_iter().collect();
        row(level, "xylem", fields)
    } else {
        format!("{prefix}{text}")
    };
    // There is no other place to report a failed write to.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

fn row(level: Level, target: &str, fields: serde_json::Map<String, serde_json::Value>) -> String {
    let time_ms = xylem_node::wall_clock().microseconds() / 1_000;
    super::json_line(&LogRow { time_ms, level: level.as_str(), target, fields })
}

/// Writes each event at once. Spans are not kept: an event contains its whole context.
struct LogSubscriber {
    level: LevelFilter,
    format: LogFormat,
    started: Instant,
}

impl Subscriber for LogSubscriber {
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
                let mut line = LogLine(start);
                event.record(&mut line);
                line.0
            }
            LogFormat::Json => {
                let mut fields = LogFields::default();
                event.record(&mut fields);
                row(*metadata.level(), metadata.target(), fields.0)
            }
        };
        line.push('\n');
        // There is no other place to report a failed write to.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// A line as JSON; the event's fields, `message` among them, are fields of the object.
#[derive(Serialize)]
struct LogRow<'a> {
    /// Milliseconds since 1970.
    time_ms: u64,
    level: &'a str,
    target: &'a str,
    #[serde(flatten)]
    fields: serde_json::Map<String, serde_json::Value>,
}

#[derive(Default)]
struct LogFields(serde_json::Map<String, serde_json::Value>);

impl Visit for LogFields {
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

struct LogLine(String);

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let start = self.0.len();
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, ": {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        // The text may come from a peer: escape it, so that it neither begins a line nor controls the terminal.
        let said = self.0.split_off(start);
        self.0.push_str(&clean(&said));
    }
}
