//! Parses values of flags: addresses to listen at, byte counts, ranges, seconds. Peers are `xylem-node`'s
//! [`xylem_node::PeerUri`].

use crate::exit::{CommandFailure, Exit};
use crate::meant;
use std::borrow::Cow;
use std::fmt::Display;
use std::fs::File;
use std::io::{Read, stdin};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use xylem_files::Output;
use xylem_node::code::looks_like_code;
use xylem_node::{Carrier, PeerAddress, PeerUri, PeerUriError, look_up_place};
use xylem_object::ticket::MAX_TEXT;
use xylem_object::{Ticket, TicketError};
use xylem_packet::Name;
use xylem_peers::reachable::{HostPort, HostPortError};

/// Where to listen: `HOST:PORT`, a port on all interfaces, or an address with a free port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAt(pub(crate) HostPort);

impl FromStr for ListenAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self(HostPort::at((Ipv4Addr::UNSPECIFIED, port).into())));
        }
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Self(HostPort::at((ip, 0).into())));
        }
        text.parse()
            .map(Self)
            .map_err(|error: HostPortError| format!("{error}, a port, or an address"))
    }
}

/// Where the encrypted link listens: as [`ListenAt`], or in a carrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkAt {
    /// Over UDP.
    Udp(ListenAt),
    /// Within TCP connections: `xylem+tls://HOST:PORT` and the like.
    Carried(PeerUri),
}

impl FromStr for LinkAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once("://") {
            None => text.parse().map(Self::Udp),
            Some(("xylem", at)) => at.parse().map(Self::Udp),
            Some((scheme, _)) if Carrier::of_scheme(scheme).is_some() => {
                text.parse().map(Self::Carried).map_err(|e: PeerUriError| e.to_string())
            }
            Some((scheme, _)) => Err(format!("the encrypted link does not listen on {scheme}://")),
        }
    }
}

/// Resolves the addresses that flags name.
pub(crate) fn resolve(places: &[ListenAt]) -> Result<Vec<SocketAddr>, CommandFailure> {
    places.iter().map(first).collect()
}

fn first(ListenAt(place): &ListenAt) -> Result<SocketAddr, CommandFailure> {
    look_up_place(place).map(|found| found[0]).map_err(cannot_listen)
}

/// Resolves the addresses at which the encrypted link is to listen.
pub(crate) fn links(places: &[LinkAt]) -> Result<Vec<PeerAddress>, CommandFailure> {
    places.iter().map(link).collect()
}

/// Like [`links`], for stored texts of `--listen` of a long-lived command.
pub(crate) fn stored_links(texts: &[String]) -> Result<Vec<PeerAddress>, CommandFailure> {
    let parse = |text: &String| {
        let wrong = |why| CommandFailure::new(Exit::Usage, format!("--listen {text}: {why}"));
        text.parse::<LinkAt>().map_err(wrong)
    };
    links(&texts.iter().map(parse).collect::<Result<Vec<_>, _>>()?)
}

fn link(place: &LinkAt) -> Result<PeerAddress, CommandFailure> {
    match place {
        LinkAt::Udp(at) => Ok(PeerAddress::Link { address: first(at)?, key: None }),
        LinkAt::Carried(uri) => {
            xylem_node::resolve(uri).map(|mut found| found.swap_remove(0)).map_err(cannot_listen)
        }
    }
}

fn cannot_listen(why: impl Display) -> CommandFailure {
    CommandFailure::new(Exit::Usage, format!("cannot listen: {why}; give an IP address"))
}

/// Resolves the peers of `--from`. One that is not found is left out if others are found.
pub(crate) fn peers(from: &[PeerUri]) -> Result<Vec<PeerAddress>, CommandFailure> {
    let mut found = Vec::new();
    let mut last_error = None;
    for peer in from {
        match xylem_node::resolve(peer) {
            Ok(peers) => found.extend(peers),
            Err(error) => last_error = Some(error),
        }
    }
    match last_error {
        Some(why) if found.is_empty() => Err(CommandFailure::new(
            Exit::Unreachable,
            format!("{why}; check the name or give an address"),
        )),
        _ => Ok(found),
    }
}

/// Parses a ticket: the text itself, or the content of a file (`@FILE`) or of standard input (`-`).
pub(crate) fn parse_ticket(text: &str) -> Result<Ticket, CommandFailure> {
    ticket_of(&read_text(text)?)
}

