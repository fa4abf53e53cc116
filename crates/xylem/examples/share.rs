//! Publishes a file or a directory and serves it until Enter is pressed, or its input ends.
//!
//! `cargo run -p xylem --example share -- PATH [STORE]`

use std::path::PathBuf;
use std::{env, io, thread};
use xylem::{Event, ShareOptions, Stop, share, usual_store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let path = arguments.next().ok_or("give PATH")?;
    let store = arguments.next().or_else(usual_store).ok_or("give STORE: there is no home")?;
    let options = ShareOptions { paths: vec![path], store, ..ShareOptions::default() };
    let stop = Stop::new();
    let ends = stop.clone();
    thread::spawn(move || {
        let _ = io::stdin().read_line(&mut String::new());
        ends.raise();
    });
    share(&options, &stop, &mut |event| match event {
        Event::Shared { ticket, .. } => println!("{ticket}"),
        Event::Fetched(by) => eprintln!("{} has it now", by.peer),
        _ => {}
    })?;
    Ok(())
}
