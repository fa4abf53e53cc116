//! Conformance tests of an NDN forwarder in terms of frames: bytes in, bytes out, and time.
//!
//! The tests access the forwarder under test only through [`Dut`]. Another forwarder can be tested with them, behind a
//! socket for each face.

use xylem_packet::{
    Component, Data, DataBuilder, Interest, InterestBuilder, LpPacket, NackReason, Name, Packet,
};

/// The device under test: a forwarder with a content store and best-route everywhere.
pub(crate) trait Dut {
    /// Adds a face, to an application on the same machine or to another machine.
    fn face(&mut self, local: bool) -> usize;
    /// Routes a prefix to a face.
    fn route(&mut self, prefix: &str, face: usize, cost: u32);
    /// Sends a frame (a bare packet or an LpPacket) to the forwarder over a face.
    fn send(&mut self, face: usize, frame: &[u8]);
    /// The next frame that the forwarder sent over a face.
    fn receive(&mut self, face: usize) -> Option<Vec<u8>>;
    /// Lets time pass.
    fn pass(&mut self, ms: u64);
}

pub(crate) fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

pub(crate) fn interest(
    uri: &str,
    nonce: u32,
    change: impl for<'a> FnOnce(InterestBuilder<'a>) -> InterestBuilder<'a>,
) -> Vec<u8> {
    let (name, mut out) = (name(uri), Vec::new());
    let builder = InterestBuilder::new(name.as_ref()).nonce(nonce.to_be_bytes());
    change(builder).encode(&mut out).unwrap();
    out
}

pub(crate) fn plain(uri: &str, nonce: u32) -> Vec<u8> {
    interest(uri, nonce, |builder| builder)
}

pub(crate) fn data(uri: &str, content: &[u8], freshness_ms: u64) -> Vec<u8> {
    let (name, mut out) = (name(uri), Vec::new());
    DataBuilder::new(name.as_ref())
        .freshness_ms(freshness_ms)
        .encode(&mut out, content, |signed, value| {
            value.extend_from_slice(&xylem_packet::sha256(signed));
        })
        .unwrap();
    out
}

pub(crate) fn lp(packet: &[u8], change: impl for<'a> FnOnce(&mut LpPacket<'a>)) -> Vec<u8> {
    let mut lp = LpPacket { fragment: Some(packet), ..Default::default() };
    change(&mut lp);
    let mut out = Vec::new();
    lp.encode(&mut out);
    out
}

fn with_token(packet: &[u8], token: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    LpPacket { fragment: Some(packet), pit_token: Some(token), ..Default::default() }
        .encode(&mut out);
    out
}

/// A received frame, decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Came {
    packet: Vec<u8>,
    token: Option<Vec<u8>>,
    nack: Option<NackReason>,
    mark: Option<u64>,
}

impl Came {
    fn interest(&self) -> Interest<'_> {
        Interest::decode(&self.packet).expect("an Interest")
    }
}

fn next(dut: &mut impl Dut, face: usize) -> Option<Came> {
    let frame = dut.receive(face)?;
    Some(match Packet::decode(&frame).expect("a packet") {
        Packet::Lp(lp) => Came {
            packet: lp.fragment.expect("a packet within").to_vec(),
            token: lp.pit_token.map(<[u8]>::to_vec),
            nack: lp.nack,
            mark: lp.congestion_mark,
        },
        _ => Came { packet: frame.clone(), ..Came::default() },
    })
}

/// The only bare packet that was received on a face.
fn only(dut: &mut impl Dut, face: usize) -> Option<Vec<u8>> {
    let came = next(dut, face)?;
    assert_eq!(next(dut, face), None, "one packet");
    assert_eq!((came.nack, came.token), (None, None));
    Some(came.packet)
}

/// Two consumers and a producer of everything.
fn three(dut: &mut impl Dut) -> (usize, usize, usize) {
    let faces = (dut.face(true), dut.face(false), dut.face(false));
    dut.route("/", faces.2, 1);
    faces
}

pub(crate) fn interests_for_the_same_are_aggregated(dut: &mut impl Dut) {
    let (a, b, up) = three(dut);
    dut.send(a, &plain("/x", 1));
    dut.send(b, &plain("/x", 2));
    assert_eq!(only(dut, up), Some(plain("/x", 1)));
    let answer = data("/x", b"1", 0);
    dut.send(up, &answer);
    assert_eq!((only(dut, a), only(dut, b)), (Some(answer.clone()), Some(answer)));
}

pub(crate) fn a_looping_interest_is_refused_while_it_is_pending(dut: &mut impl Dut) {
    let (a, b, up) = three(dut);
    dut.send(a, &plain("/x", 1));
    assert!(only(dut, up).is_some());
    dut.send(b, &plain("/x", 1));
    assert_eq!(next(dut, b).and_then(|came| came.nack), Some(NackReason::DUPLICATE));
    assert_eq!(only(dut, up), None);
}

