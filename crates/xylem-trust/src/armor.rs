//! Packets as text: base64 between PEM lines, as NDNd writes keys and certificates; `ndnsec` writes
//! the base64 alone. Both are read, and so is the packet itself.
//!
//! ```text
//! -----BEGIN NDN CERT-----
//! Name: /alice/KEY/1/self/v=1
//!
//! Bv0BSwcjCANuZG4IA0tFWQgIJ8SyKp97gScIA25kbjYIAAABgHX6c7QUCRgBAhkE…
//! -----END NDN CERT-----
//! ```

use xylem_packet::tlv::types;

/// What a text holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Armor {
    /// A private key's packet.
    Key,
    /// A certificate.
    Certificate,
}

/// Digits of base64 (RFC 4648, section 4).
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Digits in a line.
const LINE: usize = 64;

impl Armor {
    /// The packet as text; `name` is for people.
    pub fn encode(self, name: &str, packet: &[u8]) -> String {
        let label = match self {
            Armor::Key => "NDN KEY",
            Armor::Certificate => "NDN CERT",
        };
        let mut out = format!("-----BEGIN {label}-----\nName: {name}\n\n");
        let mut column = 0;
        for group in packet.chunks(3) {
            let mut bits = 0u32;
            for i in 0..3 {
                bits = bits << 8 | u32::from(group.get(i).copied().unwrap_or(0));
            }
            for i in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * i)) as usize & 63];
                out.push(if i <= group.len() { char::from(digit) } else { '=' });
            }
            column += 4;
            if column == LINE {
                out.push('\n');
                column = 0;
            }
        }
        if column != 0 {
            out.push('\n');
        }
        out + &format!("-----END {label}-----\n")
    }

    /// The packet in a file that holds it raw or as text; `None` if there is neither.
    pub fn decode(file: &[u8]) -> Option<Vec<u8>> {
        if file.first().is_some_and(|first| u32::from(*first) == types::DATA) {
            return Some(file.to_vec());
        }
        let text = core::str::from_utf8(file).ok()?;
        let lines = text.lines().filter(|line| !line.starts_with("--") && !line.contains(": "));
        let (mut out, mut bits, mut held) = (Vec::new(), 0u32, 0);
        for digit in lines.flat_map(str::bytes).filter(|c| !c.is_ascii_whitespace() && *c != b'=') {
            let value = DIGITS.iter().position(|known| *known == digit)?;
            bits = bits << 6 | value as u32;
            held += 6;
            if held >= 8 {
                held -= 8;
                out.push((bits >> held) as u8);
            }
        }
        (!out.is_empty()).then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_any_length_come_back() {
        for len in 1..200usize {
            let packet: Vec<u8> = (0..len).map(|i| (i * 37 + 6) as u8).collect();
            for armor in [Armor::Key, Armor::Certificate] {
                let text = armor.encode("/a/KEY/1", &packet);
                assert_eq!(Armor::decode(text.as_bytes()), Some(packet.clone()));
                assert_eq!(
                    Armor::decode(text.replace('\n', "\r\n").as_bytes()),
                    Some(packet.clone())
                );
                assert!(text.lines().all(|line| line.len() <= LINE));
            }
            assert_eq!(Armor::decode(&packet), Some(packet));
        }
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        // RFC 4648, section 10.
        let text = Armor::Key.encode("/", b"fooba");
        assert!(text.contains("\nZm9vYmE=\n"), "{text}");
        assert_eq!(Armor::decode(b"Zm9v\nYmE="), Some(b"fooba".to_vec()));
        for wrong in [&b""[..], b"\n", b"no certificate!", b"\xFF\xFE"] {
            assert_eq!(Armor::decode(wrong), None, "{wrong:?}");
        }
    }
}
