//! Tickets: any text, and any payload behind a right checksum.
#![no_main]
use xylem_object::{Ticket, TicketError};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        for text in [text.to_owned(), format!("xylem:{text}")] {
            match text.parse::<Ticket>() {
                Ok(ticket) => {
                    let written = ticket.to_string();
                    assert!(text.trim().eq_ignore_ascii_case(&written), "a ticket has one form");
                }
                Err(error) => assert_eq!(error.to_string().lines().count(), 1),
            }
        }
    }
    let mut sealed = input.to_vec();
    sealed.extend_from_slice(&xylem_hash::hash(input).as_bytes()[..4]);
    match Ticket::from_bytes(&sealed) {
        Ok(ticket) => assert_eq!(ticket.to_bytes(), sealed),
        Err(error) => assert_ne!(error, TicketError::Checksum),
    }
});