pub(crate) fn a_looping_interest_is_refused_after_its_end(dut: &mut impl Dut) {
    let (a, b, up) = three(dut);
    dut.send(a, &plain("/x", 1));
    dut.send(up, &data("/x", b"1", 0));
    dut.send(a, &interest("/gone", 2, |i| i.lifetime_ms(50)));
    dut.pass(500);
    for frame in [interest("/x", 1, |i| i.must_be_fresh(true)), plain("/gone", 2)] {
        dut.send(b, &frame);
        assert_eq!(next(dut, b).and_then(|came| came.nack), Some(NackReason::DUPLICATE));
    }
    assert_eq!((next(dut, up).is_some(), next(dut, up).is_some()), (true, true));
    assert_eq!(only(dut, up), None);
}

pub(crate) fn a_retransmission_is_forwarded_and_answered_once(dut: &mut impl Dut) {
    let (a, _, up) = three(dut);
    dut.send(a, &plain("/x", 1));
    assert!(only(dut, up).is_some());
    dut.pass(600);
    dut.send(a, &plain("/x", 2));
    assert_eq!(only(dut, up), Some(plain("/x", 2)));
    let answer = data("/x", b"1", 0);
    dut.send(up, &answer);
    dut.send(up, &answer);
    assert_eq!(only(dut, a), Some(answer));
}

pub(crate) fn an_interest_ends_with_its_lifetime(dut: &mut impl Dut) {
    let (a, _, up) = three(dut);
    dut.send(a, &interest("/x", 1, |i| i.lifetime_ms(200)));
    dut.pass(1000);
    dut.send(up, &data("/x", b"1", 0));
    assert_eq!(only(dut, a), None);
}

pub(crate) fn hop_limits_count_down_to_nothing(dut: &mut impl Dut) {
    let (a, b, up) = three(dut);
    dut.send(a, &interest("/x", 1, |i| i.hop_limit(9)));
    assert_eq!(only(dut, up), Some(interest("/x", 1, |i| i.hop_limit(8))));
    for (nonce, hops) in [(2, 0), (3, 1)] {
        dut.send(b, &interest("/y", nonce, |i| i.hop_limit(hops)));
        assert_eq!(only(dut, up), None, "{hops} hops left");
    }
}

pub(crate) fn pit_tokens_of_every_length_come_back(dut: &mut impl Dut) {
    let (a, b, up) = three(dut);
    for len in 1..=32u8 {
        let token: Vec<u8> = (0..len).map(|i| i ^ len).collect();
        let uri = format!("/x/{len}");
        dut.send(a, &with_token(&plain(&uri, u32::from(len)), &token));
        dut.send(b, &with_token(&plain(&uri, 100 + u32::from(len)), &[len; 32]));
        assert_eq!(only(dut, up), Some(plain(&uri, u32::from(len))), "not sent on");
        dut.send(up, &data(&uri, b"1", 0));
        assert_eq!(next(dut, a).and_then(|came| came.token), Some(token.clone()), "of {len}");
        assert_eq!(next(dut, b).and_then(|came| came.token), Some(vec![len; 32]));
        // The same from the cache, and with a Nack.
        dut.send(a, &with_token(&plain(&uri, 200 + u32::from(len)), &token));
        assert_eq!(next(dut, a).and_then(|came| came.token), Some(token.clone()), "cached");
        let loops = interest(&uri, u32::from(len), |i| i.must_be_fresh(true));
        dut.send(a, &with_token(&loops, &token));
        let refused = next(dut, a).expect("a Nack");
        assert_eq!((refused.nack, refused.token), (Some(NackReason::DUPLICATE), Some(token)));
    }
}

pub(crate) fn can_be_prefix_decides_what_a_name_matches(dut: &mut impl Dut) {
    let (a, b, up) = three(dut);
    dut.send(a, &plain("/x", 1));
    dut.send(b, &interest("/x", 2, |i| i.can_be_prefix(true)));
    let answer = data("/x/1", b"1", 0);
    dut.send(up, &answer);
    assert_eq!((only(dut, a), only(dut, b)), (None, Some(answer.clone())));
    // And in the cache.
    dut.send(b, &interest("/x", 3, |i| i.can_be_prefix(true)));
    assert_eq!(only(dut, b), Some(answer));
    dut.send(b, &plain("/x", 4));
    assert_eq!(only(dut, b), None);
}

