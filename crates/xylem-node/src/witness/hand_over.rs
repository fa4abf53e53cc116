//! [`hand_over`]: a co-signature to those who serve the publication, and what they say to it.

use bytes::Bytes;
use xylem_object::witness::{Answer, submission};
use xylem_packet::{Data, Interest, NameRef};

use crate::event::Event;
use crate::fetch::Fetch;
use crate::follow::ASK_EVERY;
use xylem_library::{Error, Stop, keys};

/// How often it is tried while nobody answers.
const TRIES: usize = 3;

/// Hands a co-signature to everybody who is here; what the first of them says. `None`: nobody says anything. `other` is
/// given what else comes.
pub(super) fn hand_over(
    fetch: &mut Fetch,
    object: NameRef<'_>,
    cosignature: &[u8],
    other: &mut dyn FnMut(&Bytes),
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Option<Answer>, Error> {
    for _ in 0..TRIES {
        let lifetime = ASK_EVERY.as_millis() as u64;
        let interest = submission(object, cosignature, keys::random()?, lifetime)
            .map_err(|e| Error::usage(e.to_string()))?;
        let asked = Interest::decode(&interest).map_err(|e| Error::usage(e.to_string()))?;
        fetch.ask_all(&interest);
        let until = fetch.now() + ASK_EVERY;
        while fetch.now() < until {
            while let Some(packet) = fetch.next_pointer() {
                let data = Data::decode(&packet).ok().filter(|data| data.name() == asked.name());
                match data.and_then(|data| Answer::decode(data.content())) {
                    Some(Answer::TooMany) => {}
                    Some(answer) => return Ok(Some(answer)),
                    None => other(&packet),
                }
            }
            fetch.run_once(Some(until), stop, on_event)?;
        }
    }
    Ok(None)
}
