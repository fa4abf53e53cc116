//! Entries of datasets as JSON: the fields of docs/spec/json-events.md, in their order.
#![cfg(feature = "serde")]

use xylem_mgmt::{CsStatus, FaceStatus, FaceUri, GeneralStatus, RibRoute, StrategyChoice, types};

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

#[test]
fn numbers_become_words() {
    let face = FaceStatus {
        face_id: 7,
        uri: "udp4://192.0.2.1:6363".into(),
        local_uri: "udp4://192.0.2.2:6363".into(),
        expiration_ms: Some(1500),
        persistency: 1,
        link_type: 1,
        flags: types::FLAG_LP_RELIABILITY,
        out_bytes: 9,
        ..FaceStatus::default()
    };
    assert_eq!(
        json(&face),
        r#"{"face":7,"remote":"udp4://192.0.2.1:6363","local":"udp4://192.0.2.2:6363","scope":"non-local","#
            .to_owned()
            + r#""persistency":"on-demand","link":"multi-access","mtu":null,"expires_seconds":1.5,"#
            + r#""reliability":true,"congestion_marking":false,"local_fields":false,"in_interests":0,"#
            + r#""in_data":0,"in_nacks":0,"in_bytes":0,"out_interests":0,"out_data":0,"out_nacks":0,"#
            + r#""out_bytes":9}"#
    );
    let uri: FaceUri = "tcp://[2001:db8::1]".parse().unwrap();
    assert_eq!(json(&uri), r#""tcp6://[2001:db8::1]:6363""#);
}

#[test]
fn the_other_entries() {
    let status = GeneralStatus { start_ms: 1000, current_ms: 3500, ..GeneralStatus::default() };
    assert!(json(&status).starts_with(r#"{"version":"","uptime_seconds":2.5,"fib_entries":0,"#));
    let cs = CsStatus { capacity: 5, flags: types::CS_SERVE, ..CsStatus::default() };
    assert_eq!(
        json(&cs),
        r#"{"capacity":5,"entries":0,"hits":0,"misses":0,"admit":false,"serve":true}"#
    );
    let route = RibRoute { face_id: 1, flags: types::ROUTE_CAPTURE, ..RibRoute::default() };
    assert_eq!(
        json(&route),
        r#"{"face":1,"origin":0,"cost":0,"inherit":false,"capture":true,"expires_seconds":null}"#
    );
    let choice =
        StrategyChoice { name: "/a".parse().unwrap(), strategy: "/b/v=5".parse().unwrap() };
    assert_eq!(json(&choice), r#"{"prefix":"/a","strategy":"/b/v=5"}"#);
}
