//! TCP listeners.

use std::io;
use std::net::SocketAddr;

use mio::net::TcpListener;
use socket2::{Domain, Socket, Type};

/// Connections that the kernel queues before they are accepted.
const BACKLOG: i32 = 1024;

/// Listens for TCP connections. As [with UDP](crate::Udp::bind), an IPv6 listener accepts no IPv4 connections, so that
/// one port can be bound for both.
pub fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Connections of an earlier run may still be closing. On Windows the option would share the port.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_port_is_bound_for_both_families() {
        let four = listen_tcp("0.0.0.0:0".parse().unwrap()).unwrap();
        let port = four.local_addr().unwrap().port();
        let six = match listen_tcp(format!("[::]:{port}").parse().unwrap()) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                return eprintln!("no IPv6 here ({error}): SKIPPED");
            }
            six => six.unwrap(),
        };
        assert_eq!(six.local_addr().unwrap().port(), port);
    }
}
