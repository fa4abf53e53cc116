//! Links of guests: peers that have dialled by a knock which can be guessed ([`Engine::answer_knock_by`]).

use xylem_link::{LinkEvent, REFUSED, purpose};

use super::Engine;

impl Engine {
    /// Whether a guest has caused this and is to get nothing by it. Guests may open streams for codes; they are served nothing by
    /// name, led to nobody, and not told where else this end is reached.
    pub(super) fn is_of_guest(&mut self, event: &LinkEvent) -> bool {
        let endpoint = &mut self.net.endpoint;
        match event {
            LinkEvent::Packet { link, .. } | LinkEvent::Candidates { link, .. } => {
                endpoint.is_guest(*link)
            }
            LinkEvent::StreamOpened { link, stream, purpose }
                if *purpose != purpose::CODE && endpoint.is_guest(*link) =>
            {
                // What is gone already need not be given up.
                let _ = endpoint.reset_stream(*link, *stream, REFUSED);
                let _ = endpoint.stop_stream(*link, *stream, REFUSED);
                true
            }
            _ => false,
        }
    }
}
