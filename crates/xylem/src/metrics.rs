//! What a node does, for Prometheus: a page of text over HTTP, on loopback unless another address is
//! asked for.

use crate::exit::{Exit, Failure};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use xylem_library::reachable::HostPort;
use xylem_node::look_up_place;

/// Bytes of a request's head, at most.
const MAX_HEAD: u64 = 8 * 1024;
/// Whoever connects has asked and read within this.
const TIME: Duration = Duration::from_secs(5);

/// Listens where `--metrics` says.
pub(crate) fn listen(text: &str) -> Result<TcpListener, Failure> {
    let at = place(text)?;
    TcpListener::bind(at)
        .map_err(|e| Failure::new(Exit::Local, format!("cannot show metrics at {at}: {e}")))
}

fn place(text: &str) -> Result<SocketAddr, Failure> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let wrong = |why: String| Failure::new(Exit::Usage, format!("--metrics {text}: {why}"));
    let place: HostPort = text.parse().map_err(wrong)?;
    Ok(look_up_place(&place).map_err(wrong)?[0])
}

/// Answers one request after the other, for as long as the process runs.
pub(crate) fn answer_all(listener: &TcpListener, page: impl Fn() -> String) {
    for connection in listener.incoming() {
        match connection {
            // Whoever went away needs no answer.
            Ok(connection) => drop(answer(&connection, &page)),
            // Out of files, most likely: they come back.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn answer(mut connection: &TcpStream, page: impl Fn() -> String) -> io::Result<()> {
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
        (Some("GET" | "HEAD"), Some("/metrics")) => ("200 OK", page()),
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
