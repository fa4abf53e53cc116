//! Management: its records and FaceUris parse the same after they are written again. No Interest makes it panic, answer
//! with anything but a Data, or obey an unsigned command.
#![no_main]
use core::time::Duration;

use xylem_forward::{FaceId, FaceScope, Forwarder, ForwarderConfig, ForwarderSeed, LinkType};
use xylem_mgmt::{
    CommandRefusal, CommandScope, ControlParameters, ControlResponse, FaceEvent, FaceInfo,
    FaceQueryFilter, FaceStatus, FaceUri, FibEntry, GeneralStatus, Management, ManagementConfig,
    ManagementHost, Persistency, PrefixAnnouncement, RibEntry, StrategyChoice, client,
    read_entries,
};
use xylem_packet::{Component, ContentType, Data, DataBuilder, Interest, InterestBuilder, Name};
use xylem_trust::{CommandStamp, Signer};

const NOW_MS: u64 = 1_700_000_000_000;

/// One local face that is only a number.
struct Program(Forwarder);

impl ManagementHost for Program {
    fn forwarder(&mut self) -> &mut Forwarder {
        &mut self.0
    }
    fn forwarder_ref(&self) -> &Forwarder {
        &self.0
    }
    fn create_face(
        &mut self,
        _: &FaceUri,
        _: &ControlParameters,
    ) -> Result<FaceId, CommandRefusal> {
        Ok(self.0.add_face(FaceScope::NonLocal))
    }
    fn update_face(&mut self, _: FaceId, _: &ControlParameters) -> Result<(), CommandRefusal> {
        Ok(())
    }
    fn destroy_face(&mut self, face: FaceId) -> bool {
        self.0.remove_face(face);
        true
    }
    fn face_info(&self, face: FaceId) -> Option<FaceInfo> {
        let settings = self.0.face_settings(face)?;
        Some(FaceInfo {
            remote: FaceUri::Fd(face.0),
            local: FaceUri::Internal,
            scope: settings.scope,
            persistency: Persistency::OnDemand,
            link_type: LinkType::PointToPoint,
            mtu: None,
            flags: 0,
            base_congestion_marking_interval: None,
            default_congestion_threshold: None,
            expires_ms: None,
        })
    }
    fn started_ms(&self) -> u64 {
        NOW_MS
    }
    fn now_ms(&self) -> u64 {
        NOW_MS
    }
}

fn records(input: &[u8]) {
    if let Ok(parameters) = ControlParameters::decode(input) {
        assert_eq!(ControlParameters::decode(&parameters.encode()), Ok(parameters));
    }
    if let Ok(response) = ControlResponse::decode(input) {
        assert_eq!(ControlResponse::decode(&response.encode()), Ok(response));
    }
    if let Ok(event) = FaceEvent::decode(input) {
        assert_eq!(FaceEvent::decode(&event.encode()), Ok(event));
    }
    if let Ok(filter) = FaceQueryFilter::decode(input) {
        assert_eq!(FaceQueryFilter::decode(&filter.encode()), Ok(filter));
    }
    if let Ok(announcement) = PrefixAnnouncement::decode(input) {
        assert!(announcement.prefix().is_prefix_of(announcement.data.name()));
        let _ = announcement.lasts_ms(NOW_MS);
    }
    let _ = GeneralStatus::from_value(input);
    let _ = read_entries::<FaceStatus>(input);
    let _ = read_entries::<FibEntry>(input);
    let _ = read_entries::<RibEntry>(input);
    let _ = read_entries::<StrategyChoice>(input);
    if let Ok(uri) = core::str::from_utf8(input).unwrap_or_default().parse::<FaceUri>() {
        assert_eq!(uri.to_string().parse(), Ok(uri), "a FaceUri survives being written");
    }
}

/// The input as the tail of a correctly signed command.
fn signed(input: &[u8]) -> Option<Vec<u8>> {
    let (which, parameters) = input.split_first()?;
    let verbs = [
        "faces/create",
        "faces/update",
        "faces/destroy",
        "fib/add-nexthop",
        "fib/remove-nexthop",
        "rib/register",
        "rib/unregister",
        "rib/announce",
        "cs/config",
        "cs/erase",
        "strategy-choice/set",
        "strategy-choice/unset",
        "faces/query",
    ];
    let verb = verbs[usize::from(*which) % verbs.len()];
    let name = Name::from_uri(&format!("/localhost/nfd/{verb}")).ok()?;
    let name = name.child(Component::generic(parameters));
    let mut wire = Vec::new();
    let builder = InterestBuilder::new(name.as_ref()).can_be_prefix(which & 0x80 != 0);
    Signer::digest_sha256()
        .interest(builder, &[], CommandStamp::new([*which; 8], NOW_MS), &mut wire)
        .ok()?;
    Some(wire)
}

/// The input as the content of a correctly signed announcement; returns the Data.
fn announced(input: &[u8]) -> Option<Vec<u8>> {
    let name = Name::from_uri("/a/32=PA/v=1/seg=0").ok()?;
    let builder = DataBuilder::new(name.as_ref()).content_type(ContentType::PREFIX_ANNOUNCEMENT);
    let mut wire = Vec::new();
    Signer::digest_sha256().data(builder, input, &mut wire).ok()?;
    Some(wire)
}

/// The command with this announcement.
fn announce(wire: &[u8]) -> Option<Vec<u8>> {
    let (signer, stamp) = (Signer::digest_sha256(), CommandStamp::new([7; 8], NOW_MS));
    client::announce(CommandScope::Localhost, wire, &signer, stamp, [7; 4]).ok()
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    records(input);
    let mut program =
        Program(Forwarder::new(ForwarderConfig::default(), ForwarderSeed::from_random([0; 16])));
    let app = program.0.add_face(FaceScope::Local);
    let config = ManagementConfig { readvertise: true, ..ManagementConfig::default() };
    let mut management = Management::new(config);
    let data = announced(input);
    let name = Name::from_uri("/a/b").expect("a name");
    for announcement in [Some(input), data.as_deref()].into_iter().flatten() {
        let learned =
            management.learn(Duration::ZERO, app, name.as_ref(), announcement, &mut program);
        assert!(learned.is_err(), "there are no anchors");
        management.handle_reply(Duration::ZERO, announcement, &mut program, &mut Vec::new());
    }
    let announcing = announce(input).into_iter().chain(data.as_deref().and_then(announce));
    for wire in [Some(input.to_vec()), signed(input)].into_iter().flatten().chain(announcing) {
        let Ok(interest) = Interest::decode(&wire) else { continue };
        let mut out = Vec::new();
        let now = Duration::from_secs(1);
        management.handle_interest(now, app, &interest, &mut program, &mut out);
        for packet in &out {
            let told = Interest::decode(packet)
                .is_ok_and(|interest| interest.name().prefix(2).to_string() == "/localhost/nlsr");
            assert!(told || Data::decode(packet).is_ok(), "answers are Data");
        }
        if interest.signature().is_none() && interest.name().len() < 9 {
            assert!(management.rib().is_empty(), "nobody signed");
        }
        management.handle_timeout(Duration::from_secs(1 << 40), &mut program, &mut Vec::new());
    }
});
