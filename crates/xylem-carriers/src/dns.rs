//! DNS messages (RFC 1035, RFC 6891) that carry link datagrams as EDNS(0) options (docs/spec/carriers.md, "DNS over
//! HTTPS").
//!
//! Queries and answers are well formed: one question, for the name servers of the root, and one OPT record, in which
//! each datagram is an option. Its code is from the range that the registry leaves to local use. Queries of other
//! programs are parsed far enough to be refused properly. Nothing is resolved.

use std::ops::Range;

use bytes::{Buf, BufMut, BytesMut};

use crate::Malformed;

/// Longest message, in bytes (RFC 8484, section 6).
pub const MAX_MESSAGE: usize = 65_535;
/// Code of the option that holds one datagram, of the range for local use (65,001 to 65,534).
pub const DATAGRAM_OPTION: u16 = 65_348;
/// Bytes before each datagram: code and length.
const OPTION_HEADER_LEN: usize = 4;
/// Longest list of options that fits one message, in bytes.
pub const MAX_OPTIONS: usize = MAX_MESSAGE - HEADER_LEN - QUESTION.len() - OPT_LEN;
/// Longest datagram that fits one message, in bytes.
pub const MAX_DATAGRAM: usize = MAX_OPTIONS - OPTION_HEADER_LEN;

const HEADER_LEN: usize = 12;
/// The root, NS, IN.
const QUESTION: [u8; 5] = [0, 0, 2, 0, 1];
/// Name (1), type (2), class (2), TTL (4), length (2).
const OPT_LEN: usize = 11;
const TYPE_OPT: u16 = 41;
/// QR, RD, RA.
const ANSWER_FLAGS: u16 = 0x8180;
/// RD.
const QUERY_FLAGS: u16 = 0x0100;
const QR: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const RCODE: u16 = 0x000f;
/// "The name server refuses to perform the specified operation" (RFC 1035, section 4.1.1).
const REFUSED: u16 = 5;

/// The kind of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsMessage {
    /// A message of a peer of ours, and the place of its options.
    Ours {
        /// Identifier of the query, to be echoed.
        id: u16,
        /// Place of the OPT record's data within the message.
        options: Range<usize>,
    },
    /// A real query of another program.
    Foreign {
        /// Where its question ends within the message.
        question_end: usize,
    },
}

/// Appends a datagram to a list of options, if it has room.
pub fn add_option(options: &mut BytesMut, datagram: &[u8]) -> bool {
    let room = options.len() + OPTION_HEADER_LEN + datagram.len() <= MAX_OPTIONS;
    let Ok(len) = u16::try_from(datagram.len()) else { return false };
    if room {
        options.reserve(OPTION_HEADER_LEN + datagram.len());
        options.put_u16(DATAGRAM_OPTION);
        options.put_u16(len);
        options.put_slice(datagram);
    }
    room
}

/// Length of the message with these options.
pub fn message_len(options: &[u8]) -> usize {
    HEADER_LEN + QUESTION.len() + OPT_LEN + options.len()
}

/// Appends a query with these options (at most [`MAX_OPTIONS`] bytes of them).
pub fn query(options: &[u8], out: &mut BytesMut) {
    // Identifier 0, as RFC 8484 section 4.1 recommends.
    message(0, QUERY_FLAGS, options, out);
}

/// Appends the answer to one of our queries.
pub fn answer(id: u16, options: &[u8], out: &mut BytesMut) {
    message(id, ANSWER_FLAGS, options, out);
}

fn message(id: u16, flags: u16, options: &[u8], out: &mut BytesMut) {
    debug_assert!(options.len() <= MAX_OPTIONS, "lists are made by add_option");
    out.reserve(message_len(options));
    for field in [id, flags, 1, 0, 0, 1] {
        out.put_u16(field);
    }
    out.put_slice(&QUESTION);
    out.put_u8(0);
    out.put_u16(TYPE_OPT);
    // Size of UDP payload that this side accepts; it has no meaning here, so the largest.
    out.put_u16(u16::MAX);
    out.put_u32(0);
    out.put_u16(options.len() as u16);
    out.put_slice(options);
}