pub(crate) fn one_data_answers_all_that_it_matches(dut: &mut impl Dut) {
    let up = dut.face(false);
    dut.route("/", up, 1);
    let answer = data("/a/b", b"1", 1000);
    let digest = Data::decode(&answer).unwrap().implicit_digest();
    let full = name("/a/b").child(Component::implicit_digest(&digest)).to_string();
    let asked = [
        plain("/a/b", 1),
        interest("/a/b", 2, |i| i.must_be_fresh(true)),
        interest("/a/b", 3, |i| i.can_be_prefix(true)),
        interest("/a/b", 4, |i| i.can_be_prefix(true).must_be_fresh(true)),
        interest("/a", 5, |i| i.can_be_prefix(true)),
        plain(&full, 6),
        interest(&full, 7, |i| i.must_be_fresh(true)),
    ];
    let faces: Vec<usize> = asked
        .iter()
        .map(|frame| {
            let face = dut.face(false);
            dut.send(face, frame);
            face
        })
        .collect();
    dut.send(up, &answer);
    for (i, face) in faces.into_iter().enumerate() {
        assert_eq!(only(dut, face), Some(answer.clone()), "Interest {i}");
    }
}

pub(crate) fn an_implicit_digest_takes_the_right_data_and_only_it(dut: &mut impl Dut) {
    let (a, b, up) = three(dut);
    let (right, wrong) = (data("/x", b"right", 0), data("/x", b"wrong", 0));
    let digest = Data::decode(&right).unwrap().implicit_digest();
    let full = name("/x").child(Component::implicit_digest(&digest)).to_string();
    // From the producer.
    dut.send(a, &plain(&full, 1));
    assert!(only(dut, up).is_some());
    dut.send(up, &wrong);
    assert_eq!(only(dut, a), None);
    dut.send(up, &right);
    assert_eq!(only(dut, a), Some(right.clone()));
    // From the cache.
    dut.send(b, &plain(&full, 2));
    assert_eq!((only(dut, b), only(dut, up)), (Some(right.clone()), None));
    dut.send(a, &interest("/x", 3, |i| i.must_be_fresh(true)));
    dut.send(up, &wrong);
    assert_eq!(only(dut, a), Some(wrong));
    assert!(only(dut, up).is_some());
    // It is kept beside a newer one of its name, which answers if none is named.
    dut.send(b, &plain(&full, 4));
    assert_eq!((only(dut, b), only(dut, up)), (Some(right), None));
    dut.send(b, &plain("/x", 5));
    assert_eq!((only(dut, b), only(dut, up)), (Some(data("/x", b"wrong", 0)), None));
    let neither = name("/x").child(Component::implicit_digest(&[7; 32])).to_string();
    dut.send(b, &plain(&neither, 6));
    assert_eq!((only(dut, b), only(dut, up).is_some()), (None, true));
}

pub(crate) fn fresh_data_alone_satisfies_must_be_fresh(dut: &mut impl Dut) {
    let (a, b, up) = three(dut);
    for (uri, freshness) in [("/short", 1000), ("/never", 0)] {
        dut.send(a, &plain(uri, 1));
        dut.send(up, &data(uri, b"1", freshness));
        assert!(only(dut, a).is_some() && only(dut, up).is_some());
    }
    let fresh = |uri, nonce| interest(uri, nonce, |i| i.must_be_fresh(true));
    dut.send(b, &fresh("/short", 2));
    assert_eq!((only(dut, b).is_some(), only(dut, up)), (true, None));
    dut.send(b, &fresh("/never", 3));
    assert_eq!((only(dut, b), only(dut, up).is_some()), (None, true));
    dut.pass(2000);
    dut.send(b, &fresh("/short", 4));
    assert_eq!((only(dut, b), only(dut, up).is_some()), (None, true));
    for uri in ["/short", "/never"] {
        dut.send(a, &plain(uri, 5));
        // An Interest with MustBeFresh is a separate request; without it the cache answers.
        assert!(only(dut, a).is_some(), "{uri}");
    }
}

pub(crate) fn unsolicited_data_is_never_cached(dut: &mut impl Dut) {
    let (a, b, up) = three(dut);
    dut.send(up, &data("/x", b"1", 1000));
    dut.send(b, &data("/x", b"1", 1000));
    dut.send(a, &plain("/x", 1));
    assert_eq!((only(dut, a), only(dut, up).is_some()), (None, true));
    // The Interest was sent to another face.
    dut.send(b, &data("/x", b"forged", 1000));
    assert_eq!(only(dut, a), None);
}

pub(crate) fn what_is_not_to_be_cached_is_not(dut: &mut impl Dut) {
    let (a, _, up) = three(dut);
    dut.send(a, &plain("/x", 1));
    assert!(only(dut, up).is_some());
    dut.send(
        up,
        &lp(&data("/x", b"1", 1000), |lp| {
            lp.cache_policy = Some(xylem_packet::CachePolicy::NO_CACHE);
        }),
    );
    assert!(only(dut, a).is_some());
    dut.send(a, &plain("/x", 2));
    assert_eq!((only(dut, a), only(dut, up).is_some()), (None, true));
}

