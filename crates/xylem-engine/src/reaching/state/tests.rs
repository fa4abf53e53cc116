use super::*;

#[test]
fn a_synthetic_address_is_one_peer_at_one_relay() {
    let reaching = RelayConnections::new([1, 2, 3, 4, 5]);
    let tag = CircuitTag::new(0x8000_0007).expect("not 0");
    let address = reaching.address(3, tag);
    assert_eq!(address.to_string(), "[fd01:203:406:3::8000:7]:1");
    assert!(reaching.is_synthetic(address));
    assert_eq!(reaching.peer_at(address), None, "there is no such relay");
    let of_carrier = "[fd01:203:405::1]:1".parse().expect("an address");
    assert!(!reaching.is_synthetic(of_carrier));
}

#[test]
fn an_address_identifies_a_socket_and_its_destination() {
    let (prefix, to) = ([0xfd, 1, 2, 3, 4, 7], "192.0.2.9:40000".parse().expect("an address"));
    let address = address_of(prefix, 513, to);
    assert_eq!(socket_of(prefix, address), Some((513, to)));
    assert_eq!(socket_of([0xfd, 1, 2, 3, 4, 8], address), None);
}
