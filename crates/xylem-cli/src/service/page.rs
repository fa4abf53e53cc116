//! Metrics of the background node, as a page for Prometheus.

use super::keeper::ShareKeeper;
use super::messages::ShareRow;
use crate::output::text::clean;
use std::fmt::Write as _;

pub(super) fn page(keeper: &ShareKeeper) -> String {
    let (served, shares, peers) = keeper.gauges();
    let mut page = String::new();
    let mut gauge = |name: &str, help: &str, value: usize| {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    };
    gauge("xylem_shares", "Shares that are registered.", shares);
    gauge("xylem_shares_served", "Shares that can be fetched now.", served);
    gauge("xylem_peers", "Links that are up.", peers);
    of_each(&mut page, &keeper.rows());
    page
}

fn of_each(page: &mut String, rows: &[ShareRow]) {
    type Value = fn(&ShareRow) -> u64;
    let counters: [(&str, &str, Value); 3] = [
        ("xylem_share_sent_bytes_total", "Bytes of packets sent for the share.", |row| row.sent),
        ("xylem_share_peers_total", "Links over which the share was requested.", |row| row.peers),
        ("xylem_share_fetched_total", "Complete fetches of the share.", |row| row.fetched),
    ];
    for (name, help, value) in counters {
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter");
        for row in rows {
            let path = escaped(&row.path.to_string_lossy());
            let _ = writeln!(page, "{name}{{id=\"{}\",path=\"{path}\"}} {}", row.id, value(row));
        }
    }
}

/// Escapes a label's value for the text format.
fn escaped(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(clean).collect();
    lines.join("\n").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_labels_stay_on_one_line() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
        assert_eq!(escaped("a\u{1b}\u{202e}"), "a\\\\u{1b}\\\\u{202e}");
    }
}
