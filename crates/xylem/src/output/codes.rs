//! What a person is told of codes.

use super::Out;
use xylem_node::code::{CodeEvent, Offered, Over};

/// Tells a person.
pub(super) fn show(out: &mut Out, event: &CodeEvent) {
    match line(event) {
        (line, true) => out.warn(&line),
        (line, false) => out.note(&line),
    }
}

/// What a person is told; true for what is amiss.
fn line(event: &CodeEvent) -> (String, bool) {
    match event {
        CodeEvent::Shown { code, of, seconds, at } => {
            let (verb, what) = match of {
                Offered::Ticket => ("get", "fetch it"),
                Offered::Card => ("send FILE", "send to you"),
            };
            let from = at.first().map(|at| format!(" --from {at}")).unwrap_or_default();
            let from = if *of == Offered::Card { from.replace("--from", "--at") } else { from };
            let minutes = seconds / 60;
            let line = format!(
                "Whoever is told this code can {what}, once, within {minutes} minutes:\n\n  \
                 xylem {verb} {code}{from}\n"
            );
            (line, false)
        }
        CodeEvent::Wrong { left: 0 } => {
            ("somebody tried a wrong code for the third time".into(), true)
        }
        CodeEvent::Wrong { left: 1 } => ("somebody tried a wrong code; 1 try left".into(), true),
        CodeEvent::Wrong { left } => {
            (format!("somebody tried a wrong code; {left} tries left"), true)
        }
        CodeEvent::Ended { why: Over::Used } => ("The code was used".into(), false),
        CodeEvent::Ended { why: Over::Expired } => {
            ("The code has ended: its ten minutes are over".into(), false)
        }
        CodeEvent::Ended { why: Over::Guessed } => {
            ("the code has ended after three wrong guesses".into(), true)
        }
        CodeEvent::Taken { peer } => (format!("The code is right; going on with {peer}"), false),
        other => (format!("{other:?}"), false),
    }
}
