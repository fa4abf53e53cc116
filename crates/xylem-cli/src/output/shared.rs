//! The output of a share: the ticket, and the ways to use it.

use std::net::SocketAddr;

use super::text::{bytes, clean, count};
use super::{Out, reaching};
use crate::exit::CommandFailure;
use crate::web::{behind_router, link, reach_of_link};
use xylem_node::Event;

impl Out {
    pub(super) fn shared(&mut self, event: Event) -> Result<(), CommandFailure> {
        let Event::Shared {
            ticket,
            name,
            root,
            bytes: size,
            files,
            signed_by,
            listen,
            plain,
            web,
            carriers,
        } = event
        else {
            return Ok(());
        };
        // The ticket comes first and alone, so that `read ticket` in a script gets exactly that.
        let at_home = reaching::is_here_alone(&ticket.addresses);
        let publisher = ticket.publisher;
        let reachable = reaching::list(&ticket.addresses);
        let addresses = ticket.addresses.clone();
        let ticket = ticket.to_string();
        self.line(&ticket)?;
        let what = format!("{}, {}", bytes(size), count(files, "file"));
        self.note(&format!("Sharing {what} as {}", clean(&name.to_string())));
        if let Some(by) = signed_by {
            let by = by.key_id();
            self.note(&format!("Serving it with the signature of {by}, as it was fetched"));
        }
        self.detail(&format!("root {root}, publisher {publisher}"));
        let join = |all: Vec<SocketAddr>| {
            all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let mut at = join(listen);
        if !at.is_empty() {
            self.detail(&format!("Listening on {at} (encrypted)"));
        }
        if !reachable.is_empty() {
            self.note(&format!("Reachable at {reachable} (encrypted)"));
        }
        // A ticket names no carriers.
        let from = match (at.is_empty(), carriers.first()) {
            (true, Some(first)) => format!(" --from {first}"),
            _ => String::new(),
        };
        at = carriers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if !at.is_empty() {
            self.note(&format!("Listening on {at} (encrypted; name it with --from)"));
        }
        if !plain.is_empty() {
            self.note(&format!("Listening on {} (plain NDN, not encrypted)", join(plain)));
        }
        let place = if at_home { "this machine" } else { "any machine that reaches this one" };
        self.note(&format!("\nTo fetch it, on {place}:\n"));
        self.note(&format!("  xylem get {ticket}{from}\n"));
        if let Some(at) = web.first() {
            self.note("In a browser (not encrypted; every piece is proven):\n");
            self.note(&format!("  {}\n", link(*at, &addresses, &ticket)));
            match (reach_of_link(*at, &addresses), self.way) {
                (Some(who), _) => self.note(&who),
                (None, Some(way)) => {
                    behind_router(way, *at).into_iter().for_each(|what| self.warn(&what));
                }
                (None, None) => self.web = Some(*at),
            }
        }
        self.show_qr(&ticket);
        Ok(())
    }
}
