//! The life of one carrier connection: opening, carrying, ending.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use mio::{Interest, Poll, Token};
use xylem_carriers::{
    CarrierCodec, CarrierRead, CarrierStream, CarrierWebSocket, ClientOpening, ServerOpening,
    WebSocketOpening,
};
use xylem_carriers::{ask, continue_asking, doh};
use xylem_link::LinkId;
use xylem_mgmt::Carrier;

use crate::pipe::Pipe;

/// Bytes of datagrams that may wait for the connection to come up: the first messages of a handshake.
const MAX_EARLY: usize = 16 * 1024;

/// Which end of a connection this is.
#[derive(Clone, Debug)]
pub(super) enum CarrierRole {
    /// The end that dialled. `authority`: the server's host and port, as HTTP names them.
    Client {
        authority: String,
    },
    Server,
}

enum CarrierStage {
    /// TCP is being connected and, with TLS, the TLS handshake is under way.
    Opening(Box<Pipe>, CarrierRole),
    Asking(Box<ClientOpening<Pipe>>),
    Greeting(Box<ServerOpening<Pipe>>),
    Stream(Box<CarrierStream<Pipe>>),
    WebSocket(CarrierWebSocket<Pipe>),
    Broken,
}

/// A connection, perhaps still being opened.
pub(super) struct CarrierConnection {
    stage: CarrierStage,
    early: Vec<Vec<u8>>,
    pub(super) carrier: Carrier,
    pub(super) token: Token,
    pub(super) far: SocketAddr,
    pub(super) near: SocketAddr,
    /// When it was accepted or dialled.
    pub(super) since: Duration,
    /// The link that runs over it.
    pub(super) link: Option<LinkId>,
    /// When it is to end, once its link has ended.
    pub(super) ends: Option<Duration>,
    /// It waits to be flushed.
    pub(super) unflushed: bool,
}

impl CarrierConnection {
    pub(super) fn new(
        pipe: Pipe,
        role: CarrierRole,
        carrier: Carrier,
        token: Token,
        far: SocketAddr,
        near: SocketAddr,
        now: Duration,
    ) -> Self {
        Self {
            stage: CarrierStage::Opening(Box::new(pipe), role),
            early: Vec::new(),
            carrier,
            token,
            far,
            near,
            since: now,
            link: None,
            ends: None,
            unflushed: false,
        }
    }

    /// Registers a new connection for readiness under its token.
    pub(super) fn register(&mut self, poll: &Poll, interest: Interest) -> io::Result<()> {
        let token = self.token;
        match self.pipe() {
            Some(pipe) => poll.registry().register(pipe.source(), token, interest),
            None => Ok(()),
        }
    }

    /// Continues opening, or takes the data that has arrived.
    ///
    /// # Errors
    /// The connection ended, or the other end is no carrier of ours.
    pub(super) fn receive(
        &mut self,
        now: Duration,
        each: &mut dyn FnMut(BytesMut),
    ) -> io::Result<CarrierRead> {
        if let Some(pipe) = self.pipe() {
            pipe.next_turn();
        }
        let refused = self.open()?;
        let mut received = match &mut self.stage {
            CarrierStage::Stream(stream) => {
                send_early(&mut self.early, |datagram| stream.queue(now, datagram));
                stream.receive(now, each)?
            }
            CarrierStage::WebSocket(socket) => {
                send_early(&mut self.early, |datagram| socket.queue(datagram));
                let received = socket.receive(each)?;
                socket.flush()?;
                received
            }
            _ => CarrierRead::default(),
        };
        received.refused += refused;
        received.more |= self.pipe().is_some_and(|pipe| pipe.is_spent());
        Ok(received)
    }

