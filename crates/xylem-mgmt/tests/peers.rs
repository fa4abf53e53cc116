//! Commands of other programs, captured on the wire, and the answers of their forwarder.

mod common;

use common::{Node, name, unhex};
use xylem_mgmt::{
    ControlParameters, ControlResponse, CsStatus, ManagementConfig, client, read_entries,
};
use xylem_packet::{Data, Interest};

/// rib/register: NDNd 1.5.3, python-ndn 0.5.2 (routes of its newer interface), NDNts 0.0.20250307,
/// and python-ndn's older interface, which signs in the name (v0.2).
const COMMANDS: [(&str, &str, &str); 4] = [
    (
        "NDNd",
        "/p/ndnd",
        "059e075308096c6f63616c686f737408036e66640803726962080872656769737465720810680e070908017008046e646e646a01000220bf116739687a3fc0c3342af431df7053f619539e955a565b7a2b19b80f1ea53312000a046e0ea06c0c0203e824002c171b01002608300527adfd5a0de02808000001a2017e049e2e203d86e11ffb66f8bdff97357c5c5533b975be51864cd322ed397c0e84aa5e6dfa",
    ),
    (
        "python-ndn",
        "/p/py",
        "0597074e08096c6f63616c686f737408036e6664080372696208087265676973746572080b680907070801700802707902200790db67368afedfb3c999744a47461f0197004382d9680edc081b609ebe73610a048f2a7e920c0203e824002c171b01002608ca92440592bd389f2808000001a2017e19e82e20649c39e84876a3d1134ca535ab656b47a933a8bc0b668151a28594fbd02c2d9b",
    ),
    (
        "NDNts",
        "/p/ts",
        "05a6075d08096c6f63616c686f737408036e6664080372696208087265676973746572081a68180707080170080274736f01416a01006c01026d0400124f800220122609f44a175ceec7431b595210284544d1073ad28cd1cc317ee2175aeb95c70a04dac116330c020f9f24002c171b010026084bc2c7d666800db52808000001a2018005d22e20634e423b5126749b14642b6b02898a20691dcb4011eb3fe3ed03ebf15cef27a8",
    ),
    ("python-ndn, v0.2", "/alice", "V02"),
];

fn wire(hex: &str) -> Vec<u8> {
    if hex == "V02" {
        let file = include_str!("fixtures/python-ndn-v02.txt");
        return unhex(file.lines().last().unwrap());
    }
    unhex(hex)
}

/// The time in a command, in milliseconds since 1970.
fn time_of(interest: &Interest<'_>) -> u64 {
    if let Some(signature) = interest.signature() {
        return signature.info.time_ms.unwrap();
    }
    let at = interest.name().len() - 4;
    u64::from_be_bytes(interest.name().get(at).unwrap().value().try_into().unwrap())
}

#[test]
fn commands_of_four_kinds_are_obeyed_once() {
    for (who, prefix, hex) in COMMANDS {
        let wire = wire(hex);
        let interest = Interest::decode(&wire).unwrap();
        let mut node = Node::new(ManagementConfig::default());
        node.program.now_ms = time_of(&interest) + 50;
        let before = node.fib();
        // The command with any one octet changed is malformed, or is not obeyed.
        for i in 0..wire.len() {
            let mut changed = wire.clone();
            changed[i] ^= 4;
            let Ok(changed) = Interest::decode(&changed) else { continue };
            let mut out = Vec::new();
            let (now, app) = (node.now, node.app);
            if changed.name() != interest.name() {
                node.management.handle_interest(now, app, &changed, &mut node.program, &mut out);
            }
            assert_eq!(node.fib(), before, "{who}, octet {i}");
        }
        let answers = node.send(node.app, &wire);
        let data = Data::decode(&answers[0]).unwrap();
        let answer = client::response(&interest, &data).unwrap();
        assert_eq!(answer.code, 200, "{who}: {}", answer.text);
        assert_eq!(answer.parameters.unwrap().name, Some(name(prefix)), "{who}");
        assert!(node.fib().contains_key(prefix), "{who}");
        let mut out = Vec::new();
        let (now, app) = (node.now, node.app);
        node.management.handle_interest(now, app, &interest, &mut node.program, &mut out);
        let again = client::response(&interest, &Data::decode(&out[0]).unwrap()).unwrap();
        assert_eq!(again.code, 403, "{who}");
    }
}

/// Answers of NDNd to the first of them, and to cs/info.
#[test]
fn answers_of_ndnd_are_read() {
    let data = unhex(
        "06a8075308096c6f63616c686f737408036e66640803726962080872656769737465720810680e070908017008046e\
         646e646a01000220bf116739687a3fc0c3342af431df7053f619539e955a565b7a2b19b80f1ea53314061801001901\
         00152265206601c867024f4b6817070908017008046e646e646901126f01006a01006c010116031b010017203d5dc8\
         925ea74238b7242cecb65ff1582b6848cfe1b7b92e5c7b589c1423cafb",
    );
    let data = Data::decode(&data).unwrap();
    let command = wire(COMMANDS[0].2);
    let answer = client::response(&Interest::decode(&command).unwrap(), &data).unwrap();
    assert_eq!(
        answer,
        ControlResponse {
            code: 200,
            text: "OK".into(),
            parameters: Some(ControlParameters {
                name: Some(name("/p/ndnd")),
                face_id: Some(0x12),
                origin: Some(0),
                cost: Some(0),
                flags: Some(1),
                ..ControlParameters::default()
            }),
        }
    );
    // Ours is octet for octet the same.
    assert_eq!(answer.encode(), data.content());

    let content = unhex("8010830204006c0103870104810104820105");
    let cs = read_entries::<CsStatus>(&content).unwrap();
    let expected = CsStatus { capacity: 1024, flags: 3, entries: 4, hits: 4, misses: 5 };
    assert_eq!(cs, [expected]);
}
