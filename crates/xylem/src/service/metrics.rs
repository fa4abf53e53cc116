//! What the background node does, for Prometheus: a page of text over HTTP, on loopback unless another
//! address is asked for.

use super::keeper::Keeper;
use super::messages::Row;
use crate::exit::{Exit, Failure};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Bytes of a request's head, at most.
const MAX_HEAD: u64 = 8 * 1024;
/// Whoever connects has asked and read within this.
const TIME: Duration = Duration::from_secs(5);

/// Listens.
pub(super) fn listen(at: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(at)
        .map_err(|e| Failure::new(Exit::Local, format!("cannot show metrics at {at}: {e}")))
}

/// Answers one request after the other, for as long as the process runs.
pub(super) fn answer_all(listener: &TcpListener, keeper: &Keeper) {
    for connection in listener.incoming() {
        match connection {
            // Whoever went away needs no answer.
            Ok(connection) => drop(answer(&connection, keeper)),
            // Out of files, most likely: they come back.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn answer(mut connection: &TcpStream, keeper: &Keeper) -> io::Result<()> {
    connection.set_read_timeout(Some(TIME))?;
    connection.set_write_timeout(Some(TIME))?;
    let mut lines = BufReader::new(connection.take(MAX_HEAD)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // All of the head is read, so that closing does not reset the connection.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET" | "HEAD"), Some("/metrics")) => ("200 OK", page(keeper)),
        (Some("GET" | "HEAD"), _) => ("404 Not Found", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if first.starts_with("HEAD") { "" } else { &body };
    connection.write_all(format!("{head}{body}").as_bytes())
}

fn page(keeper: &Keeper) -> String {
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

fn of_each(page: &mut String, rows: &[Row]) {
    type Value = fn(&Row) -> u64;
    let counters: [(&str, &str, Value); 3] = [
        ("xylem_share_sent_bytes_total", "Bytes of packets that were sent.", |row| row.sent),
        ("xylem_share_peers_total", "Links over which it was asked for.", |row| row.peers),
        ("xylem_share_fetched_total", "Fetches of all of it.", |row| row.fetched),
    ];
    for (name, help, value) in counters {
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter");
        for row in rows {
            let path = escaped(&row.path.to_string_lossy());
            let _ = writeln!(page, "{name}{{id=\"{}\",path=\"{path}\"}} {}", row.id, value(row));
        }
    }
}

/// A label's value, as the text format has it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_line() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
