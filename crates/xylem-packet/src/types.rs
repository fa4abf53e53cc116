//! TLV-TYPE numbers (packet format v0.3, "TLV-TYPE number assignments"; naming conventions rev. 3;
//! NDNLPv2).

/// Interest packet.
pub const INTEREST: u32 = 0x05;
/// Data packet.
pub const DATA: u32 = 0x06;
/// Name.
pub const NAME: u32 = 0x07;

/// ImplicitSha256DigestComponent, 32 octets.
pub const IMPLICIT_SHA256_DIGEST: u32 = 0x01;
/// ParametersSha256DigestComponent, 32 octets.
pub const PARAMETERS_SHA256_DIGEST: u32 = 0x02;
/// GenericNameComponent.
pub const GENERIC_COMPONENT: u32 = 0x08;
/// KeywordNameComponent (naming conventions rev. 3).
pub const KEYWORD_COMPONENT: u32 = 0x20;
/// SegmentNameComponent, a number.
pub const SEGMENT_COMPONENT: u32 = 0x32;
/// ByteOffsetNameComponent, a number.
pub const BYTE_OFFSET_COMPONENT: u32 = 0x34;
/// VersionNameComponent, a number.
pub const VERSION_COMPONENT: u32 = 0x36;
/// TimestampNameComponent, a number (microseconds since 1970).
pub const TIMESTAMP_COMPONENT: u32 = 0x38;
/// SequenceNumNameComponent, a number.
pub const SEQUENCE_COMPONENT: u32 = 0x3A;

/// Interest: CanBePrefix, empty.
pub const CAN_BE_PREFIX: u32 = 0x21;
/// Interest: MustBeFresh, empty.
pub const MUST_BE_FRESH: u32 = 0x12;
/// Interest: ForwardingHint, Names.
pub const FORWARDING_HINT: u32 = 0x1E;
/// Interest: Nonce, 4 octets.
pub const NONCE: u32 = 0x0A;
/// Interest: InterestLifetime, milliseconds.
pub const INTEREST_LIFETIME: u32 = 0x0C;
/// Interest: HopLimit, 1 octet.
pub const HOP_LIMIT: u32 = 0x22;
/// Interest: ApplicationParameters.
pub const APPLICATION_PARAMETERS: u32 = 0x24;
/// Interest: InterestSignatureInfo.
pub const INTEREST_SIGNATURE_INFO: u32 = 0x2C;
/// Interest: InterestSignatureValue.
pub const INTEREST_SIGNATURE_VALUE: u32 = 0x2E;

/// Data: MetaInfo.
pub const META_INFO: u32 = 0x14;
/// Data: Content.
pub const CONTENT: u32 = 0x15;
/// Data: SignatureInfo.
pub const SIGNATURE_INFO: u32 = 0x16;
/// Data: SignatureValue.
pub const SIGNATURE_VALUE: u32 = 0x17;
/// MetaInfo: ContentType, a number.
pub const CONTENT_TYPE: u32 = 0x18;
/// MetaInfo: FreshnessPeriod, milliseconds.
pub const FRESHNESS_PERIOD: u32 = 0x19;
/// MetaInfo: FinalBlockId, one name component.
pub const FINAL_BLOCK_ID: u32 = 0x1A;

/// SignatureInfo: SignatureType, a number.
pub const SIGNATURE_TYPE: u32 = 0x1B;
/// SignatureInfo: KeyLocator.
pub const KEY_LOCATOR: u32 = 0x1C;
/// KeyLocator: KeyDigest.
pub const KEY_DIGEST: u32 = 0x1D;
/// InterestSignatureInfo: SignatureNonce, octets.
pub const SIGNATURE_NONCE: u32 = 0x26;
/// InterestSignatureInfo: SignatureTime, milliseconds since 1970.
pub const SIGNATURE_TIME: u32 = 0x28;
/// InterestSignatureInfo: SignatureSeqNum, a number.
pub const SIGNATURE_SEQ_NUM: u32 = 0x2A;
/// SignatureInfo of a certificate: ValidityPeriod.
pub const VALIDITY_PERIOD: u32 = 0xFD;

/// NDNLPv2: LpPacket.
pub const LP_PACKET: u32 = 0x64;
/// NDNLPv2: Fragment.
pub const LP_FRAGMENT: u32 = 0x50;
/// NDNLPv2: Sequence, 8 octets.
pub const LP_SEQUENCE: u32 = 0x51;
/// NDNLPv2: FragIndex, a number.
pub const LP_FRAG_INDEX: u32 = 0x52;
/// NDNLPv2: FragCount, a number.
pub const LP_FRAG_COUNT: u32 = 0x53;
/// NDNLPv2: PitToken, 1 to 32 octets.
pub const LP_PIT_TOKEN: u32 = 0x62;
/// NDNLPv2: Nack.
pub const LP_NACK: u32 = 0x0320;
/// NDNLPv2, in Nack: NackReason, a number.
pub const LP_NACK_REASON: u32 = 0x0321;
/// NDNLPv2: IncomingFaceId, a number. (817 until 2022: redmine.named-data.net issue 5185.)
pub const LP_INCOMING_FACE_ID: u32 = 0x032C;
/// NDNLPv2: NextHopFaceId, a number.
pub const LP_NEXT_HOP_FACE_ID: u32 = 0x0330;
/// NDNLPv2: CachePolicy.
pub const LP_CACHE_POLICY: u32 = 0x0334;
/// NDNLPv2, in CachePolicy: CachePolicyType, a number.
pub const LP_CACHE_POLICY_TYPE: u32 = 0x0335;
/// NDNLPv2: CongestionMark, a number.
pub const LP_CONGESTION_MARK: u32 = 0x0340;
/// NDNLPv2: Ack, 8 octets, repeatable.
pub const LP_ACK: u32 = 0x0344;
/// NDNLPv2: TxSequence, 8 octets.
pub const LP_TX_SEQUENCE: u32 = 0x0348;
/// NDNLPv2: NonDiscovery, empty.
pub const LP_NON_DISCOVERY: u32 = 0x034C;
/// NDNLPv2: PrefixAnnouncement, one Data.
pub const LP_PREFIX_ANNOUNCEMENT: u32 = 0x0350;
