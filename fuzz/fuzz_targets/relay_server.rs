//! A relay and its attackers: with any input on control streams and in datagrams, its state stays within limits. An
//! address that has not proven to receive gets no more bytes than came from it.
#![no_main]
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use xylem_reach::relay::{
    ConnectTarget, ControlSession, RelayClient, RelayConfig, RelayPeer, RelayPort, RelayServer,
    Relayed,
};

const CLIENTS: usize = 4;

fn at(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 5_000))
}

struct World {
    now: Duration,
    relay: RelayServer,
    sessions: [ControlSession; CLIENTS],
    clients: [RelayClient; CLIENTS],
    /// Bytes sent to each address, less those that came from it.
    spent: HashMap<SocketAddr, i64>,
}

impl World {
    fn ask(&mut self, who: usize, bytes: &[u8]) {
        let peer = RelayPeer { key: [who as u8; 32], at: at(who as u8), host: at(who as u8).ip() };
        let mut out = Vec::new();
        let session = &mut self.sessions[who];
        if self.relay.handle_request(self.now, session, &peer, bytes, &mut out).is_err() {
            *session = ControlSession::default();
            self.clients[who].new_stream();
        }
        self.clients[who].handle_control(self.now, &out).expect("the relay's own answers");
    }

    fn datagram(&mut self, port: RelayPort, from: SocketAddr, mut datagram: Vec<u8>) {
        let len = datagram.len() as i64;
        *self.spent.entry(from).or_default() -= len;
        if let Relayed::Forward(to) =
            self.relay.handle_datagram(self.now, port, from, &mut datagram)
        {
            *self.spent.entry(to).or_default() += len;
        }
        while let Some((port, to, mut answer)) = self.relay.poll_transmit() {
            *self.spent.entry(to).or_default() += answer.len() as i64;
            let second = port == RelayPort::Second;
            for (who, client) in self.clients.iter_mut().enumerate() {
                if at(who as u8) == to {
                    client.handle_datagram(self.now, second, &mut answer);
                }
            }
        }
    }
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let config = RelayConfig {
        registrations: 3,
        registrations_of_key: 2,
        circuits: 4,
        circuits_asked: 2,
        circuits_reached: 2,
        second_port: Some(1),
        ..RelayConfig::default()
    };
    let client =
        |who: usize| RelayClient::new([who as u8 + 1; 32], who % 2 == 0, vec![]).with_code();
    let mut world = World {
        now: Duration::ZERO,
        relay: RelayServer::new(config, [9; 32]),
        sessions: std::array::from_fn(|_| ControlSession::default()),
        clients: std::array::from_fn(client),
        spent: HashMap::new(),
    };
    let mut rest = input;
    while let Some((&[what, len], after)) = rest.split_first_chunk::<2>() {
        let (bytes, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        let who = usize::from(what >> 4) % CLIENTS;
        // The client's own address, or an unused one.
        let from = if what & 8 == 0 { at(who as u8) } else { at(100 + (what >> 6)) };
        let port = if len % 2 == 0 { RelayPort::First } else { RelayPort::Second };
        match what & 7 {
            0 => world.ask(who, bytes),
            1 => {
                let request = world.clients[who].request();
                world.ask(who, &request);
            }
            2 => {
                let target = ConnectTarget::Key([len % CLIENTS as u8; 32]);
                let (_, message) = world.clients[who].connect(target);
                world.ask(who, &message);
            }
            3 => world.datagram(port, from, bytes.to_vec()),
            4 => {
                // Mostly with a matching header.
                let (tag, _) = world.clients[who].connect(ConnectTarget::Code(1));
                let mut datagram = world.clients[who].header(tag).to_vec();
                let last = datagram.len() - 1;
                datagram[last] ^= len;
                datagram.extend_from_slice(bytes);
                world.datagram(port, from, datagram);
            }
            5 => {
                world.clients[who].refresh(world.now);
                while let Some((port, keep)) = world.clients[who].poll_transmit(world.now) {
                    world.datagram(port, from, keep);
                }
            }
            6 => {
                world.now += Duration::from_millis(u64::from(len) * 40);
                world.relay.handle_timeout(world.now);
                world.clients[who].handle_timeout(world.now);
            }
            _ => world.sessions[who] = ControlSession::default(),
        }
        while world.clients[who].poll_event().is_some() {}
        let metrics = world.relay.metrics();
        assert!(metrics.registrations <= 3 && metrics.circuits <= 4);
    }
    for (address, spent) in world.spent {
        let is_client = (0..CLIENTS).any(|who| at(who as u8) == address);
        assert!(is_client || spent <= 0, "{address} got {spent} bytes more than came from it");
    }
});
