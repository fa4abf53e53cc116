//! Hints for an argument that is no ticket and for an unknown verb: words of other programs, a pasted link, a ticket of
//! another kind. A text that may contain a ticket is never repeated, since tickets are secrets.

use std::path::Path;

/// Prefixes of tickets of folders in step, of cards, and of links to the page for browsers.
const SYNC: &str = "xylem-sync:";
const CARD: &str = "xylem-peer:";
const WEB: [&str; 2] = ["http://", "https://"];

/// Words of other programs for a verb, and how that verb is typed here.
const OTHER_WORDS: &[(&[&str], &str)] = &[
    (&["receive", "recv", "fetch", "pull", "download", "clone"], "xylem get TICKET"),
    (&["push", "upload", "serve", "publish", "seed"], "xylem share PATH"),
    (&["hash", "checksum", "b3sum", "digest"], "xylem sum FILE"),
    (&["status", "ls", "list"], "xylem shares"),
    (&["check"], "xylem sum --check LIST, xylem verify PATH TICKET or xylem store check"),
    (&["repair", "fsck"], "xylem scrub --repair"),
    (&["clean", "gc", "prune"], "xylem store gc"),
    (&["daemon", "start", "install"], "xylem service install"),
    (&["stop", "rm", "remove"], "xylem unshare PATH"),
    (&["update", "upgrade"], "xylem get TICKET --overwrite"),
    (&["config", "settings"], "xylem --config FILE; docs/node.md describes the file"),
    (&["version"], "xylem --version"),
];

/// How to type here what another program calls `word`.
pub(crate) fn other_word(word: &str) -> Option<&'static str> {
    let known = |(words, _): &&(&[&str], &str)| words.contains(&word);
    OTHER_WORDS.iter().find(known).map(|(_, typed)| *typed)
}

/// A hint in one line for an argument of `xylem get` that is no ticket; `None` if the text is of no known kind.
pub(crate) fn ticket_hint(text: &str) -> Option<String> {
    let text = text.trim();
    let starts = |scheme: &str| is_prefix(scheme, text);
    let what = if text.to_ascii_lowercase().matches("xylem:").count() > 1 && !is_web_link(text) {
        "these are several tickets: give one at a time"
    } else if starts(SYNC) {
        "this is the ticket of a folder in step: join it with `xylem sync DIR TICKET`"
    } else if starts(CARD) {
        "this is the card of a person, not a ticket: `xylem send FILE CARD` sends a file to them"
    } else if is_web_link(text) {
        "this is a link for browsers: give the part behind the #, which begins with \"xylem:\""
    } else if is_file(text) {
        return Some(format!("not a ticket, but a file: if the ticket is in it, give @{text}"));
    } else {
        return None;
    };
    Some(what.to_owned())
}

/// A hint for an argument that should be the ticket of a folder in step and is not.
pub(crate) fn invitation_hint(text: &str) -> Option<&'static str> {
    let text = text.trim();
    if is_prefix("xylem:", text) {
        return Some("this is a ticket for `xylem get`, not of a folder in step");
    }
    let is_folder = Path::new(text).is_dir();
    is_folder.then_some("the folder comes first: `xylem sync DIR TICKET`")
}

/// Whether an argument in place of a path is a ticket of any kind, as when arguments are swapped.
pub(crate) fn is_any_ticket(text: &str) -> bool {
    [SYNC, CARD, "xylem:"].iter().any(|scheme| is_prefix(scheme, text.trim()))
}

fn is_prefix(scheme: &str, text: &str) -> bool {
    text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

fn is_web_link(text: &str) -> bool {
    WEB.iter().any(|scheme| is_prefix(scheme, text))
}

/// Whether it is a file whose name is no ticket, so that it may be printed.
fn is_file(text: &str) -> bool {
    !is_any_ticket(text) && Path::new(text).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_tickets_are_explained_and_not_repeated() {
        for (text, part) in [
            ("xylem:aaaasecret xylem:aaaasecret", "several tickets"),
            ("xylem-sync:aaaasecret", "xylem sync DIR TICKET"),
            ("XYLEM-PEER:aaaasecret", "xylem send"),
            ("http://192.0.2.1:7380/#xylem:aaaasecret", "behind the #"),
        ] {
            let what = ticket_hint(text).expect("it is known");
            assert!(what.contains(part) && !what.contains("secret"), "{what}");
        }
        assert_eq!(ticket_hint("no-such-file"), None);
        assert!(ticket_hint("Cargo.toml").is_some_and(|what| what.contains("@Cargo.toml")));
        assert!(invitation_hint("xylem:aa").is_some_and(|what| what.contains("xylem get")));
    }

    #[test]
    fn foreign_words_are_no_verbs_of_this_program() {
        let verbs = crate::verbs::command();
        for word in OTHER_WORDS.iter().flat_map(|(words, _)| *words) {
            assert!(verbs.find_subcommand(word).is_none(), "{word}");
        }
    }
}
