//! `xylem ndn dissect`: prints the elements of a packet, as a tree.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::output::text::clean;
use clap::Args;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use xylem_capture::{TlvElement, TlvValue, dissect};
use xylem_trust::Armor;

/// Longest input, in bytes.
const MAX_INPUT: u64 = 1 << 20;
/// Octets of a value that a line shows.
const SHOWN: usize = 32;

/// Prints the elements of a packet as a tree
///
/// A line has the place of an element in the input, the number and name of its type, and its value: octets in
/// hexadecimal, the first 32 of them. The input is a packet, several packets, or one of them as text: in base64, as
/// certificates and keys are written, or in hexadecimal. Nothing is verified.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem ndn peek /alice/note | xylem ndn dissect   what an answer consists of
  xylem ndn dissect alice.cert                     a certificate
  xylem ndn dissect packet.tlv --json              all octets

",
    exit_help!()
))]
pub(crate) struct DissectArgs {
    /// The packet; - for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
}

/// Runs `xylem ndn dissect`.
pub(crate) fn run(args: DissectArgs, _: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let input = read(&args.file)?;
    let bytes = packet_in(&input);
    let found = dissect(&bytes);
    for element in &found.elements {
        let row = ElementRow::of(element);
        match out.is_json() {
            true => out.json(&row)?,
            false => out.line(&line(element))?,
        }
    }
    let Some(first) = found.faults.first() else { return Ok(Exit::Done) };
    let what = format!("{} bytes from the beginning: {}", first.offset, first.error);
    Err(CommandFailure::new(Exit::Usage, what))
}

fn read(path: &PathBuf) -> Result<Vec<u8>, CommandFailure> {
    let is_stdin = path.as_os_str() == "-";
    let failed = |error: io::Error| {
        let exit = if is_stdin { Exit::Local } else { Exit::Usage };
        CommandFailure::new(exit, format!("cannot read {}: {error}", path.display()))
    };
    let reader: Box<dyn Read> = match is_stdin {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(failed)?),
    };
    let mut input = Vec::new();
    reader.take(MAX_INPUT.saturating_add(1)).read_to_end(&mut input).map_err(failed)?;
    let fault = match input.len() as u64 {
        0 => "there is nothing to read".to_owned(),
        1..=MAX_INPUT => return Ok(input),
        _ => format!(
            "more than {} MiB are no packet; `xylem ndn dump` reads captures",
            MAX_INPUT >> 20
        ),
    };
    Err(CommandFailure::new(Exit::Usage, fault))
}

/// The packet in the input: the input itself, unless that is text.
fn packet_in(input: &[u8]) -> Vec<u8> {
    let is_text = input.iter().all(|octet| octet.is_ascii_graphic() || octet.is_ascii_whitespace());
    let decoded = if is_text { of_hex(input).or_else(|| Armor::decode(input)) } else { None };
    decoded.unwrap_or_else(|| input.to_vec())
}

/// Octets written in hexadecimal, perhaps with spaces or colons between them.
fn of_hex(input: &[u8]) -> Option<Vec<u8>> {
    let digits = input.iter().filter(|octet| !octet.is_ascii_whitespace() && **octet != b':');
    let digits: Option<Vec<u32>> = digits.map(|digit| char::from(*digit).to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    let octet = |pair: &[u32]| match pair {
        [high, low] => u8::try_from((high << 4) | low).ok(),
        _ => None,
    };
    digits.chunks(2).map(octet).collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// An element as one line.
fn line(element: &TlvElement<'_>) -> String {
    let indent = "  ".repeat(element.depth);
    let name = element.name.unwrap_or("?");
    let head = format!("{:>5} {indent}{} {name}", element.offset, element.typ);
    let value = match &element.value {
        TlvValue::Elements => format!("({} bytes)", element.len),
        TlvValue::Octets([]) => String::new(),
        TlvValue::Octets(octets) => match octets.get(..SHOWN) {
            Some(first) if octets.len() > SHOWN => {
                format!("{}… ({} bytes)", hex(first), octets.len())
            }
            _ => hex(octets),
        },
        other => text_of(other).unwrap_or_default(),
    };
    let colon = if value.is_empty() { "" } else { ": " };
    clean(&format!("{head}{colon}{value}")).into_owned()
}

/// A value that is shown as text.
fn text_of(value: &TlvValue<'_>) -> Option<String> {
    match value {
        TlvValue::Name(name) => Some(name.to_string()),
        TlvValue::Component(component) => Some(component.to_string()),
        TlvValue::Number(number) => Some(number.to_string()),
        TlvValue::Assigned(number, "") => Some(number.to_string()),
        TlvValue::Assigned(number, meaning) => Some(format!("{number} ({meaning})")),
        TlvValue::Text(text) => Some((*text).to_owned()),
        TlvValue::Elements | TlvValue::Octets(_) => None,
    }
}

/// Event: one element of a packet.
#[derive(Serialize)]
#[serde(tag = "event", rename = "element")]
struct ElementRow {
    depth: usize,
    offset: usize,
    #[serde(rename = "type")]
    typ: u32,
    name: Option<&'static str>,
    bytes: usize,
    text: Option<String>,
    octets: Option<String>,
}

impl ElementRow {
    fn of(element: &TlvElement<'_>) -> Self {
        let octets = match &element.value {
            TlvValue::Octets(octets) => Some(hex(octets)),
            _ => None,
        };
        Self {
            depth: element.depth,
            offset: element.offset,
            typ: element.typ,
            name: element.name,
            bytes: element.len,
            text: text_of(&element.value),
            octets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn an_element_is_documented() {
        let found = dissect(b"\x05\x05\x07\x03\x08\x01a");
        for element in &found.elements {
            assert_documented(&ElementRow::of(element));
        }
        let lines: Vec<String> = found.elements.iter().map(line).collect();
        let wanted = [
            "    0 5 Interest: (5 bytes)",
            "    2   7 Name: /a",
            "    4     8 GenericNameComponent: a",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_packet_is_read_from_text() {
        let packet = b"\x05\x05\x07\x03\x08\x01a";
        for text in
            ["05050703080161", "05:05:07:03:08:01:61\n", "05 05 07 03 08 01 61", "BQUHAwgBYQ=="]
        {
            assert_eq!(packet_in(text.as_bytes()), packet, "{text}");
        }
        assert_eq!(packet_in(packet), packet);
    }
}
