//! A CA, or a client, whose packets are lines of hexadecimal digits on standard input and output: for
//! interop/peers/ndncert.mjs, which has NDNts on the other side.
//!
//! ```text
//! lines ca PREFIX                  » own HEX, credential HEX KEY
//!                                  « interest HEX    » event …, then data HEX | none
//! lines client PREFIX CHALLENGE    » interest HEX    « data HEX | none
//!                                  » code?           « code TEXT
//!                                  » done HEX | failed WHY
//! ```

use std::io::{self, Lines, StdinLock};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use xylem_ndncert::{
    CaConfig, CaEvent, CertificateAuthority, CertificateRequest, ChallengeChoice, ChallengeKind,
    Lookup, ProfileTrust, RequestError, RequestState, StandardPolicy,
};
use xylem_packet::{Component, Name};
use xylem_trust::{
    Certificate, HierarchyRules, Issue, PrivateKey, Signer, TrustStore, ValidityPeriod, self_signed,
};

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Random enough: the private half of a key that is made for it.
fn seed() -> [u8; 32] {
    *xylem_hash::hash(&PrivateKey::generate_ecdsa_p256().unwrap().to_pkcs8()).as_bytes()
}

fn p256(identity: &Name) -> Signer {
    let key = PrivateKey::generate_ecdsa_p256().unwrap();
    let name = identity.child(Component::generic(b"KEY")).child(Component::generic(&[1; 8]));
    key.signer(name).unwrap()
}

fn valid() -> ValidityPeriod {
    ValidityPeriod { not_before_ms: now_ms() - 1000, not_after_ms: now_ms() + 86_400_000 }
}

struct Input(Lines<StdinLock<'static>>);

impl Input {
    fn line(&mut self, word: &str) -> Option<String> {
        let line = self.0.next()?.unwrap();
        line.strip_prefix(word).map(|rest| rest.trim().to_owned())
    }

    fn exchange(&mut self, interest: &[u8]) -> Option<Vec<u8>> {
        println!("interest {}", HEXLOWER.encode(interest));
        HEXLOWER.decode(self.line("data ")?.as_bytes()).ok()
    }
}

fn ca(prefix: Name, mut input: Input) {
    let signer = p256(&prefix);
    let own = self_signed(&signer, now_ms(), valid()).unwrap();
    // A key that was certified before, for the possession challenge; printed for the other side.
    let old = PrivateKey::generate_ecdsa_p256().unwrap();
    let identity = prefix.child(Component::generic(b"al"));
    let key_name = identity.child(Component::generic(b"KEY")).child(Component::generic(b"old"));
    let issue = Issue {
        key_name: key_name.as_ref(),
        issuer_id: Component::generic(b"by"),
        version: now_ms(),
        public_key: &old.public(),
        validity: valid(),
    };
    let mut credential = Vec::new();
    issue.sign(&signer, &mut credential).unwrap();
    println!("own {}", HEXLOWER.encode(&own));
    println!("credential {} {}", HEXLOWER.encode(&credential), HEXLOWER.encode(&old.to_pkcs8()));
    let mut believed = TrustStore::new();
    believed.add_anchor(&Certificate::decode(&own).unwrap()).unwrap();
    let config = CaConfig {
        challenges: ChallengeKind::ALL.to_vec(),
        info: "lines".into(),
        probe_keys: vec!["email".into()],
        // NDNts makes bare proofs only.
        bare_proofs: true,
        ..CaConfig::new(prefix)
    };
    let policy = Box::new(StandardPolicy::new(Arc::new(HierarchyRules), believed));
    let mut ca = CertificateAuthority::new(config, signer, &own, policy, now_ms()).unwrap();
    while let Some(hex) = input.line("interest ") {
        let answer = ca.interest(&HEXLOWER.decode(hex.as_bytes()).unwrap(), now_ms(), seed());
        match answer.event {
            Some(CaEvent::Pin { code, .. }) => println!("event pin {code}"),
            Some(CaEvent::Email { code, address, .. }) => println!("event email {code} {address}"),
            Some(CaEvent::Issued { by, .. }) => println!("event issued {}", by.name()),
            None => {}
        }
        match answer.data {
            Some(data) => println!("data {}", HEXLOWER.encode(&data)),
            None => println!("none"),
        }
    }
}

fn client(prefix: Name, challenge: &str, mut input: Input) -> Result<Vec<u8>, RequestError> {
    let mut lookup = Lookup::new(prefix.clone());
    let profile = loop {
        if let Some(data) =
            lookup.poll_transmit(now_ms(), [7; 4]).and_then(|interest| input.exchange(&interest))
        {
            lookup.receive(&data);
        }
        if let Some(found) = lookup.take() {
            break found?;
        }
    };
    let digest = profile.digest();
    let signer = p256(&prefix.child(Component::generic(b"al")));
    let mut request = CertificateRequest::new(
        profile,
        ProfileTrust::Digest(digest),
        signer,
        u64::MAX,
        now_ms(),
        seed(),
    )?;
    loop {
        if let Some(data) =
            request.poll_transmit(now_ms(), [7; 4]).and_then(|interest| input.exchange(&interest))
        {
            request.receive(&data, now_ms(), seed());
        }
        match request.state() {
            RequestState::Done(certificate) => return Ok(certificate.to_vec()),
            RequestState::Failed(why) => return Err(why.clone()),
            RequestState::Choose(_) => {
                let choice = match challenge {
                    "pin" => ChallengeChoice::Pin,
                    address => ChallengeChoice::Email(address.to_owned()),
                };
                request.choose(choice, now_ms(), seed())?;
            }
            RequestState::Code { .. } => {
                println!("code?");
                let code = input.line("code ").expect("a code");
                request.code(&code, now_ms(), seed())?;
            }
            RequestState::Waiting => {}
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let input = Input(io::stdin().lines());
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "ca", prefix] => ca(prefix.parse().unwrap(), input),
        [_, "client", prefix, challenge] => {
            match client(prefix.parse().unwrap(), challenge, input) {
                Ok(certificate) => println!("done {}", HEXLOWER.encode(&certificate)),
                Err(why) => println!("failed {why}"),
            }
        }
        _ => panic!("lines ca PREFIX | lines client PREFIX CHALLENGE"),
    }
}
