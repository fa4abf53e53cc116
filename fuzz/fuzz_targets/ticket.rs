//! Tickets: any text, and any payload with a right checksum.
#![no_main]
use xylem_object::ticket::VERSION;
use xylem_object::{Ticket, TicketError};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        for text in [text.to_owned(), format!("xylem:{text}")] {
            match text.parse::<Ticket>() {
                Ok(ticket) => {
                    let written = ticket.to_string();
                    let read_again = written.parse::<Ticket>();
                    assert_eq!(read_again, Ok(ticket), "what is read can be written");
                }
                Err(error) => assert_eq!(error.to_string().lines().count(), 1),
            }
        }
    }
    let mut sealed = input.to_vec();
    sealed.extend_from_slice(&xylem_hash::hash(input).as_bytes()[..4]);
    match Ticket::from_bytes(&sealed) {
        // Version 1 is only parsed, never written.
        Ok(ticket) if input[0] == VERSION => assert_eq!(ticket.to_bytes(), sealed),
        Ok(ticket) => assert_eq!(Ticket::from_bytes(&ticket.to_bytes()), Ok(ticket)),
        Err(error) => assert_ne!(error, TicketError::Checksum),
    }
});
