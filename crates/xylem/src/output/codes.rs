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
        CodeEvent::Shown { code, of, seconds, lan, relay, at } => {
            let (verb, what, from) = match of {
                Offered::Ticket => ("get", "fetch it", "--from"),
                Offered::Card => ("send FILE", "send to you", "--at"),
            };
            let named = at.first().map(|at| format!("{from} {at}"));
            let elsewhere = relay.as_ref().map(|relay| format!("--relay {relay}")).or(named);
            let elsewhere = elsewhere.map(|flag| format!(" {flag}")).unwrap_or_default();
            let (flag, note) = match lan {
                true => ("", format!("On this LAN as it is; from elsewhere with{elsewhere}\n")),
                false => (&*elsewhere, String::new()),
            };
            let minutes = seconds / 60;
            let line = format!(
                "Whoever is told this code can {what}, once, within {minutes} minutes:\n\n  \
                 xylem {verb} {code}{flag}\n\n{note}"
            );
            (line.trim_end().to_owned() + "\n", false)
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
