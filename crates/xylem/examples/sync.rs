//! Keeps a folder in step with those of other members until Enter is pressed, or its input ends. Without TICKET a new
//! group begins, and its ticket is printed.
//!
//! `cargo run -p xylem --example sync -- FOLDER [TICKET [STORE]]`

use std::path::PathBuf;
use std::{env, io, thread};
use xylem::{Event, Stop, SyncError, SyncEvent, SyncOptions, sync, usual_store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("give FOLDER")?);
    let ticket = arguments.next().filter(|ticket| ticket != "-");
    let joins = ticket.map(|ticket| ticket.parse()).transpose()?;
    let store = arguments.next().map(PathBuf::from);
    let store = store.or_else(usual_store).ok_or("give STORE: there is no home")?;
    let options = SyncOptions { joins, ..SyncOptions::new(folder, store) };
    let stop = Stop::new();
    let ends = stop.clone();
    thread::spawn(move || {
        let _ = io::stdin().read_line(&mut String::new());
        ends.raise();
    });
    let done = sync(&options, &stop, &mut |event| match event {
        SyncEvent::Ready { invitation, .. } => println!("{invitation}"),
        SyncEvent::Fetching(Event::Progress { verified, total, .. }) => {
            eprintln!("{verified} of {total} bytes");
        }
        SyncEvent::Took { name, paths, .. } => eprintln!("from {name}: {paths:?}"),
        SyncEvent::InStep { members, .. } => eprintln!("in step with {members}"),
        _ => {}
    });
    match done {
        Err(SyncError::Copied { store }) => {
            Err(format!("{}: remove it, and join again", store.display()).into())
        }
        done => Ok(done?),
    }
}