/// Parses a ticket. The error explains a text of another known kind.
pub(crate) fn ticket_of(text: &str) -> Result<Ticket, CommandFailure> {
    text.parse().map_err(|wrong: TicketError| {
        let what = meant::ticket_hint(text).unwrap_or_else(|| wrong.to_string());
        CommandFailure::new(Exit::Usage, what)
    })
}

/// Reads the text of a ticket, a code or a card: the argument itself, or the content of a file (`@FILE`) or of standard
/// input (`-`).
pub(crate) fn read_text(text: &str) -> Result<Cow<'_, str>, CommandFailure> {
    let from = match text.trim().strip_prefix('@') {
        Some(path) => Some((File::open(path).map(|file| Box::new(file) as Box<dyn Read>), path)),
        None if text == "-" => Some((Ok(Box::new(stdin()) as Box<dyn Read>), "standard input")),
        None => None,
    };
    let read = from.map(|(opened, what)| {
        let mut text = Vec::new();
        // One byte more than the limit shows whether the text is too long.
        let read = opened.and_then(|file| file.take(MAX_TEXT as u64 + 1).read_to_end(&mut text));
        let wrong = |e| format!("cannot read {what}: {e}");
        read.map(|_| String::from_utf8_lossy(&text).into_owned())
            .map_err(|e| CommandFailure::new(Exit::Usage, wrong(e)))
    });
    Ok(read.transpose()?.map_or(Cow::Borrowed(text), Cow::Owned))
}

/// Whether this is meant to be a ticket, and not a path, a name or an address. Standard input (`-`) is not, as it may
/// be anything.
pub(crate) fn is_ticket(text: &str) -> bool {
    let bare = text.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '@' && c != '/');
    let scheme = bare.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("xylem:"));
    (scheme && !bare[6..].starts_with("//")) || bare.starts_with('@')
}

/// Where to put a result.
pub(crate) fn output(path: Option<PathBuf>) -> Output {
    let Some(path) = path else { return Output::Into(PathBuf::from(".")) };
    if path == Path::new("-") {
        return Output::Stdout;
    }
    Output::to(path)
}

/// Joins a ticket that was pasted without quotes and split at its blanks. One word is returned as it is.
pub(crate) fn joined(words: &[String]) -> Result<String, CommandFailure> {
    match words {
        // A spoken code may have blanks for hyphens.
        words if looks_like_code(&words.join("-")) => Ok(words.join("-")),
        [first, _, ..] if !is_ticket(first) => {
            Err(CommandFailure::new(Exit::Usage, "give one ticket or name at a time"))
        }
        [_, more @ ..] if more.iter().any(|word| is_ticket(word)) => {
            Err(CommandFailure::new(Exit::Usage, "these are several tickets: give one at a time"))
        }
        words => Ok(words.concat()),
    }
}

/// Parses the name of `--as`.
pub(crate) fn parse_name(uri: &str) -> Result<Name, CommandFailure> {
    Name::from_uri(uri)
        .map_err(|e| CommandFailure::new(Exit::Usage, format!("{uri:?} is not a name: {e}")))
}

/// Parses a count of bytes: `4096`, `64K` and `64KiB` (65,536), `64KB` (64,000), up to `T`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let shape = || format!("{text:?} is not a count of bytes, such as 4096, 64K, 10MiB or 2GB");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().map_err(|_| shape())?;
    let mut letters = unit.chars();
    let power = match letters.next().map(|c| c.to_ascii_uppercase()) {
        None | Some('B') if unit.len() < 2 => 0,
        Some('K') => 1,
        Some('M') => 2,
        Some('G') => 3,
        Some('T') => 4,
        _ => return Err(shape()),
    };
    let base: u64 = match letters.as_str() {
        "" | "iB" | "ib" => 1024,
        "B" | "b" => 1000,
        _ => return Err(shape()),
    };
    base.pow(power).checked_mul(number).ok_or_else(|| format!("{text:?} is more than 2^64 bytes"))
}

/// Parses bytes per second, like [`parse_bytes`]; `/s` is allowed, zero is not.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_bytes(text.strip_suffix("/s").unwrap_or(text))? {
        0 => Err("a rate of 0 would never end".to_owned()),
        rate => Ok(rate),
    }
}

/// A byte range `A..B`, `A..` or `..B`; the end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    /// First byte.
    pub(crate) start: u64,
    /// One past the last byte; `None`: to the end of the file.
    pub(crate) end: Option<u64>,
}

