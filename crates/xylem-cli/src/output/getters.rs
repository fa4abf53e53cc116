//! [`GetterDisplay`]: what a share prints about its getters while it serves: a line when one begins, a line when one
//! ends without all of it, and the figures for the last line of a terminal.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use xylem_node::{FaceAddress, GetterReport, GetterState, WayTaken};

use super::last_of;
use super::text::{bytes, duration};

/// Lines about getters in this time at most: any ticket holder can cause one by connecting again.
const LINES_EVERY: Duration = Duration::from_secs(60);
const MAX_LINES: usize = 40;
/// Getters that are counted at most.
const MAX_COUNTED: usize = 4_096;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct GetterDisplay {
    /// Lines about getters that begin or end without all of it.
    lines: LinePace,
    /// Lines about complete fetches: getters that come and go do not take their place.
    complete: LinePace,
    /// Bytes sent to each getter that has not ended, by its number.
    present: HashMap<u64, u64>,
    /// Bytes sent to those that have ended.
    past: u64,
}

impl GetterDisplay {
    /// Counts a report; returns the line to print, if there is one.
    pub(super) fn see(&mut self, now: Instant, told: &GetterReport) -> Option<String> {
        match told.state {
            GetterState::Ended => {
                self.present.remove(&told.number);
                self.past = self.past.saturating_add(told.sent);
            }
            GetterState::Began | GetterState::Continues => {
                if self.present.len() < MAX_COUNTED || self.present.contains_key(&told.number) {
                    self.present.insert(told.number, told.sent);
                }
            }
        }
        self.lines.pace(now, line_of(told)?)
    }

    /// Returns the line to print in place of this one about a complete fetch; none if there were too many.
    pub(super) fn pace_complete(&mut self, now: Instant, line: String) -> Option<String> {
        self.complete.pace(now, line)
    }

    /// Returns how many getters there are, and the bytes sent to all so far.
    pub(super) fn totals(&self) -> (usize, u64) {
        let sent = self.present.values().fold(self.past, |all, sent| all.saturating_add(*sent));
        (self.present.len(), sent)
    }
}

/// Limits lines of one kind.
#[derive(Default)]
struct LinePace {
    /// When the present period of [`LINES_EVERY`] began, and the lines in it.
    period: Option<(Instant, usize)>,
}

impl LinePace {
    /// Returns the line to print in place of this one: the line itself, or none if there were too many.
    fn pace(&mut self, now: Instant, line: String) -> Option<String> {
        let (since, lines) = self.period.get_or_insert((now, 0));
        if now.duration_since(*since) >= LINES_EVERY {
            (*since, *lines) = (now, 0);
        }
        let before = *lines;
        *lines = lines.saturating_add(1);
        match before {
            before if before < MAX_LINES => Some(line),
            MAX_LINES => Some(format!(
                "More than {MAX_LINES} lines about getters in a minute: no more of them in this minute; `xylem ui` \
                 shows all getters"
            )),
            _ => None,
        }
    }
}

/// The line of a report; none while a getter continues, and none at the end of a complete fetch, which has a line of
/// its own.
fn line_of(told: &GetterReport) -> Option<String> {
    let GetterReport { state, peer, way, name, sent, complete, elapsed, .. } = told;
    let (peer, what) = (peer.for_people(), last_of(name));
    // The address of a peer that is reached through a relay is the relay's, and names the way.
    let peer = match told.peer {
        FaceAddress::Relayed(_) => format!("A getter through {peer}"),
        _ => peer,
    };
    let how = match way {
        WayTaken::Relayed => String::new(),
        way => format!(" {}", way.for_people()),
    };
    match state {
        GetterState::Began => Some(format!("{peer} fetches {what}{how}")),
        GetterState::Ended if !complete => {
            let (sent, time) = (bytes(*sent), duration(*elapsed));
            Some(format!("{peer} has ended: {sent} of {what} sent{how} in {time}"))
        }
        GetterState::Ended | GetterState::Continues => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::Name;

    fn report(number: u64, state: GetterState, peer: &FaceAddress, sent: u64) -> GetterReport {
        GetterReport {
            number,
            state,
            peer: peer.clone(),
            way: WayTaken::to(peer),
            name: Name::from_uri("/alice/film.mkv/v=7").unwrap(),
            bytes: 3 << 20,
            sent,
            complete: false,
            elapsed: Duration::from_secs(2),
        }
    }

    fn link(port: u16) -> FaceAddress {
        FaceAddress::Link(([192, 0, 2, 7], port).into())
    }

    #[test]
    fn a_getter_has_a_line_at_its_beginning_and_its_end() {
        let (mut display, now) = (GetterDisplay::default(), Instant::now());
        let mut line = |report: &GetterReport| display.see(now, report);
        let began = line(&report(1, GetterState::Began, &link(7), 8_000));
        assert_eq!(began.unwrap(), "192.0.2.7:7 fetches film.mkv directly");
        assert_eq!(line(&report(1, GetterState::Continues, &link(7), 1 << 20)), None);
        let relay = FaceAddress::Relayed(([192, 0, 2, 9], 9).into());
        let began = line(&report(2, GetterState::Began, &relay, 1));
        assert_eq!(began.unwrap(), "A getter through relay 192.0.2.9:9 fetches film.mkv");
        let browser = FaceAddress::Uri("wsclient://192.0.2.8:80".parse().unwrap());
        let began = line(&report(3, GetterState::Began, &browser, 1));
        assert_eq!(began.unwrap(), "web client 192.0.2.8:80 fetches film.mkv over the web page");
        let ended = line(&report(1, GetterState::Ended, &link(7), 2 << 20));
        let words = "192.0.2.7:7 has ended: 2.00 MiB of film.mkv sent directly in 2.00 s";
        assert_eq!(ended.unwrap(), words);
        let whole =
            GetterReport { complete: true, ..report(2, GetterState::Ended, &relay, 3 << 20) };
        assert_eq!(line(&whole), None, "the report of a complete fetch is its line");
        assert_eq!(display.totals(), (1, (5 << 20) + 1));
    }

    #[test]
    fn lines_about_getters_are_limited_in_a_minute() {
        let (mut display, start) = (GetterDisplay::default(), Instant::now());
        let lines = |display: &mut GetterDisplay, at: Instant| {
            let reports = (0..10_000).map(|n| report(n, GetterState::Began, &link(1), 1));
            reports.filter_map(|told| display.see(at, &told)).collect::<Vec<_>>()
        };
        let first = lines(&mut display, start);
        assert_eq!(first.len(), MAX_LINES + 1);
        assert!(first.last().unwrap().contains("no more of them in this minute"));
        assert_eq!(lines(&mut display, start + LINES_EVERY / 2).len(), 0);
        assert_eq!(lines(&mut display, start + LINES_EVERY).len(), MAX_LINES + 1);
        assert_eq!(display.totals().0, MAX_COUNTED);
    }
}
