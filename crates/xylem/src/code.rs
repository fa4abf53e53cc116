//! Codes on the command line: `7-alpha-cobra-violin` where a ticket or a card could stand.

use crate::exit::{Exit, Failure};
use crate::output::Out;
use std::time::Duration;
use xylem_library::Stop;
use xylem_node::Peer;
use xylem_node::code::{Code, CodeError, CodeEvent, Offered, Over, TakeOptions, Told, take};

/// Whether a word of the command line is meant to be a code.
pub(crate) use xylem_node::code::looks_like_code;

/// Brings what a code stands for from whoever shows it.
pub(crate) fn redeem(
    text: &str,
    from: Vec<Peer>,
    give_up: Duration,
    stop: &Stop,
    out: &mut Out,
) -> Result<Told, Failure> {
    let wrong = |e: CodeError| Failure::new(Exit::Usage, e.to_string());
    let code: Code = text.parse().map_err(wrong)?;
    if let Some(other) = from.iter().find(|peer| peer.link_address().is_none()) {
        let what = format!("{other}: codes go over the encrypted link only");
        return Err(Failure::new(Exit::Usage, what));
    }
    let taken = take(&TakeOptions { code, from, give_up }, stop, &mut |event| out.event(event));
    out.take_broken()?;
    Ok(taken?)
}

/// What was handed over, read as what is wanted; `other`: what to do with a code of the other kind.
pub(crate) fn read<T: std::str::FromStr>(told: &Told, other: &str) -> Result<T, Failure> {
    let wrong = |_| Failure::new(Exit::Usage, other.to_owned());
    told.text.parse().map_err(wrong)
}

/// What a person is told; true for what is amiss.
pub(crate) fn line(event: &CodeEvent) -> (String, bool) {
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