/// Appends the refusal of a foreign query, with its question echoed.
pub fn refuse(query: &[u8], question_end: usize, out: &mut BytesMut) {
    let Some(question) = query.get(HEADER_LEN..question_end) else { return };
    for field in [field(query, 0), ANSWER_FLAGS | REFUSED, 1, 0, 0, 0] {
        out.put_u16(field);
    }
    out.put_slice(question);
}

/// Length of the refusal of a query with this end of its question.
pub fn refusal_len(question_end: usize) -> usize {
    question_end
}

/// Parses a query.
///
/// # Errors
/// [`Malformed`] for data that no resolver sends.
pub fn read_query(message: &[u8]) -> Result<DnsMessage, Malformed> {
    let flags = checked_header(message)?;
    if flags & (QR | OPCODE) != 0 || field(message, 6) != 0 || field(message, 8) != 0 {
        return Err(Malformed("not a DNS query"));
    }
    let question_end = end_of_question(message)?;
    Ok(match ours(message, question_end) {
        Some(options) => DnsMessage::Ours { id: field(message, 0), options },
        None => DnsMessage::Foreign { question_end },
    })
}

/// Parses the answer to one of our queries; returns the place of its options.
///
/// # Errors
/// [`Malformed`] for everything else.
pub fn read_answer(message: &[u8]) -> Result<Range<usize>, Malformed> {
    let flags = checked_header(message)?;
    if flags & QR == 0 || flags & (OPCODE | RCODE) != 0 {
        return Err(Malformed("not a DNS answer, or an error"));
    }
    let question_end = end_of_question(message)?;
    ours(message, question_end).ok_or(Malformed("a DNS answer without datagrams"))
}

/// Hands out each datagram of a parsed message, without copying it.
pub fn datagrams(mut message: BytesMut, options: Range<usize>, each: &mut dyn FnMut(BytesMut)) {
    message.truncate(options.end);
    message.advance(options.start.min(message.len()));
    while let Some(&[_, _, high, low]) = message.first_chunk::<OPTION_HEADER_LEN>() {
        message.advance(OPTION_HEADER_LEN);
        let len = usize::from(u16::from_be_bytes([high, low]));
        if len > message.len() {
            return;
        }
        let datagram = message.split_to(len);
        // An empty datagram only marks the query as ours.
        if !datagram.is_empty() {
            each(datagram);
        }
    }
}

/// Two bytes of a message that is long enough.
fn field(message: &[u8], at: usize) -> u16 {
    message.get(at..at + 2).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]))
}

/// The flags of a message with one question.
fn checked_header(message: &[u8]) -> Result<u16, Malformed> {
    if message.len() < HEADER_LEN || message.len() > MAX_MESSAGE || field(message, 4) != 1 {
        return Err(Malformed("not a DNS message with one question"));
    }
    Ok(field(message, 2))
}

/// Where the question ends: labels (RFC 1035, section 3.1) to the root's, type and class.
fn end_of_question(message: &[u8]) -> Result<usize, Malformed> {
    const MAX_NAME: usize = 255;
    let mut at = HEADER_LEN;
    loop {
        match message.get(at) {
            Some(0) => break,
            // A pointer is refused: nothing stands before the question that it could lead to.
            Some(label @ 1..=63) => at += 1 + usize::from(*label),
            _ => return Err(Malformed("an invalid name in a DNS question")),
        }
        if at - HEADER_LEN >= MAX_NAME {
            return Err(Malformed("an invalid name in a DNS question"));
        }
    }
    let end = at + 1 + 4;
    if end > message.len() { Err(Malformed("a DNS question cut short")) } else { Ok(end) }
}

