//! Draws an observer's view of each shaping level: `cargo run -p xylem-link --example shape_pictures DIR` writes
//! `shaping-LEVEL.svg`. The data come from a simulated session: histograms of the sizes of a peer's datagrams and of
//! the gaps between them while it is busy, lightly used and idle. The same seed gives the same pictures on the same
//! machine type (logarithms are the platform's).

mod draw;
mod session;
#[path = "../../tests/sim/mod.rs"]
mod sim;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use session::{Load, observe};
use xylem_link::Level;

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: shape_pictures DIR");
        return ExitCode::from(2);
    };
    for level in Level::ALL {
        let seen = Load::ALL.map(|load| observe(level, load));
        for (load, seen) in Load::ALL.iter().zip(&seen) {
            // The pictures are drawn even if the output cannot be written.
            let _ = writeln!(io::stdout(), "{level:9} {:6} {}", load.name(), seen.summary());
        }
        let path = dir.join(format!("shaping-{level}.svg"));
        if let Err(error) = std::fs::write(&path, draw::picture(level, &seen)) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::from(4);
        }
    }
    ExitCode::SUCCESS
}
