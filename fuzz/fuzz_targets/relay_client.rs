//! A client and a malicious relay: the client parses any input or refuses it, sends little, and ends.
#![no_main]
use std::time::Duration;

use xylem_reach::relay::{
    ConnectTarget, ControlSession, DatagramKind, RelayClient, RelayConfig, RelayPeer, RelayPort,
    RelayServer, Relayed,
};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let (own, relay_at) = (([192, 0, 2, 1], 1_000).into(), ([192, 0, 2, 2], 7_348));
    let mut now = Duration::ZERO;
    let config = RelayConfig { second_port: Some(7_349), ..RelayConfig::default() };
    let mut relay = RelayServer::new(config, [9; 32]);
    let mut session;
    let mut client = RelayClient::new([1; 32], true, vec![]);
    let mut rest = input;
    while let Some((&[what, len], after)) = rest.split_first_chunk::<2>() {
        let (bytes, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        match what & 7 {
            0 => {
                if client.handle_control(now, bytes).is_err() {
                    client.new_stream();
                }
            }
            1 => {
                session = ControlSession::default();
                let peer = RelayPeer { key: [1; 32], at: own, host: own.ip() };
                let mut out = Vec::new();
                let request = client.request();
                let taken = relay.handle_request(now, &mut session, &peer, &request, &mut out);
                taken.expect("our own request");
                client.new_stream();
                client.handle_control(now, &out).expect("an honest answer");
            }
            2 => {
                client.handle_datagram(now, what & 8 != 0, &mut bytes.to_vec());
            }
            3 => {
                // Messages of a relay with matching ids, changed somewhere.
                client.refresh(now);
                while let Some((port, mut keep)) = client.poll_transmit(now) {
                    let became = relay.handle_datagram(now, port, own, &mut keep);
                    assert_ne!(became, Relayed::Forward(relay_at.into()));
                    while let Some((_, _, mut answer)) = relay.poll_transmit() {
                        if let Some(byte) = answer.get_mut(usize::from(len)) {
                            *byte ^= what >> 4;
                        }
                        let came =
                            client.handle_datagram(now, port == RelayPort::Second, &mut answer);
                        assert!(!matches!(came, DatagramKind::Inner(_)) || len < 12);
                    }
                }
            }
            4 => {
                let (tag, message) = client.connect(ConnectTarget::Code(u32::from(len)));
                assert!(!tag.is_of_relay() && !message.is_empty());
                let _ = client.header(tag);
                client.on_sent(now);
                client.set_connected(len % 2 == 0);
            }
            _ => {
                now += Duration::from_millis(u64::from(len) * 40);
                client.handle_timeout(now);
            }
        }
        // It ends soon.
        let mut sent = 0;
        while client.poll_transmit(now).is_some() {
            sent += 1;
            assert!(sent < 8, "it goes on and on");
        }
        while client.poll_event().is_some() {}
    }
});
