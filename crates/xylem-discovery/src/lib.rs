//! Who is where, asked of networks that others run: mDNS on the LAN, the BitTorrent mainline DHT, and routers that map ports.
//! Other libraries do the work, on threads of their own (docs/spec/reach.md).