/// The options' place, if the message has the one shape that we send.
fn ours(message: &[u8], question_end: usize) -> Option<Range<usize>> {
    let record = message.get(question_end..question_end + OPT_LEN)?;
    let is_opt = record[0] == 0 && u16::from_be_bytes([record[1], record[2]]) == TYPE_OPT;
    let len = usize::from(u16::from_be_bytes([record[9], record[10]]));
    let start = question_end + OPT_LEN;
    let one_record = (field(message, 6), field(message, 8), field(message, 10)) == (0, 0, 1);
    let whole = start + len == message.len() && message[HEADER_LEN..question_end] == QUESTION;
    if !(is_opt && one_record && whole && len >= OPTION_HEADER_LEN) {
        return None;
    }
    let mut at = start;
    while at < message.len() {
        if field(message, at) != DATAGRAM_OPTION || at + OPTION_HEADER_LEN > message.len() {
            return None;
        }
        at += OPTION_HEADER_LEN + usize::from(field(message, at + 2));
    }
    (at == message.len()).then_some(start..message.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(datagrams: &[&[u8]]) -> BytesMut {
        let mut options = BytesMut::new();
        for datagram in datagrams {
            assert!(add_option(&mut options, datagram));
        }
        options
    }

    fn found(message: &BytesMut, options: Range<usize>) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        datagrams(message.clone(), options, &mut |d| found.push(d.to_vec()));
        found
    }

    #[test]
    fn datagrams_travel_both_ways() {
        let sent: [&[u8]; 3] = [b"first", &[7; 1_232], &[9; 32_768]];
        let list = options(&sent);
        let mut message = BytesMut::new();
        query(&list, &mut message);
        assert_eq!(message.len(), message_len(&list));
        let Ok(DnsMessage::Ours { id, options }) = read_query(&message) else { panic!("ours") };
        assert_eq!((id, found(&message, options)), (0, sent.map(<[u8]>::to_vec).to_vec()));
        let mut message = BytesMut::new();
        answer(id, &list, &mut message);
        let options = read_answer(&message).unwrap();
        assert_eq!(found(&message, options).len(), 3);
        assert!(read_query(&message).is_err(), "an answer is no query");
    }

    #[test]
    fn a_list_of_options_ends_at_the_message_limit() {
        let mut list = BytesMut::new();
        assert!(!add_option(&mut list, &vec![0; MAX_DATAGRAM + 1]) && list.is_empty());
        assert!(add_option(&mut list, &vec![0; MAX_DATAGRAM]));
        assert!(!add_option(&mut list, &[]));
        let mut message = BytesMut::new();
        query(&list, &mut message);
        assert_eq!(message.len(), MAX_MESSAGE);
        assert!(matches!(read_query(&message), Ok(DnsMessage::Ours { .. })));
    }

    #[test]
    fn a_real_query_is_refused_properly() {
        // example.com A, with an OPT record of its own (RFC 6891, no options).
        let mut message = BytesMut::from(&b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\x01"[..]);
        message.extend_from_slice(b"\x07example\x03com\0\0\x01\0\x01");
        let end = message.len();
        message.extend_from_slice(b"\0\0\x29\x04\xd0\0\0\0\0\0\0");
        assert_eq!(read_query(&message), Ok(DnsMessage::Foreign { question_end: end }));
        let mut refusal = BytesMut::new();
        refuse(&message, end, &mut refusal);
        assert_eq!(refusal.len(), refusal_len(end));
        assert_eq!(&refusal[..6], b"\x12\x34\x81\x85\0\x01");
        assert_eq!(refusal[12..], message[12..end]);
    }

    #[test]
    fn truncated_or_changed_messages_are_never_ours() {
        let mut message = BytesMut::new();
        query(&options(&[b"abc", b"defg"]), &mut message);
        for len in 0..message.len() {
            let cut = read_query(&message[..len]);
            assert!(!matches!(cut, Ok(DnsMessage::Ours { .. })), "cut to {len}");
        }
        // Every byte up to the first option's code has only one valid value, except the identifier, the OPT record's
        // class and TTL, and the flags that a query may have.
        for at in [4, 5, 6, 8, 10, 11, 12, 14, 17, 18, 26, 27, 28, 29, 31] {
            let mut changed = message.clone();
            changed[at] ^= 0x55;
            assert!(!matches!(read_query(&changed), Ok(DnsMessage::Ours { .. })), "byte {at}");
        }
        assert!(read_query(&[0xc0; 40]).is_err() && read_query(&[]).is_err());
    }
}
