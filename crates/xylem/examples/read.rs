//! Lists the files that a ticket names, or prints the last bytes of one without fetching the rest of it.
//!
//! `cargo run -p xylem --example read -- TICKET [PATH [STORE]]`

use std::env;
use std::io::{self, Seek, SeekFrom};
use std::path::PathBuf;
use xylem::{EntryKind, Reader, ReaderOptions, Stop, Ticket, usual_store};

/// Most bytes printed.
const LAST: u64 = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let ticket: Ticket = arguments.next().ok_or("give TICKET")?.parse()?;
    let path = arguments.next();
    let store = arguments.next().map(PathBuf::from);
    let store = store.or_else(usual_store).ok_or("give STORE: there is no home")?;
    let reader = Reader::open(ReaderOptions::new(ticket, store), &Stop::new(), Box::new(|_| {}))?;
    let Some(path) = path else {
        for number in 0.. {
            let Some(item) = reader.item(number)? else { break };
            if let EntryKind::File { size, .. } = item.entry.kind {
                println!("{size:12}  {}", String::from_utf8_lossy(&item.entry.path));
            }
        }
        return Ok(());
    };
    let mut file = reader.open_path(path.as_bytes())?;
    file.seek(SeekFrom::Start(file.size().saturating_sub(LAST)))?;
    io::copy(&mut file, &mut io::stdout())?;
    Ok(())
}