impl FromStr for ByteRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (start, end) = text
            .split_once("..")
            .ok_or_else(|| "expected A..B, A.. or ..B, in bytes or with K, M, G".to_owned())?;
        let start = if start.is_empty() { 0 } else { parse_bytes(start)? };
        let end = if end.is_empty() { None } else { Some(parse_bytes(end)?) };
        if end.is_some_and(|end| end <= start) {
            return Err("the range is empty: its end has to be above its start".to_owned());
        }
        Ok(Self { start, end })
    }
}

/// Parses seconds, which may have a fraction.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let shape = || format!("{text:?} is not a number of seconds above 0");
    let seconds: f64 = text.strip_suffix('s').unwrap_or(text).parse().map_err(|_| shape())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| shape())?;
    if duration.is_zero() { Err(shape()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_look_like_tickets_are_recognized() {
        for text in
            ["xylem:abc", " <XYLEM:ABC>", "\"xylem:a", "@ticket.txt", "“xylem:a”", "> xylem:a"]
        {
            assert!(is_ticket(text), "{text}");
        }
        for text in
            ["", "-", "xylem", "xylem://a:1", "/alice/film", "film.mkv", "a@b", "127.0.0.1:1"]
        {
            assert!(!is_ticket(text), "{text}");
        }
        let words = |all: &[&str]| joined(&all.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["xylem:ab", "cd"]).ok(), Some("xylem:abcd".to_owned()));
        assert_eq!(words(&["/a b"]).ok(), Some("/a b".to_owned()));
        assert!(words(&["/a", "b"]).is_err());
    }

    #[test]
    fn byte_counts() {
        for (text, bytes) in [
            ("0", 0),
            ("1023", 1023),
            ("7B", 7),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("64KB", 64_000),
            ("3MiB", 3 << 20),
            ("2GB", 2_000_000_000),
            ("1T", 1 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "K", "-1", "1.5G", "1X", "1KK", "1BB", "1 K", "16777216T", "99999999999999999999"]
        {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert_eq!(parse_rate("10M/s"), Ok(10 << 20));
        assert!(parse_rate("0").is_err());
    }

    #[test]
    fn ranges() {
        assert_eq!("1..2".parse(), Ok(ByteRange { start: 1, end: Some(2) }));
        assert_eq!("1K..".parse(), Ok(ByteRange { start: 1024, end: None }));
        assert_eq!("..1KB".parse(), Ok(ByteRange { start: 0, end: Some(1000) }));
        for text in ["", "5", "2..2", "3..2", "..0", "a..b", "1...2"] {
            assert!(text.parse::<ByteRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn seconds() {
        assert_eq!(parse_seconds("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_seconds("0.25s"), Ok(Duration::from_millis(250)));
        for text in ["", "0", "-1", "NaN", "inf", "1e300", "soon"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn links_listen_over_udp_or_in_carriers() {
        let udp = Ok(LinkAt::Udp("127.0.0.1:7".parse().expect("is an address")));
        assert_eq!("127.0.0.1:7".parse::<LinkAt>(), udp);
        assert_eq!("xylem://127.0.0.1:7".parse::<LinkAt>(), udp);
        for text in ["xylem+tls://0.0.0.0:8443", "xylem+ws://[::]", "xylem+doh://h:1"] {
            assert!(matches!(text.parse::<LinkAt>(), Ok(LinkAt::Carried(_))), "{text}");
        }
        for text in ["tcp://0.0.0.0:1", "xylem+x://h", "xylem+tls://"] {
            assert!(text.parse::<LinkAt>().is_err(), "{text}");
        }
    }

    #[test]
    fn listening_addresses() {
        let at =
            |text: &str| text.parse::<ListenAt>().map(|l| look_up_place(&l.0).expect("is numeric"));
        let one = |text: &str| Ok(vec![text.parse().expect("is an address")]);
        assert_eq!(at("7000"), one("0.0.0.0:7000"));
        assert_eq!(at("127.0.0.1"), one("127.0.0.1:0"));
        assert_eq!(at("::1"), one("[::1]:0"));
        assert_eq!(at("[::1]"), one("[::1]:0"));
        assert_eq!(at("[::1]:7"), one("[::1]:7"));
        assert_eq!(at("127.0.0.1:7"), one("127.0.0.1:7"));
        for text in ["", "70000", "host", ":1", "host:", "host:99999", "ho st:1", "a:b:1"] {
            assert!(text.parse::<ListenAt>().is_err(), "{text}");
        }
    }
}