pub(crate) fn without_a_route_an_interest_comes_back(dut: &mut impl Dut) {
    let a = dut.face(true);
    dut.send(a, &plain("/x", 1));
    let came = next(dut, a).expect("a Nack");
    assert_eq!((came.nack, came.packet), (Some(NackReason::NO_ROUTE), plain("/x", 1)));
}

pub(crate) fn the_least_severe_refusal_comes_back_when_all_have_refused(dut: &mut impl Dut) {
    let (a, _, up) = three(dut);
    let other = dut.face(false);
    dut.route("/", other, 2);
    dut.send(a, &plain("/x", 1));
    dut.pass(600);
    dut.send(a, &plain("/x", 2));
    assert!(only(dut, up).is_some() && only(dut, other).is_some());
    dut.send(up, &lp(&plain("/x", 1), |lp| lp.nack = Some(NackReason::NO_ROUTE)));
    assert_eq!(next(dut, a), None, "another may still answer");
    dut.send(other, &lp(&plain("/x", 2), |lp| lp.nack = Some(NackReason::CONGESTION)));
    let came = next(dut, a).expect("a Nack");
    assert_eq!(came.nack, Some(NackReason::CONGESTION));
    assert_eq!(came.interest().nonce(), Some(2u32.to_be_bytes()));
}

pub(crate) fn congestion_marks_travel_both_ways(dut: &mut impl Dut) {
    let (a, _, up) = three(dut);
    dut.send(a, &lp(&plain("/x", 1), |lp| lp.congestion_mark = Some(1)));
    assert_eq!(next(dut, up).and_then(|came| came.mark), Some(1));
    dut.send(up, &lp(&data("/x", b"1", 0), |lp| lp.congestion_mark = Some(1)));
    assert_eq!(next(dut, a).and_then(|came| came.mark), Some(1));
}

pub(crate) fn localhost_stays_on_the_machine(dut: &mut impl Dut) {
    let (app, other, near, far) =
        (dut.face(true), dut.face(true), dut.face(false), dut.face(false));
    dut.route("/localhost", far, 0);
    dut.route("/localhost", other, 1);
    dut.send(app, &plain("/localhost/x", 1));
    assert_eq!((only(dut, other).is_some(), only(dut, far)), (true, None));
    dut.send(far, &data("/localhost/x", b"forged", 0));
    assert_eq!(only(dut, app), None);
    dut.send(other, &data("/localhost/x", b"1", 0));
    assert!(only(dut, app).is_some());
    dut.send(near, &plain("/localhost/y", 2));
    assert_eq!((only(dut, other), only(dut, far)), (None, None));
}

pub(crate) fn localhop_goes_one_hop(dut: &mut impl Dut) {
    let (app, near, far) = (dut.face(true), dut.face(false), dut.face(false));
    dut.route("/localhop", far, 0);
    dut.send(app, &plain("/localhop/x", 1));
    assert!(only(dut, far).is_some());
    dut.send(near, &plain("/localhop/y", 2));
    assert_eq!(only(dut, far), None);
}

pub(crate) fn forwarding_hints_lead(dut: &mut impl Dut) {
    let (a, _, up) = three(dut);
    let isp = dut.face(false);
    dut.route("/isp", isp, 0);
    let (hint, content, mut frame) = (name("/isp/site"), name("/known/x"), Vec::new());
    InterestBuilder::new(content.as_ref())
        .nonce([1; 4])
        .forwarding_hint(&[hint.as_ref()])
        .encode(&mut frame)
        .unwrap();
    dut.send(a, &frame);
    assert_eq!((only(dut, isp), only(dut, up)), (Some(frame), None));
    let answer = data("/known/x", b"1", 0);
    dut.send(isp, &answer);
    assert_eq!(only(dut, a), Some(answer));
}

pub(crate) fn malformed_frames_change_nothing(dut: &mut impl Dut) {
    let (a, b, up) = three(dut);
    let good = plain("/x", 1);
    let mut frames = vec![vec![], vec![0; 8000], vec![5, 0], vec![6, 2, 7, 0], vec![5, 2, 7, 0]];
    frames.extend((1..good.len()).map(|cut| good[..cut].to_vec()));
    frames.push([&good[..], &[0]].concat());
    for frame in frames {
        dut.send(b, &frame);
    }
    assert_eq!((only(dut, up), only(dut, b)), (None, None));
    dut.send(a, &good);
    assert_eq!(only(dut, up), Some(good));
}
