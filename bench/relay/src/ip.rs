//! Changes that a network makes to packets: the mark of congestion (RFC 3168) and, in a box that translates addresses,
//! UDP ports. Checksums are updated in place (RFC 1624). Packets shorter than their headers claim are left unchanged.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::collections::HashSet;

/// Protocol numbers (IANA).
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Maximum number of flows of a translator; packets of further flows pass unchanged.
const MOST_PORTS: usize = 1_024;

/// Whether the sender of a packet supports ECN, so that it may be marked.
pub(crate) fn knows_ecn(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => matches!(packet[1] & 3, 1 | 2),
        // Traffic class: four bits in the first byte, four in the second; ECN is its last two.
        Some(6) if packet.len() >= 2 => matches!((packet[1] >> 4) & 3, 1 | 2),
        _ => false,
    }
}

/// Marks a packet as congested if its sender supports ECN.
pub(crate) fn mark(packet: &mut [u8]) {
    if !knows_ecn(packet) {
        return;
    }
    if packet[0] >> 4 == 6 {
        packet[1] |= 0x30;
        return;
    }
    let before = word(packet, 0);
    packet[1] |= 3;
    let after = word(packet, 0);
    mend(packet, 10, before, after);
}

fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// RFC 1624, equation 3: the checksum at `at` after one covered word changed.
fn mend(packet: &mut [u8], at: usize, before: u16, after: u16) {
    let mut sum = u32::from(!word(packet, at)) + u32::from(!before) + u32::from(after);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    packet[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Translates the UDP ports of the left side's flows, to new ones after every rebind.
#[derive(Default)]
pub(crate) struct Translator {
    /// Value that ports are combined with; 0 before the first rebind.
    shift: u16,
    /// Ports of the left side that have sent since the last rebind.
    open: HashSet<u16>,
}

impl Translator {
    /// Gives every flow another port from now on. Answers to the old ports are lost.
    pub(crate) fn rebind(&mut self) {
        self.shift = self.shift.wrapping_add(0x0101) | 0x4000;
        self.open.clear();
    }

    /// Translates a packet from the left.
    pub(crate) fn outward(&mut self, packet: &mut [u8]) {
        let Some(udp) = udp_start(packet) else { return };
        if self.open.len() < MOST_PORTS {
            self.open.insert(word(packet, udp));
        }
        if self.open.contains(&word(packet, udp)) {
            self.translate(packet, udp, udp);
        }
    }

    /// Translates a packet from the right; returns whether its port is in use.
    pub(crate) fn inward(&mut self, packet: &mut [u8]) -> bool {
        let Some(udp) = udp_start(packet) else { return true };
        let known = self.open.contains(&(word(packet, udp + 2) ^ self.shift));
        if known {
            self.translate(packet, udp + 2, udp);
        }
        known || self.shift == 0
    }

    fn translate(&self, packet: &mut [u8], port: usize, udp: usize) {
        let before = word(packet, port);
        let after = before ^ self.shift;
        packet[port..port + 2].copy_from_slice(&after.to_be_bytes());
        // A checksum of 0 means none (RFC 768).
        if word(packet, udp + 6) != 0 {
            mend(packet, udp + 6, before, after);
        }
    }
}

/// Offset of the UDP header in an unfragmented IPv4 packet.
fn udp_start(packet: &[u8]) -> Option<usize> {
    let first = *packet.first()?;
    let start = usize::from(first & 15) * 4;
    let whole = first >> 4 == 4 && start >= 20 && packet.len() >= start + 8;
    (whole && packet[9] == 17 && word(packet, 6) & 0x1fff == 0).then_some(start)
}

/// Protocol (TCP or UDP), source and destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub protocol: u8,
    pub source: SocketAddr,
    pub target: SocketAddr,
}

/// The ends of an unfragmented packet of TCP or UDP; `None` for any other.
pub(crate) fn ends(packet: &[u8]) -> Option<Ends> {
    let (protocol, at) = transport(packet)?;
    let address = |which: usize| match packet[0] >> 4 {
        4 => IpAddr::V4(Ipv4Addr::from(*packet[12 + 4 * which..].first_chunk().expect("checked"))),
        _ => IpAddr::V6(Ipv6Addr::from(*packet[8 + 16 * which..].first_chunk().expect("checked"))),
    };
    let source = SocketAddr::new(address(0), word(packet, at));
    let target = SocketAddr::new(address(1), word(packet, at + 2));
    Some(Ends { protocol, source, target })
}

/// The destination of any packet.
pub(crate) fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => packet.get(16..)?.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        6 => packet.get(24..)?.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
        _ => None,
    }
}

