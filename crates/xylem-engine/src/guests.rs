//! Links of guests: peers that have dialled by a knock which can be guessed ([`Engine::answer_knock_by`]).

use xylem_link::{LinkEvent, REFUSED, purpose};

use super::Engine;

impl Engine {
    /// Returns whether a guest has caused this event, which is then dropped. Guests may open streams for codes. They
    /// get no data by name, no introduction to others, and no further addresses of this end.
    pub(super) fn drop_guest_event(&mut self, event: &LinkEvent) -> bool {
        let endpoint = &mut self.net.endpoint;
        match event {
            LinkEvent::Packet { link, .. } | LinkEvent::Candidates { link, .. } => {
                endpoint.is_guest(*link)
            }
            LinkEvent::StreamOpened { link, stream, purpose }
                if *purpose != purpose::CODE && endpoint.is_guest(*link) =>
            {
                // The stream may be gone already.
                let _ = endpoint.reset_stream(*link, *stream, REFUSED);
                let _ = endpoint.stop_stream(*link, *stream, REFUSED);
                true
            }
            _ => false,
        }
    }
}
