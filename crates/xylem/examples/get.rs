//! Fetches what a ticket names. Run it again after an interruption to resume.
//!
//! `cargo run -p xylem --example get -- TICKET OUTPUT [STORE]`

use std::env;
use std::path::PathBuf;
use xylem::{Event, Existing, GetOptions, Output, SaveOptions, Stop, Ticket, get, usual_store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let ticket: Ticket = arguments.next().ok_or("give TICKET")?.parse()?;
    let output = Output::to(arguments.next().ok_or("give OUTPUT")?.into());
    let store = arguments.next().map(PathBuf::from);
    let store = store.or_else(usual_store).ok_or("give STORE: there is no home")?;
    let save = SaveOptions::to(output, Existing::Refuse);
    let summary = get(&GetOptions::new(ticket, save, store), &Stop::new(), &mut |event| {
        if let Event::Progress { verified, total, .. } = event {
            eprintln!("{verified} of {total} bytes");
        }
    })?;
    let path = summary.path.unwrap_or_default();
    println!("{}  {}", summary.root, path.display());
    Ok(())
}
