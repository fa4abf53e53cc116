//! Reads the default router from the system's routing table. Sends nothing.

use std::net::Ipv4Addr;

use xylem_store::read_stream;

/// Most bytes of the table that are read: a thousand routes.
const MAX_TABLE: u64 = 128 * 1024;

/// The default IPv4 gateway. `None` if there is none, or on systems other than Linux, where only UPnP finds the router,
/// by a query on the LAN.
pub fn default_gateway() -> Option<Ipv4Addr> {
    let mut table = Vec::new();
    read_stream("/proc/net/route".as_ref(), MAX_TABLE, &mut table).ok()?;
    parse(std::str::from_utf8(&table).ok()?)
}

/// The gateway of the default route with the lowest metric in a text like `/proc/net/route`.
fn parse(text: &str) -> Option<Ipv4Addr> {
    const UP_AND_GATEWAY: u32 = 3;
    let routes = text.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let mut hex = || u32::from_str_radix(fields.next()?, 16).ok();
        let (to, gateway, flags) = (hex()?, hex()?, hex()?);
        let mut fields = line.split_whitespace().skip(6);
        let metric: u32 = fields.next()?.parse().ok()?;
        let mask = u32::from_str_radix(fields.next()?, 16).ok()?;
        let is_default = to == 0 && mask == 0 && flags & UP_AND_GATEWAY == UP_AND_GATEWAY;
        // The text shows the words in this machine's byte order; in memory they are in network order.
        is_default.then(|| (metric, Ipv4Addr::from(gateway.to_ne_bytes())))
    });
    routes.filter(|(_, gateway)| !gateway.is_unspecified()).min().map(|(_, gateway)| gateway)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_default_route_with_the_lowest_metric() {
        let text = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0100000A\t0003\t0\t0\t200\t00000000\t0\t0\t0\n\
            wlan0\t00000000\tFE01A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
            eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            tun0\t00000000\t0200000A\t0002\t0\t0\t0\t00000000\t0\t0\t0\n\
            tun1\t00000000\t0200000A\t0003\t0\t0\t0\t00000080\t0\t0\t0\n";
        assert_eq!(parse(text), Some(Ipv4Addr::new(192, 168, 1, 254)));
        assert_eq!(parse(""), None);
        assert_eq!(parse("a\nb c\n0 0 0 0 0 0 0 0\nx 00000000 zz 3 0 0 0 0"), None);
    }
}
