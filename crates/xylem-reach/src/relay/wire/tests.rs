use proptest::prelude::*;

use super::*;

fn secret() -> [u8; 32] {
    core::array::from_fn(|i| i as u8)
}

fn addresses() -> impl Strategy<Value = Option<SocketAddr>> {
    let v4 = any::<([u8; 4], u16)>().prop_map(|(ip, port)| SocketAddr::from((ip, port)));
    let v6 = any::<([u8; 16], u16)>().prop_map(|(ip, port)| SocketAddr::from((ip, port)));
    prop::option::of(prop_oneof![v4, v6])
}

fn keeps() -> impl Strategy<Value = KeepAlive> {
    let fields = (any::<(u8, u32, u32, [u8; TOKEN], bool)>(), addresses());
    fields.prop_map(|((flags, number, epoch, token, second), observed)| KeepAlive {
        flags,
        number,
        epoch,
        token,
        second,
        observed,
    })
}

fn targets() -> impl Strategy<Value = ConnectTarget> {
    prop_oneof![
        any::<[u8; 32]>().prop_map(ConnectTarget::Key),
        any::<[u8; 32]>().prop_map(|key| ConnectTarget::Publisher(PublisherId(key))),
        any::<u32>().prop_map(ConnectTarget::Code),
    ]
}

proptest! {
    #[test]
    fn keep_alives_round_trip(keep in keeps(), padding in 0..PADDING, epoch: u32) {
        let (keys, heads) = (KeepAliveKeys::new(&secret()), IdEpoch::new(&secret(), epoch));
        let datagram = seal(&keys.up, heads.up, &keep, padding);
        prop_assert_eq!(datagram.len(), SHORTEST + usize::from(padding));
        prop_assert_eq!(padding_of(datagram.len()), padding);
        prop_assert_eq!(heads.up.tag(&datagram), 0);
        prop_assert_eq!(open(&keys.up, &datagram), Some(keep));
        prop_assert_eq!(open(&keys.down, &datagram), None);
    }

    #[test]
    fn a_modified_keep_alive_does_not_open(keep in keeps(), at: prop::sample::Index, bit in 0..8_u32) {
        let (keys, heads) = (KeepAliveKeys::new(&secret()), IdEpoch::new(&secret(), 3));
        let mut datagram = seal(&keys.up, heads.up, &keep, 5);
        let at = at.index(datagram.len());
        datagram[at] ^= 1_u8 << bit;
        prop_assert_eq!(open(&keys.up, &datagram), None);
    }

    #[test]
    fn arbitrary_bytes_decode_or_fail(bytes: Vec<u8>) {
        let _ = take_request(&bytes);
        let _ = take_reply(&bytes);
        let _ = open(&secret(), &bytes);
    }

    #[test]
    fn connect_requests_round_trip(number in 1..u32::MAX >> 1, target in targets()) {
        let tag = CircuitTag::new(number).unwrap();
        let bytes = connect(tag, target);
        for cut in 0..bytes.len() {
            prop_assert!(take_request(&bytes[..cut]).unwrap().is_none());
        }
        let (request, len) = take_request(&bytes).unwrap().unwrap();
        let same = request == RelayRequest::Connect { tag, target };
        prop_assert!(same && len == bytes.len());
    }

    #[test]
    fn replies_round_trip(
        (lifetime, second, code) in any::<(u16, Option<u16>, Option<u32>)>(),
        observed in addresses(),
        number in 1..=u32::MAX,
        why in prop::sample::select(&RelayRefusal::ALL[..]),
    ) {
        let (second, code) = (second.filter(|it| *it != 0), code.filter(|it| *it != 0));
        let tag = CircuitTag::new(number);
        for reply in [
            RelayReply::Registered { lifetime, observed, second, code },
            RelayReply::Connected(tag.unwrap()),
            RelayReply::Refused(tag, why.1),
            RelayReply::Refused(None, why.1),
        ] {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            let len = bytes.len();
            bytes.extend_from_slice(b"more");
            prop_assert_eq!(take_reply(&bytes).unwrap(), Some((reply, len)));
        }
    }
}

fn register(names: usize) -> Register {
    Register {
        secret: Zeroizing::new(secret()),
        listens: true,
        wants_code: false,
        epoch: 5,
        number: 6,
        names: vec![VouchedName { publisher: PublisherId([1; 32]), vouch: [2; 64] }; names],
        proof: None,
    }
}

#[test]
fn registrations_round_trip() {
    for names in 0..=MAX_NAMES {
        let register = register(names);
        let bytes = register.encode();
        let (request, len) = take_request(&bytes).unwrap().unwrap();
        assert!(request == RelayRequest::Register(register) && len == bytes.len());
        let proven = Register { proof: Some([3; 32]), ..self::register(names) };
        let bytes = proven.encode();
        let (request, len) = take_request(&bytes).unwrap().unwrap();
        assert!(request == RelayRequest::Register(proven) && len == bytes.len());
    }
    let longest = Register { proof: Some([3; 32]), ..register(MAX_NAMES) };
    assert_eq!(longest.encode().len(), MESSAGE_HEAD + MAX_MESSAGE);
}

#[test]
fn invalid_messages_are_refused() {
    let good = register(0).encode();
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        take_request(&bytes).err()
    };
    assert_eq!(changed(0, 9), Some(WireError::Unknown(9)));
    assert_eq!(changed(3, 2), Some(WireError::Version(2)));
    assert_eq!(changed(4, 4), Some(WireError::Malformed("register")), "no proof");
    assert_eq!(changed(4, 8), Some(WireError::Malformed("register")));
    assert_eq!(changed(good.len() - 1, 9), Some(WireError::Malformed("register")));
    assert_eq!(changed(1, 0xff), Some(WireError::TooLong(0xff2b)));
    let tagged = |tag: u32| {
        let mut bytes = connect(CircuitTag(1), ConnectTarget::Code(1));
        bytes[3..7].copy_from_slice(&tag.to_be_bytes());
        take_request(&bytes).err()
    };
    assert_eq!(tagged(0), Some(WireError::Malformed("connect")));
    assert_eq!(tagged(1 << 31), Some(WireError::Malformed("connect")));
}

/// All ids differ between epochs and directions.
#[test]
fn epochs_share_no_ids() {
    let epochs: Vec<IdEpoch> = (0..100).map(|number| IdEpoch::new(&secret(), number)).collect();
    let ids = epochs.iter().flat_map(|epoch| [epoch.up.id, epoch.down.id]);
    let ids: std::collections::HashSet<DatagramId> = ids.collect();
    assert_eq!(ids.len(), 200);
    assert_ne!(IdEpoch::new(&[1; 32], 0), epochs[0]);
}

/// The test vectors of docs/spec/reach.md.
#[test]
fn the_spec_vectors_match() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let heads = IdEpoch::new(&secret(), 1);
    assert_eq!(hex(&heads.up.header(CircuitTag::new(1))), "ff2c941731910b4371d12b50");
    assert_eq!(hex(&heads.down.header(CircuitTag::new(1))), "ca9447f76e88b95a1c1bf9bc");
    let keep = KeepAlive { number: 2, epoch: 1, ..KeepAlive::default() };
    let keep = seal(&KeepAliveKeys::new(&secret()).up, heads.up, &keep, 0);
    let known = "ff2c941731910b4371d12b51b09fe0b55e0dbaac440dcb9de327e4161e0e66b7\
                 b70ab85122715a9d5e0900c3e4b4d1a095f797f3557729b0edbce97ae7f2ebeadf570c33";
    assert_eq!(hex(&keep), known);
}