    /// Continues opening; returns how many requests were refused meanwhile.
    fn open(&mut self) -> io::Result<u64> {
        loop {
            self.stage = match std::mem::replace(&mut self.stage, CarrierStage::Broken) {
                CarrierStage::Opening(mut pipe, role) => {
                    if !pipe.open()? {
                        self.stage = CarrierStage::Opening(pipe, role);
                        return Ok(0);
                    }
                    self.opened(*pipe, role)?
                }
                CarrierStage::Asking(asking) => match continue_asking(*asking)? {
                    WebSocketOpening::Open(socket) => CarrierStage::WebSocket(socket),
                    WebSocketOpening::Waits(asking) => {
                        self.stage = CarrierStage::Asking(asking);
                        return Ok(0);
                    }
                },
                CarrierStage::Greeting(greeting) => {
                    let before = greeting.refused();
                    match greeting.advance()? {
                        WebSocketOpening::Open(socket) => CarrierStage::WebSocket(socket),
                        WebSocketOpening::Waits(greeting) => {
                            let refused = greeting.refused() - before;
                            self.stage = CarrierStage::Greeting(greeting);
                            return Ok(refused);
                        }
                    }
                }
                open => {
                    self.stage = open;
                    return Ok(0);
                }
            }
        }
    }

    /// The stage after TCP and TLS are established.
    fn opened(&self, pipe: Pipe, role: CarrierRole) -> io::Result<CarrierStage> {
        let stream = |pipe, codec| CarrierStage::Stream(Box::new(CarrierStream::new(pipe, codec)));
        Ok(match (self.carrier, role) {
            (Carrier::Tls, _) => stream(pipe, CarrierCodec::Framed),
            (Carrier::Doh, CarrierRole::Client { authority }) => {
                stream(pipe, CarrierCodec::Client(doh::DohClient::new(authority)))
            }
            (Carrier::Doh, CarrierRole::Server) => {
                stream(pipe, CarrierCodec::Server(doh::DohServer::new()))
            }
            (Carrier::WebSocket | Carrier::SecureWebSocket, CarrierRole::Client { authority }) => {
                match ask(pipe, &authority)? {
                    WebSocketOpening::Open(socket) => CarrierStage::WebSocket(socket),
                    WebSocketOpening::Waits(asking) => CarrierStage::Asking(asking),
                }
            }
            (Carrier::WebSocket | Carrier::SecureWebSocket, CarrierRole::Server) => {
                CarrierStage::Greeting(Box::new(ServerOpening::new(pipe)))
            }
        })
    }

    /// Queues a datagram, or drops it where there is no room, as a full router would.
    pub(super) fn queue(&mut self, now: Duration, datagram: &[u8]) {
        match &mut self.stage {
            CarrierStage::Stream(stream) => stream.queue(now, datagram),
            CarrierStage::WebSocket(socket) => socket.queue(datagram),
            CarrierStage::Opening(..) | CarrierStage::Asking(_) | CarrierStage::Greeting(_) => {
                let held: usize = self.early.iter().map(Vec::len).sum();
                if held + datagram.len() <= MAX_EARLY {
                    self.early.push(datagram.to_vec());
                }
            }
            CarrierStage::Broken => {}
        }
    }

    /// Writes as much as the socket accepts.
    ///
    /// # Errors
    /// The connection ended.
    pub(super) fn flush(&mut self, now: Duration) -> io::Result<()> {
        match &mut self.stage {
            CarrierStage::Stream(stream) => stream.flush(now),
            CarrierStage::WebSocket(socket) => socket.flush(),
            _ => Ok(()),
        }
    }

    /// Bytes that wait here for the other end to read.
    pub(super) fn unsent(&self) -> usize {
        match &self.stage {
            CarrierStage::Stream(stream) => stream.unsent(),
            _ => 0,
        }
    }

    /// Signals to the other end that nothing follows.
    pub(super) fn send_close(&mut self) {
        if let Some(pipe) = self.pipe() {
            pipe.send_close();
        }
    }

    fn pipe(&mut self) -> Option<&mut Pipe> {
        match &mut self.stage {
            CarrierStage::Opening(pipe, _) => Some(pipe),
            CarrierStage::Asking(asking) => Some(asking.get_mut().get_mut().get_mut()),
            CarrierStage::Greeting(greeting) => Some(greeting.pipe()),
            CarrierStage::Stream(stream) => Some(stream.pipe()),
            CarrierStage::WebSocket(socket) => Some(socket.pipe()),
            CarrierStage::Broken => None,
        }
    }
}

fn send_early(early: &mut Vec<Vec<u8>>, mut queue: impl FnMut(&[u8])) {
    for datagram in std::mem::take(early) {
        queue(&datagram);
    }
}