/// Sets the source of an IPv4 packet that has [ends].
pub(crate) fn set_source(packet: &mut [u8], source: SocketAddrV4) {
    set_end(packet, 12, 0, source);
}

/// Sets the destination of an IPv4 packet that has [ends].
pub(crate) fn set_target(packet: &mut [u8], target: SocketAddrV4) {
    set_end(packet, 16, 2, target);
}

fn set_end(packet: &mut [u8], address: usize, port: usize, end: SocketAddrV4) {
    let Some((protocol, at)) = transport(packet) else { return };
    let sum = at + if protocol == UDP { 6 } else { 16 };
    // A checksum of 0 means none (RFC 768).
    let summed = protocol != UDP || word(packet, sum) != 0;
    let bits = end.ip().to_bits();
    for (place, after) in [(address, (bits >> 16) as u16), (address + 2, bits as u16)] {
        let before = word(packet, place);
        packet[place..place + 2].copy_from_slice(&after.to_be_bytes());
        mend(packet, 10, before, after);
        if summed {
            mend(packet, sum, before, after);
        }
    }
    let before = word(packet, at + port);
    packet[at + port..at + port + 2].copy_from_slice(&end.port().to_be_bytes());
    if summed {
        mend(packet, sum, before, end.port());
    }
}

/// Protocol and header offset of an unfragmented TCP or UDP packet that has room for the header. `None` for IPv6 with
/// extension headers.
fn transport(packet: &[u8]) -> Option<(u8, usize)> {
    let first = *packet.first()?;
    let (protocol, at) = match first >> 4 {
        4 => (*packet.get(9)?, usize::from(first & 15) * 4),
        6 => (*packet.get(6)?, 40),
        _ => return None,
    };
    let header = match protocol {
        TCP => 20,
        UDP => 8,
        _ => return None,
    };
    let whole = at >= 20 && packet.len() >= at + header;
    // The flag for more fragments, or the offset of one.
    let fragment = first >> 4 == 4 && word(packet, 6) & 0x3fff != 0;
    (whole && !fragment).then_some((protocol, at))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A UDP packet with right checksums.
    pub(crate) fn udp_between(source: &str, target: &str) -> Vec<u8> {
        let ends: [SocketAddr; 2] = [source.parse().unwrap(), target.parse().unwrap()];
        let mut packet = match ends[0] {
            SocketAddr::V4(_) => vec![0x45, 0, 0, 32, 1, 2, 0x40, 0, 64, UDP, 0, 0],
            SocketAddr::V6(_) => vec![0x60, 0, 0, 0, 0, 12, UDP, 64],
        };
        for end in ends {
            match end.ip() {
                IpAddr::V4(ip) => packet.extend(ip.octets()),
                IpAddr::V6(ip) => packet.extend(ip.octets()),
            }
        }
        let start = packet.len();
        for end in ends {
            packet.extend(end.port().to_be_bytes());
        }
        packet.extend([0, 12, 0, 0, 1, 2, 3, 4]);
        if start == 20 {
            let sum = checksum(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            let sum = checksum(&covered(&packet));
            packet[26..28].copy_from_slice(&sum.to_be_bytes());
        }
        packet
    }

    #[test]
    fn ends_are_found_and_changed() {
        let mut packet = udp_between("10.0.0.1:1", "10.0.0.2:2");
        set_source(&mut packet, "20.1.2.3:44000".parse().unwrap());
        set_target(&mut packet, "30.255.0.1:65535".parse().unwrap());
        assert!(right(&packet));
        assert_eq!(packet, udp_between("20.1.2.3:44000", "30.255.0.1:65535"));
        assert_eq!(destination(&packet), Some("30.255.0.1".parse().unwrap()));
        let six = udp_between("[2a00::1]:1", "[2a00::2]:2");
        let expected = Ends {
            protocol: UDP,
            source: "[2a00::1]:1".parse().unwrap(),
            target: "[2a00::2]:2".parse().unwrap(),
        };
        assert_eq!(ends(&six), Some(expected));
        for len in 0..28 {
            assert_eq!(ends(&packet[..len]), None);
            set_source(&mut packet[..len], "1.1.1.1:1".parse().unwrap());
        }
        packet[6] = 0x20;
        assert_eq!(ends(&packet), None, "a fragment");
    }

    /// The sum over big-endian words, complemented: 0 over a header with a right checksum.
    fn checksum(bytes: &[u8]) -> u16 {
        let words =
            bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
        let sum: u32 = words.sum();
        !((sum & 0xffff) + (sum >> 16)) as u16
    }

    fn udp(source: u16, to: u16, tos: u8) -> Vec<u8> {
        let mut packet =
            vec![0x45, tos, 0, 32, 1, 2, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(source.to_be_bytes());
        packet.extend(to.to_be_bytes());
        packet.extend([0, 12, 0, 0, 1, 2, 3, 4]);
        let sum = checksum(&covered(&packet));
        packet[26..28].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    /// Pseudo-header (RFC 768) and the UDP packet.
    fn covered(packet: &[u8]) -> Vec<u8> {
        let mut bytes = packet[12..20].to_vec();
        bytes.extend([0, 17, 0, 12]);
        bytes.extend(&packet[20..]);
        bytes
    }

    /// Whether the checksums are right; those of IPv6 are not checked.
    pub(crate) fn right(packet: &[u8]) -> bool {
        packet[0] >> 4 == 6 || checksum(&packet[..20]) == 0 && checksum(&covered(packet)) == 0
    }

    #[test]
    fn marks_are_set_where_the_sender_knows_them() {
        for (tos, marked) in [(0, false), (1, true), (2, true), (3, false), (0xb9, true)] {
            let mut packet = udp(1, 2, tos);
            assert!(right(&packet));
            assert_eq!(knows_ecn(&packet), marked, "{tos}");
            mark(&mut packet);
            assert!(right(&packet), "{tos}");
            assert_eq!(packet[1], if marked { tos | 3 } else { tos });
        }
        let mut six = vec![0x60, 0x20, 0, 0];
        mark(&mut six);
        assert_eq!(six[1], 0x30);
        assert!(!knows_ecn(&[0x45, 2]) && !knows_ecn(&[]) && !knows_ecn(&[0x60, 0]));
    }

    #[test]
    fn ports_change_and_change_back() {
        let mut nat = Translator::default();
        let mut seen = Vec::new();
        for _ in 0..3 {
            let mut out = udp(5_000, 6_363, 0);
            nat.outward(&mut out);
            assert!(right(&out));
            let port = word(&out, 20);
            assert!(!seen.contains(&port));
            let mut back = udp(6_363, port, 0);
            assert!(nat.inward(&mut back) && right(&back));
            assert_eq!(word(&back, 22), 5_000);
            seen.push(port);
            nat.rebind();
            assert!(!nat.inward(&mut udp(6_363, port, 0)), "the old port is closed");
        }
        assert_eq!(seen[0], 5_000, "unchanged before the first");
    }

    #[test]
    fn short_and_strange_packets_pass_unchanged() {
        let mut nat = Translator::default();
        nat.rebind();
        for len in 0..28 {
            let mut packet = udp(5_000, 6_363, 0)[..len].to_vec();
            let before = packet.clone();
            nat.outward(&mut packet);
            assert!(nat.inward(&mut packet) && packet == before, "{len}");
        }
    }
}
