//! A forwarder with faces that are numbers only, and a manual clock.

// Each test program uses its part of this.
#![allow(dead_code)]

use core::time::Duration;
use std::collections::BTreeMap;

use xylem_forward::{
    FaceId, FaceScope, Forwarder, ForwarderConfig, ForwarderSeed, IncomingPacket, LinkType,
    OutgoingPacket,
};
use xylem_mgmt::{
    CommandRefusal, CommandScope, ControlParameters, ControlResponse, FaceInfo, FaceUri,
    Management, ManagementConfig, ManagementHost, Persistency, client,
};
use xylem_packet::{Data, Interest, Name};
use xylem_trust::{CommandStamp, Signer};

pub(crate) const NOW_MS: u64 = 1_700_000_000_000;

pub(crate) struct Program {
    pub(crate) forwarder: Forwarder,
    pub(crate) faces: BTreeMap<FaceId, FaceInfo>,
    pub(crate) now_ms: u64,
    /// The face that waits for its connection.
    pub(crate) opening: Option<FaceId>,
    /// Faces to which commands of this machine have led prefixes.
    pub(crate) vouched: Vec<FaceId>,
}

impl Program {
    pub(crate) fn open(&mut self, uri: &str, scope: FaceScope) -> FaceId {
        let face = self.forwarder.add_face(scope);
        let remote: FaceUri = uri.parse().unwrap();
        self.faces.insert(
            face,
            FaceInfo {
                local: remote.clone(),
                remote,
                scope,
                persistency: Persistency::OnDemand,
                link_type: LinkType::PointToPoint,
                mtu: Some(8800),
                flags: 0,
                base_congestion_marking_interval: None,
                default_congestion_threshold: Some(65536),
                expires_ms: None,
            },
        );
        face
    }
}

impl ManagementHost for Program {
    fn forwarder(&mut self) -> &mut Forwarder {
        &mut self.forwarder
    }
    fn forwarder_ref(&self) -> &Forwarder {
        &self.forwarder
    }
    fn create_face(
        &mut self,
        uri: &FaceUri,
        parameters: &ControlParameters,
    ) -> Result<FaceId, CommandRefusal> {
        if let Some((face, _)) = self.faces.iter().find(|(_, info)| info.remote == *uri) {
            return Err(CommandRefusal::exists(*face));
        }
        if !matches!(uri, FaceUri::Udp(_) | FaceUri::Tcp(_)) {
            return Err(CommandRefusal::new(406, "only UDP and TCP"));
        }
        let face = self.open(&uri.to_string(), FaceScope::NonLocal);
        if matches!(uri, FaceUri::Tcp(_)) {
            self.opening = Some(face);
        }
        self.update_face(face, parameters).map(|()| face)
    }
    fn update_face(
        &mut self,
        face: FaceId,
        parameters: &ControlParameters,
    ) -> Result<(), CommandRefusal> {
        let info = self.faces.get_mut(&face).expect("management looked");
        if let (Some(flags), Some(mask)) = (parameters.flags, parameters.mask) {
            info.flags = info.flags & !mask | flags & mask;
        }
        let persistency = parameters.persistency.and_then(Persistency::from_number);
        info.persistency = persistency.unwrap_or(info.persistency);
        Ok(())
    }
    fn vouch_for_face(&mut self, face: FaceId) {
        self.vouched.push(face);
    }
    fn destroy_face(&mut self, face: FaceId) -> bool {
        if self.faces.get(&face).is_none_or(|info| info.remote == FaceUri::Internal) {
            return false;
        }
        self.faces.remove(&face);
        self.forwarder.remove_face(face);
        true
    }
    fn is_opening(&self, face: FaceId) -> bool {
        self.opening == Some(face)
    }
    fn face_info(&self, face: FaceId) -> Option<FaceInfo> {
        self.faces.get(&face).cloned()
    }
    fn channels(&self) -> Vec<FaceUri> {
        vec!["tcp4://0.0.0.0:6363".parse().unwrap()]
    }
    fn started_ms(&self) -> u64 {
        NOW_MS - 5000
    }
    fn now_ms(&self) -> u64 {
        self.now_ms
    }
}

/// A whole node: forwarder, management, an application and a neighbour.
pub(crate) struct Node {
    pub(crate) program: Program,
    pub(crate) management: Management,
    pub(crate) now: Duration,
    pub(crate) own: FaceId,
    pub(crate) app: FaceId,
    pub(crate) neighbour: FaceId,
    stamps: u8,
}

