//! [`Looking`] and [`Asking`]: the library's side of a client on a connection.

use std::time::Duration;
use xylem_client::{Application, ClientError, Message, Outbox};
use xylem_library::keys;
use xylem_ndncert::{Lookup, Request, State};
use xylem_node::wall_clock;
use xylem_packet::{Interest, NackReason};

/// Until there is a profile, or none will come.
pub(super) struct Looking(pub(super) Lookup);

/// Until somebody has to say something, or the end.
pub(super) struct Asking {
    pub(super) request: Request,
    /// How often the forwarder has known no way since an answer came.
    refused: u32,
}

/// A way to a CA may come back, and one to a certificate that was issued this moment is perhaps on its way.
const PATIENCE: u32 = 3;

impl Asking {
    pub(super) fn new(request: Request) -> Self {
        Asking { request, refused: 0 }
    }
}

fn now_ms() -> u64 {
    wall_clock().milliseconds()
}

fn random<const N: usize>() -> Result<[u8; N], ClientError> {
    // Whoever has no randomness makes no key; the run ends.
    keys::random().map_err(|e| ClientError::Contradiction(e.to_string()))
}

/// What a forwarder says that knows no way.
fn refused(message: Message<'_>) -> Result<(), ClientError> {
    match (message.nack, Interest::decode(message.packet)) {
        (Some(reason @ NackReason::NO_ROUTE), Ok(interest)) => {
            // The digest of the parameters says nothing to people.
            let name = interest.name();
            let plain = name.iter().filter(|part| part.value().len() != 32).collect();
            Err(ClientError::Nack { name: plain, reason, discovering: true })
        }
        _ => Ok(()),
    }
}

/// How long until a time of day, from `now` on.
fn until(timer_ms: Option<u64>, now: Duration) -> Option<Duration> {
    timer_ms.map(|at| now + Duration::from_millis(at.saturating_sub(now_ms())))
}

impl Application for Looking {
    fn transmit(&mut self, _now: Duration, outbox: &mut Outbox<'_>) -> Result<(), ClientError> {
        if let Some(interest) = self.0.poll_transmit(now_ms(), random()?) {
            outbox.packet(&interest, None);
        }
        Ok(())
    }

    fn handle_message(
        &mut self,
        _now: Duration,
        message: Message<'_>,
        _outbox: &mut Outbox<'_>,
    ) -> Result<(), ClientError> {
        refused(message)?;
        self.0.receive(message.packet);
        Ok(())
    }

    fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        until(self.0.next_timer(), now)
    }

    fn is_done(&self) -> bool {
        // It has no timer any more once it knows.
        self.0.next_timer().is_none()
    }
}

impl Application for Asking {
    fn transmit(&mut self, _now: Duration, outbox: &mut Outbox<'_>) -> Result<(), ClientError> {
        if let Some(interest) = self.request.poll_transmit(now_ms(), random()?) {
            outbox.packet(&interest, None);
        }
        Ok(())
    }

    fn handle_message(
        &mut self,
        _now: Duration,
        message: Message<'_>,
        _outbox: &mut Outbox<'_>,
    ) -> Result<(), ClientError> {
        if let Err(no_way) = refused(message) {
            self.refused = self.refused.saturating_add(1);
            return if self.refused >= PATIENCE { Err(no_way) } else { Ok(()) };
        }
        if message.nack.is_none() && self.request.receive(message.packet, now_ms(), random()?) {
            self.refused = 0;
        }
        Ok(())
    }

    fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        until(self.request.next_timer(), now)
    }

    fn is_done(&self) -> bool {
        !matches!(self.request.state(), State::Waiting)
    }
}
