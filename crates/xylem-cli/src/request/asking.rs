//! [`LookupClient`] and [`RequestClient`]: run the library's client of a CA on a connection.

use std::time::Duration;
use xylem_client::{Application, ClientError, ForwarderMessage, PacketOutbox};
use xylem_ndncert::{CertificateRequest, Lookup, RequestState};
use xylem_node::wall_clock;
use xylem_packet::{Interest, NackReason};

/// Runs until the CA's profile is there, or the search has failed.
pub(super) struct LookupClient(pub(super) Lookup);

/// Runs a certificate request until the user has to act or it ends.
pub(super) struct RequestClient {
    pub(super) request: CertificateRequest,
    /// Nacks in a row: the forwarder had no route, and no answer has come since.
    refused: u32,
}

/// Nacks tolerated in a row. A route to a CA may come back, and one to a certificate that was just issued may still be
/// on its way.
const PATIENCE: u32 = 3;

impl RequestClient {
    pub(super) fn new(request: CertificateRequest) -> Self {
        RequestClient { request, refused: 0 }
    }
}

fn now_ms() -> u64 {
    wall_clock().milliseconds()
}

fn random<const N: usize>() -> Result<[u8; N], ClientError> {
    // Without randomness no key can be made, so the run ends.
    xylem_base::random().map_err(|e| ClientError::NoRandomness(e.into()))
}

/// Turns a forwarder's Nack for a missing route into an error.
fn refused(message: ForwarderMessage<'_>) -> Result<(), ClientError> {
    match (message.nack, Interest::decode(message.packet)) {
        (Some(reason @ NackReason::NO_ROUTE), Ok(interest)) => {
            // Leave out the digest of the parameters, which means nothing to people.
            let name = interest.name();
            let plain = name.iter().filter(|part| part.value().len() != 32).collect();
            Err(ClientError::Nack { name: plain, reason })
        }
        _ => Ok(()),
    }
}

/// The engine time of a timer that is given as wall-clock time in milliseconds; `now` is the present engine time.
fn until(timer_ms: Option<u64>, now: Duration) -> Option<Duration> {
    timer_ms.map(|at| now + Duration::from_millis(at.saturating_sub(now_ms())))
}

impl Application for LookupClient {
    fn transmit(
        &mut self,
        _now: Duration,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        if let Some(interest) = self.0.poll_transmit(now_ms(), random()?) {
            outbox.packet(&interest, None);
        }
        Ok(())
    }

    fn handle_message(
        &mut self,
        _now: Duration,
        message: ForwarderMessage<'_>,
        _outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        refused(message)?;
        self.0.receive(message.packet);
        Ok(())
    }

    fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        until(self.0.next_timer(), now)
    }

    fn is_done(&self) -> bool {
        // The lookup has no timer any more once it has a result.
        self.0.next_timer().is_none()
    }
}

impl Application for RequestClient {
    fn transmit(
        &mut self,
        _now: Duration,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        if let Some(interest) = self.request.poll_transmit(now_ms(), random()?) {
            outbox.packet(&interest, None);
        }
        Ok(())
    }

    fn handle_message(
        &mut self,
        _now: Duration,
        message: ForwarderMessage<'_>,
        _outbox: &mut PacketOutbox<'_>,
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
        !matches!(self.request.state(), RequestState::Waiting)
    }
}
