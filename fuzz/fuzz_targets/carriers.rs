//! Carriers: any bytes over a TCP connection, in any pieces, end in datagrams, a refusal or a wait. Both ends of DNS
//! over HTTPS stay within their limits; unwrapping returns what was wrapped.
#![no_main]

use std::time::Duration;

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use xylem_carriers::{dns, doh, framing, http};

/// Bound of the output that a server has ready for its socket: what it makes at once, and all that waits.
const MAX_OUTPUT: usize = 2 << 20;

fuzz_target!(|data: &[u8]| {
    let [kind, step, rest @ ..] = data else { return };
    let step = usize::from(*step).max(1);
    match kind % 5 {
        0 => {
            let mut input = BytesMut::from(rest);
            while let Ok(Some(datagram)) = framing::unwrap(&mut input) {
                let mut again = BytesMut::new();
                assert!(framing::wrap(&datagram, &mut again));
                assert_eq!(framing::unwrap(&mut again), Ok(Some(datagram)));
            }
        }
        1 => {
            if let Ok(Some((request, len))) = http::read_request(rest) {
                assert!(len <= http::MAX_HEAD && len <= rest.len());
                let told = request.host + &request.origin.unwrap_or_default();
                assert!(!told.contains(['\r', '\n', '\0']));
            }
            let _ = http::read_answer(rest);
        }
        2 => {
            if let Ok(dns::DnsMessage::Ours { options, .. }) = dns::read_query(rest) {
                dns::datagrams(rest.into(), options, &mut |d| assert!(!d.is_empty()));
            }
            if let Ok(options) = dns::read_answer(rest) {
                dns::datagrams(rest.into(), options, &mut |d| assert!(!d.is_empty()));
            }
        }
        3 => {
            let mut server = doh::DohServer::new();
            let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
            for (second, piece) in rest.chunks(step).enumerate() {
                let now = Duration::from_secs(second as u64);
                input.extend_from_slice(piece);
                server.queue(piece);
                server.receive(now, &mut input, &mut output, &mut |d| assert!(!d.is_empty()));
                server.poll(now, &mut output);
                assert!(output.len() < MAX_OUTPUT);
                if server.ends() {
                    break;
                }
            }
        }
        _ => {
            let mut client = doh::DohClient::new("h".to_owned());
            let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
            for piece in rest.chunks(step) {
                input.extend_from_slice(piece);
                client.queue(piece);
                client.poll(&mut output);
                output.clear();
                if client.receive(&mut input, &mut |d| assert!(!d.is_empty())).is_err() {
                    break;
                }
            }
        }
    }
});
