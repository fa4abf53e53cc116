//! Packets as text: base64 between PEM lines, as NDNd writes keys and certificates. `ndnsec` writes the base64 only.
//! Both forms are read, and so is the bare packet.
//!
//! ```text
//! -----BEGIN NDN CERT-----
//! Name: /alice/KEY/1/self/v=1
//!
//! Bv0BSwcjCANuZG4IA0tFWQgIJ8SyKp97gScIA25kbjYIAAABgHX6c7QUCRgBAhkE…
//! -----END NDN CERT-----
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use data_encoding::BASE64;
use xylem_packet::tlv::types;
use zeroize::Zeroizing;

/// The kind of packet in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Armor {
    /// A private key's packet.
    Key,
    /// A certificate.
    Certificate,
    /// An encrypted private key with its certificate.
    SafeBag,
    /// Any other packet.
    Data,
}

/// Base64 digits per line.
const LINE: usize = 64;

impl Armor {
    /// The packet as text. `name` is for people only.
    pub fn encode(self, name: &str, packet: &[u8]) -> String {
        let label = match self {
            Armor::Key => "NDN KEY",
            Armor::Certificate => "NDN CERT",
            Armor::SafeBag => "NDN SAFEBAG",
            Armor::Data => "NDN DATA",
        };
        let body = Self::bare(packet);
        format!("-----BEGIN {label}-----\nName: {name}\n\n{body}-----END {label}-----\n")
    }

    /// The packet as base64 only, as `ndnsec` writes and reads it.
    pub fn bare(packet: &[u8]) -> String {
        let mut out = String::new();
        for line in packet.chunks(LINE / 4 * 3) {
            BASE64.encode_append(line, &mut out);
            out.push('\n');
        }
        out
    }

    /// The packet in a file, bare or as text. `None` if the file contains neither.
    pub fn decode(file: &[u8]) -> Option<Vec<u8>> {
        let is_data = file.first().is_some_and(|first| u32::from(*first) == types::DATA);
        #[cfg(feature = "ring")]
        let is_bag = crate::SafeBag::begins(file);
        #[cfg(not(feature = "ring"))]
        let is_bag = false;
        if is_data || is_bag {
            return Some(file.to_vec());
        }
        let lines = body(core::str::from_utf8(file).ok()?)?.lines();
        // A colon is no base64 digit, so these lines are the block's headers.
        let bytes = lines.filter(|line| !line.contains(':')).flat_map(str::bytes);
        // The digits may be those of a key: they are wiped, and enough room is reserved, so that no copy is left by a
        // reallocation.
        let mut digits = Zeroizing::new(Vec::with_capacity(file.len()));
        digits.extend(bytes.filter(|digit| !digit.is_ascii_whitespace()));
        BASE64.decode(&digits).ok().filter(|packet| !packet.is_empty())
    }
}

/// The contents of the first PEM block (RFC 7468), or the whole text if there is none.
fn body(text: &str) -> Option<&str> {
    let Some((_, block)) = text.split_once("-----BEGIN ") else { return Some(text) };
    let (label, block) = block.split_once("-----")?;
    block.split_once(&format!("-----END {label}-----")).map(|(body, _)| body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_any_length_round_trip() {
        for len in 1..200usize {
            let packet: Vec<u8> = (0..len).map(|i| (i * 37 + 6) as u8).collect();
            for armor in [Armor::Key, Armor::Certificate, Armor::SafeBag, Armor::Data] {
                let text = armor.encode("/a/KEY/1", &packet);
                assert_eq!(Armor::decode(Armor::bare(&packet).as_bytes()), Some(packet.clone()));
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
    fn base64_follows_the_rfc() {
        // RFC 4648, section 10.
        let text = Armor::Key.encode("/", b"fooba");
        assert!(text.contains("\nZm9vYmE=\n"), "{text}");
        assert_eq!(Armor::decode(b"Zm9v\nYmE="), Some(b"fooba".to_vec()));
        for wrong in [&b""[..], b"\n", b"no certificate!", b"\xFF\xFE"] {
            assert_eq!(Armor::decode(wrong), None, "{wrong:?}");
        }
        // Padding stands at the end and has the required length; unused bits are 0.
        for wrong in ["=", "Zm9=vYmE=", "Zm9v=YmE=", "=Zm9vYmE", "Zm9vYmE", "Zm9vYmE==", "Zm9vYmF="]
        {
            assert_eq!(Armor::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_block_needs_its_matching_end_line() {
        let block = Armor::Key.encode("/a", b"packet");
        let two = format!("for Bob\n{block}{}", Armor::Certificate.encode("/b", b"another"));
        assert_eq!(Armor::decode(two.as_bytes()), Some(b"packet".to_vec()), "the first one");
        for wrong in [block.replace("END NDN KEY", "END NDN CERT"), block.replace("-----END", "")] {
            assert_eq!(Armor::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
