//! In place of NDN over Ethernet on systems without packet sockets (AF_PACKET): nothing can be opened.

use std::convert::Infallible;
use std::io;

use mio::{Poll, Token};

use crate::EthernetFrame;

/// Cannot exist here.
pub struct EthernetSocket(Infallible);

impl EthernetSocket {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn open(_device: &str) -> io::Result<Self> {
        let what = "NDN over Ethernet needs Linux";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn join(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn register(&mut self, _poll: &Poll, _token: Token) -> io::Result<()> {
        match self.0 {}
    }

    /// Cannot be called.
    pub fn mtu(&self) -> usize {
        match self.0 {}
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub fn receive(&mut self, _into: &mut Vec<EthernetFrame>) -> io::Result<bool> {
        match self.0 {}
    }

    /// Cannot be called.
    pub fn send(&mut self, _to: [u8; 6], _packet: &[u8]) {
        match self.0 {}
    }
}
