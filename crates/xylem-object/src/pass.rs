//! The pass: proof to a sharer that a web page has the ticket (docs/spec/web.md).
//!
//! Any page in a browser may open a WebSocket to any address that the browser reaches, and the sharer learns only the
//! page's origin. A page that has the ticket requests `/PASS`. A page that was loaded from elsewhere and has no ticket
//! is refused. The pass is derived from publisher and root, and reveals neither.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_hash::Hash;

use crate::{PublisherId, Ticket};

const CONTEXT: &str = "xylem v1 pass of a page that has a ticket";

/// Length of a pass in characters.
pub const LEN: usize = 64;

/// The pass of this publisher's publication with this root, in hexadecimal.
pub fn from_root(publisher: &PublisherId, root: &Hash) -> String {
    let mut material = [0; 64];
    material[..32].copy_from_slice(&publisher.0);
    material[32..].copy_from_slice(root.as_bytes());
    Hash::from_bytes(xylem_hash::derive_key(CONTEXT, &material)).to_string()
}

/// The pass of this ticket's publication.
pub fn from_ticket(ticket: &Ticket) -> String {
    from_root(&ticket.publisher, &ticket.root)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of docs/spec/web.md.
    #[test]
    fn a_pass_depends_on_publisher_and_root() {
        let (a, b) = (PublisherId([1; 32]), PublisherId([2; 32]));
        let (r, s) = (xylem_hash::hash(b"r"), xylem_hash::hash(b"s"));
        let pass = from_root(&a, &r);
        assert_eq!(pass, "927a9ce6ccdc1defd0241f1dd9f74a881705fcbabd9f405989d856f0d18cd0a7");
        assert_eq!(pass.len(), LEN);
        assert_ne!(pass, from_root(&b, &r));
        assert_ne!(pass, from_root(&a, &s));
    }
}