impl Node {
    pub(crate) fn new(config: ManagementConfig) -> Self {
        let config_of_forwarder = {
            let mut config = ForwarderConfig::default();
            config.cs_capacity_bytes = 1 << 20;
            config
        };
        let mut program = Program {
            forwarder: Forwarder::new(config_of_forwarder, ForwarderSeed::from_random([1; 16])),
            faces: BTreeMap::new(),
            now_ms: NOW_MS,
            opening: None,
            vouched: Vec::new(),
        };
        let own = program.open("internal://", FaceScope::Local);
        let app = program.open("unix:///run/app.sock", FaceScope::Local);
        let neighbour = program.open("udp4://192.0.2.1:6363", FaceScope::NonLocal);
        let management = Management::new(config);
        for prefix in management.prefixes() {
            program.forwarder.add_route(prefix.as_ref(), own, 0).unwrap();
        }
        Node { program, management, now: Duration::ZERO, own, app, neighbour, stamps: 0 }
    }

    /// Sends an Interest through the forwarder and management's answers back; returns the packets for `from`.
    pub(crate) fn send(&mut self, from: FaceId, interest: &[u8]) -> Vec<Vec<u8>> {
        let mut asked = Vec::new();
        let mut out = |to: FaceId, packet: OutgoingPacket<'_>| {
            asked.push((to, packet.incoming_face, packet.packet.to_vec()));
        };
        let sent = self.program.forwarder.handle_packet(
            self.now,
            from,
            IncomingPacket::bare(interest),
            &mut out,
        );
        let mut answers = Vec::new();
        for (to, incoming, packet) in asked {
            if to == self.own {
                let interest = Interest::decode(&packet).unwrap();
                let incoming = incoming.expect("the forwarder says where Interests come from");
                let (now, host) = (self.now, &mut self.program);
                self.management.handle_interest(now, incoming, &interest, host, &mut answers);
            } else if to == from && sent.is_ok() {
                // From the content store.
                return vec![packet];
            }
        }
        self.give_back(&answers).into_iter().filter(|(to, _)| *to == from).map(|(_, p)| p).collect()
    }

    /// Sends management's Data through the forwarder; returns the packets with their faces.
    pub(crate) fn give_back(&mut self, packets: &[Vec<u8>]) -> Vec<(FaceId, Vec<u8>)> {
        let mut delivered = Vec::new();
        for packet in packets {
            let mut out = |to: FaceId, packet: OutgoingPacket<'_>| {
                delivered.push((to, packet.packet.to_vec()));
            };
            let _ = self.program.forwarder.handle_packet(
                self.now,
                self.own,
                IncomingPacket::bare(packet),
                &mut out,
            );
        }
        delivered
    }

    pub(crate) fn stamp(&mut self) -> CommandStamp {
        self.stamps += 1;
        CommandStamp::new([self.stamps; 8], self.program.now_ms)
    }

    /// A signed command over `/localhost` and its answer.
    pub(crate) fn command(
        &mut self,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
    ) -> ControlResponse {
        let (app, signer) = (self.app, Signer::digest_sha256());
        self.command_as(app, CommandScope::Localhost, &signer, module, verb, parameters)
            .expect("an answer")
    }

    pub(crate) fn command_as(
        &mut self,
        from: FaceId,
        scope: CommandScope,
        signer: &Signer,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
    ) -> Option<ControlResponse> {
        let stamp = self.stamp();
        let wire =
            client::command(scope, module, verb, parameters, signer, stamp, [self.stamps; 4])
                .unwrap();
        let answers = self.send(from, &wire);
        let data = Data::decode(answers.first()?).unwrap();
        Some(client::response(&Interest::decode(&wire).unwrap(), &data).unwrap())
    }

    /// A dataset's content, by as many Interests as needed.
    pub(crate) fn dataset(&mut self, mut dataset: client::Dataset) -> Vec<u8> {
        for i in 0..1000u32 {
            let interest = dataset.interest((1000 + i).to_be_bytes()).unwrap();
            let answers = self.send(self.app, &interest);
            let data = Data::decode(answers.first().expect("an answer")).unwrap();
            if let Some(content) = dataset.data(&data).unwrap() {
                return content;
            }
        }
        panic!("a dataset without end");
    }

    /// The FIB: prefix, then faces with costs.
    pub(crate) fn fib(&self) -> BTreeMap<String, BTreeMap<u64, u32>> {
        let mut fib = BTreeMap::new();
        self.program.forwarder.for_each_route(&mut |prefix, hops| {
            let hops = hops.iter().map(|hop| (hop.face.0, hop.cost)).collect();
            fib.insert(prefix.to_string(), hops);
        });
        fib
    }
}

pub(crate) fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

/// Parameters that name a prefix.
pub(crate) fn about(uri: &str) -> ControlParameters {
    ControlParameters { name: Some(name(uri)), ..ControlParameters::default() }
}

pub(crate) fn unhex(hex: &str) -> Vec<u8> {
    let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}
