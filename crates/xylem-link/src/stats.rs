//! Counters of a link and of an endpoint.

use core::time::Duration;

use crate::shape::Level;

/// Counters of one link since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkStats {
    /// Datagrams returned by `poll_transmit`.
    pub datagrams_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Datagrams of repeated fragments; counted in `datagrams_sent` too.
    pub datagrams_repeated: u64,
    /// Authentic, first-seen datagrams.
    pub datagrams_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Datagrams of the peer that have not arrived although later ones have; a late arrival decreases it.
    pub datagrams_missing: u64,
    /// Bytes of packets in them, and of fragments whether their packets became complete or not, with the overhead of a
    /// fragment's datagram.
    pub content_received: u64,
    /// Packets taken by `send`.
    pub packets_sent: u64,
    /// Packets reported by `LinkEvent::Packet`.
    pub packets_received: u64,
    /// Datagrams for this link that did not authenticate.
    pub forged: u64,
    /// Authentic datagrams seen before, or too old for the replay window.
    pub replayed: u64,
    /// Key epochs begun by this side after the first.
    pub rekeys: u64,
    /// Rounds of Diffie-Hellman that this side's epochs have taken in.
    pub ratchets: u64,
    /// Whether the keys also depend on ML-KEM-768.
    pub post_quantum: bool,
    /// The shaping level in force.
    pub shaping: Level,
    /// Bytes of padding sent by shaping, cover not counted.
    pub padding_sent: u64,
    /// Bytes of datagrams sent that held nothing but padding.
    pub cover_sent: u64,
    /// Current datagram size, in bytes of UDP payload.
    pub datagram_size: usize,
    /// Smoothed round-trip time; `None` until measured.
    pub rtt: Option<Duration>,
    /// An observer's view of `datagrams_sent`.
    pub sent: Traffic,
    /// An observer's view of `datagrams_received`.
    pub received: Traffic,
}

/// Histograms of the sizes of one direction's datagrams and of the times between them: the input of traffic analysis,
/// and what shaping changes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Datagrams by size, in bars of [`Traffic::BAR`] bytes; the last bar has all that are larger.
    pub sizes: [u64; 13],
    /// Datagrams by the time since the one before. Bar 0 has those of less than 2 µs, bar `i` those from 2^i µs, the
    /// last bar all that are longer. Datagrams of one batch have no time between them.
    pub gaps: [u64; 24],
    last: Option<Duration>,
}

impl Traffic {
    /// Width of a bar of [`Traffic::sizes`], in bytes.
    pub const BAR: usize = 128;

    /// Counts `bytes` that pass at once, in datagrams of `segment` bytes and a rest.
    pub(crate) fn see(&mut self, now: Duration, bytes: usize, segment: usize) {
        let segment = segment.max(1);
        let (whole, rest) = (bytes / segment, bytes % segment);
        let bar = |size: usize| (size / Self::BAR).min(12);
        self.sizes[bar(segment)] += whole as u64;
        self.sizes[bar(rest)] += u64::from(rest > 0);
        if let Some(last) = self.last.replace(now) {
            let gap = now.saturating_sub(last).as_micros() as u64;
            self.gaps[(gap | 1).ilog2().min(23) as usize] += 1;
        }
        self.gaps[0] += (bytes.div_ceil(segment) as u64).saturating_sub(1);
    }
}

/// Counters of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EndpointStats {
    /// Links, established or not.
    pub links: usize,
    /// Incoming handshakes under way.
    pub half_open: usize,
    /// Datagrams that belong to no link and are no valid first message.
    pub ignored: u64,
    /// Datagrams of resting links ([`crate::Endpoint::rest`]).
    pub unopened: u64,
    /// Retries (cookie demands) sent.
    pub cookies_sent: u64,
    /// Stateless resets sent.
    pub resets_sent: u64,
    /// Incoming handshakes dropped because a limit was reached.
    pub refused: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_counted_by_size_and_gap() {
        let mut seen = Traffic::default();
        let at = Duration::from_micros;
        seen.see(at(100), 3 * 1200 + 90, 1200);
        assert_eq!((seen.sizes[9], seen.sizes[0], seen.gaps[0]), (3, 1, 3));
        seen.see(at(100 + 1500), 65_000, 65_000);
        assert_eq!((seen.sizes[12], seen.gaps[10]), (1, 1));
        // A clock that went back, and a pause of a day.
        seen.see(at(0), 128, 128);
        seen.see(at(86_400_000_000), 128, 128);
        assert_eq!((seen.sizes[1], seen.gaps[0], seen.gaps[23]), (2, 4, 1));
        let (sizes, gaps) = (seen.sizes.iter().sum::<u64>(), seen.gaps.iter().sum::<u64>());
        assert_eq!((sizes, gaps), (7, 6), "a gap between any two");
    }
}
