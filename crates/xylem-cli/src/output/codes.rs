//! Messages about codes, in text.

use super::Out;
use xylem_node::Relay;
use xylem_node::code::{CodeEnd, CodeEvent, Offered};
use xylem_object::ticket::Address;
use xylem_reach::kind::is_global;

/// Note for a code that works on the local network alone.
const NEAR: &str = "It works on this network only. For a peer elsewhere, give the same relay on both sides (--relay)";

/// Note for a code while no node of the DHT answers.
const NEAR_SO_FAR: &str = "No node of the DHT has answered yet, as where a network drops UDP: so far it works on this network only. A line follows when it is in the DHT. For a peer elsewhere, give the same relay on both sides (--relay)";

/// Note when the DHT lists a code after all.
const LISTED: &str = "The code is in the DHT now: it leads here from elsewhere, too";

/// Note before anything is sent to the DHT.
const IN_DHT: &str = "Asking the BitTorrent DHT, where both addresses can be seen for ten minutes; --no-dht turns this off";

/// Note before strangers' relays are used.
pub(super) fn volunteers(relays: &[Relay]) -> String {
    let at = relays.iter().filter_map(|relay| relay.at.addresses.first());
    let at: Vec<String> = at.map(ToString::to_string).collect();
    format!(
        "No direct way to the other side: relays of strangers pass the encrypted datagrams ({}). They see addresses, amounts \
         and times; `volunteers = false` under [dht] in the settings turns this off",
        at.join(", ")
    )
}

fn means_the_same_everywhere(address: &Address) -> bool {
    match address {
        Address::Ip(at) => is_global(at.ip()),
        Address::Host(..) => true,
    }
}

/// Prints the message of an event.
pub(super) fn show(out: &mut Out, event: &CodeEvent) {
    match line(event) {
        (line, true) => out.warn(&line),
        (line, false) => out.note(&line),
    }
}

/// The message of an event; true if it is a warning.
fn line(event: &CodeEvent) -> (String, bool) {
    match event {
        CodeEvent::InDht => (IN_DHT.into(), false),
        CodeEvent::Listed => (LISTED.into(), false),
        CodeEvent::Shown { code, of, seconds, lan, dht, dht_waits, relay, at } => {
            let (verb, what, from) = match of {
                Offered::Ticket => ("get", "fetch it", "--from"),
                Offered::Card => ("send FILE", "send to you", "--to"),
            };
            // An address that is valid on the local network alone is of no use to a peer elsewhere.
            let public = at.iter().find(|at| means_the_same_everywhere(at));
            let elsewhere = match (relay, public) {
                (Some(relay), _) => Some(format!(" --relay {relay}")),
                (None, at) => at.map(|at| format!(" {from} {at}")),
            };
            let only = if *dht_waits { NEAR_SO_FAR } else { NEAR };
            let near = at.first().map(|at| format!(" {from} {at}")).unwrap_or_default();
            let (flag, note) = match (lan, elsewhere) {
                _ if *dht => (String::new(), String::new()),
                (true, Some(elsewhere)) => (
                    String::new(),
                    format!("On this LAN that is enough; from elsewhere add{elsewhere}\n"),
                ),
                (true, None) => (String::new(), format!("{only}\n")),
                (false, Some(elsewhere)) => (elsewhere, String::new()),
                (false, None) => (near, format!("{only}\n")),
            };
            let minutes = seconds / 60;
            let line = format!(
                "Whoever has this code can {what}, once, within {minutes} minutes:\n\n  \
                 xylem {verb} {code}{flag}\n\n{note}"
            );
            (line.trim_end().to_owned() + "\n", false)
        }
        CodeEvent::Wrong { left: 0 } => ("a wrong code was tried for the third time".into(), true),
        CodeEvent::Wrong { left: 1 } => ("a wrong code was tried; 1 try left".into(), true),
        CodeEvent::Wrong { left } => (format!("a wrong code was tried; {left} tries left"), true),
        CodeEvent::Ended { why: CodeEnd::Used } => ("The code was used".into(), false),
        CodeEvent::Ended { why: CodeEnd::Expired } => {
            ("The code has expired: its ten minutes are over".into(), false)
        }
        CodeEvent::Ended { why: CodeEnd::Guessed } => {
            ("the code is no longer valid, after three wrong guesses".into(), true)
        }
        CodeEvent::Taken { peer } => {
            (format!("The code is right; continuing with {}", peer.for_people()), false)
        }
        other => (format!("{other:?}"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lan: bool, at: &[&str], relay: Option<&str>) -> String {
        line_of(lan, false, at, relay)
    }

    fn line_of(lan: bool, dht: bool, at: &[&str], relay: Option<&str>) -> String {
        let event = CodeEvent::Shown {
            code: "7-alpha-cobra-violin".parse().expect("a code"),
            of: Offered::Ticket,
            seconds: 600,
            lan,
            dht,
            dht_waits: false,
            relay: relay.map(|relay| relay.parse().expect("a relay")),
            at: at.iter().map(|at| at.parse().expect("an address")).collect(),
        };
        line(&event).0
    }

    #[test]
    fn a_code_in_the_dht_needs_nothing_else() {
        for lan in [true, false] {
            let line = line_of(lan, true, &["192.168.1.23:7348", "198.51.100.7:7348"], None);
            assert!(line.ends_with("xylem get 7-alpha-cobra-violin\n"), "{line}");
        }
    }

    #[test]
    fn a_code_that_the_dht_may_list_later_is_near_so_far() {
        let event = CodeEvent::Shown {
            code: "7-alpha-cobra-violin".parse().expect("a code"),
            of: Offered::Ticket,
            seconds: 600,
            lan: true,
            dht: false,
            dht_waits: true,
            relay: None,
            at: vec!["192.168.1.23:7348".parse().expect("an address")],
        };
        assert!(line(&event).0.contains("so far it works on this network only"));
    }

    #[test]
    fn a_code_names_no_address_that_differs_elsewhere() {
        let private = ["192.168.1.23:7348", "100.64.0.9:7348", "[fd00::2]:7348"];
        for lan in [true, false] {
            let line = shown(lan, &private, None);
            assert!(line.contains("on this network only") && line.contains("--relay"), "{line}");
            assert!(!line.contains("from elsewhere"), "{line}");
            let named = line.contains("--from 192.168.1.23:7348");
            assert_eq!(named, !lan, "{line}");
        }
        let line = shown(true, &["192.168.1.23:7348", "198.51.100.7:7348"], None);
        assert!(line.contains("from elsewhere add --from 198.51.100.7:7348"), "{line}");
        let line = shown(true, &["h.example:7348"], None);
        assert!(line.contains("from elsewhere add --from h.example:7348"), "{line}");
        let relay = format!("{}@192.0.2.9:7348", "a5".repeat(32));
        let line = shown(true, &private, Some(&relay));
        assert!(line.contains(&format!("from elsewhere add --relay {relay}")), "{line}");
    }
}
