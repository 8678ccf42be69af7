//! Block tokens: who has none, or one for something else, gets the status on which clients ask for another.

use crate::local;
use crate::support::{Ask, Cluster, Connection, GENERATION, POOL, SPEC, base_header, block_proto, pattern};
use hdfs::proto::{self, BlockConstructionStage as Stage, TokenProto};
use io::request_connections::{RequestConnections, Waiter};
use io::{Clock, SystemClock};
use sasl::Uncounted;
use security::block_token::{Grant, Mode, Modes, Signer};
use security::encryption_key;
use security::keys::{Key, KeyId, KeyRing, Lifetimes};
use security::sasl::digest::{NONCE_LEN, Protection, Qop};
use security::sasl::transfer::{Channel, Client, HandshakeError};
use security::secret::{SECRET_LEN, Secret};
use std::io::{Read, Write};
use std::time::Duration;
use tokio::net::TcpStream;
use types::{BlockId, ContainerId, FileId, InodeId, Millis};
use wire::layouts::{LayoutBlock, ReadLayout};
use wire::node::{BEGIN_RECOVERY, BeginRecoveryRequest, BeginRecoveryResponse, BlockToken, FINISH_RECOVERY};
use wire::node::{FinishRecoveryRequest, FinishRecoveryResponse, REPLICA_PROTOCOL, TokenKey, TokenRules};
use wire::ranges::{Asked, PartHead, RangesBlock, RangesToken, ReadRanges, put_ranges};
use wire::small::{SmallAnswer, SmallWrite};
use wire::{BlockScope, Op, Status};
use xfer::small::{Caller, OutgoingRequest};

pub(crate) const FILE: FileId = InodeId(16_400);
const HOME: ContainerId = ContainerId(7);
const LEN: usize = 1000;

fn secret(byte: u8) -> Secret {
    Secret::new([byte; SECRET_LEN])
}

fn now() -> Millis {
    SystemClock::new().now()
}

/// The leader's ring, the key before it, which has expired, and the ring of another store.
pub(crate) struct Keys {
    pub(crate) ring: KeyRing,
    expired: KeyRing,
    foreign: KeyRing,
}

impl Keys {
    pub(crate) fn new() -> Self {
        let ring = |since: Millis, first, bytes: [u8; 2]| {
            KeyRing::new(since, Lifetimes::BLOCK_TOKENS, KeyId(first), bytes.map(secret))
        };
        let long_ago = Millis(now().0 - 100 * 3_600_000);
        Self { ring: ring(now(), 2, [2, 3]), expired: ring(long_ago, 1, [1, 2]), foreign: ring(now(), 2, [8, 9]) }
    }

    /// As a node hears of it that missed the roll behind which the expired one is forgotten.
    pub(crate) fn said(&self) -> TokenRules {
        let all = [self.expired.current()].into_iter().chain(self.ring.keys().iter());
        let key = |key: &Key| TokenKey {
            id: key.id.0,
            expires_ms: key.expires.0,
            secret: key.secret.bytes().to_vec().into(),
        };
        TokenRules {
            required: true,
            revision: self.ring.keys().revision(),
            keys: all.map(key).collect(),
            ..TokenRules::default()
        }
    }
}

pub(crate) fn token(ring: &KeyRing, file: FileId, modes: &[Mode], block: Option<u64>) -> TokenProto {
    let grant = Grant { user: "ada", file, modes: Modes::of(modes), block: block.map(BlockId) };
    let token = Signer::new(0).sign(ring.rolled_at(), ring, grant).unwrap();
    let password = token.password().bytes().to_vec().into();
    TokenProto { identifier: token.identifier(Some(HOME)).into(), password, ..TokenProto::none() }
}

/// What a client or a metadata server asks of a node about a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    ReadRanges,
    Layout,
    Checksum,
    Descriptors,
    Create,
    Append,
    CopyIn,
    Transfer,
    Small,
    Recover,
}

const ALL: [Operation; 11] = [
    Operation::Read,
    Operation::ReadRanges,
    Operation::Layout,
    Operation::Checksum,
    Operation::Descriptors,
    Operation::Create,
    Operation::Append,
    Operation::CopyIn,
    Operation::Transfer,
    Operation::Small,
    Operation::Recover,
];

impl Operation {
    fn mode(self) -> Mode {
        match self {
            Self::Read | Self::ReadRanges | Self::Layout | Self::Checksum | Self::Descriptors => Mode::Read,
            Self::Transfer => Mode::Copy,
            Self::Create | Self::Append | Self::CopyIn | Self::Recover => Mode::Write,
            Self::Small => Mode::Put,
        }
    }

    /// It makes a replica; the others are done with one that is there.
    fn makes(self) -> bool {
        matches!(self, Self::Create | Self::CopyIn | Self::Small)
    }
}

struct World {
    cluster: Cluster,
    keys: Keys,
    next: std::cell::Cell<u64>,
}

impl World {
    fn new() -> Self {
        let (cluster, keys) = (Cluster::with(2, local::with_socket), Keys::new());
        for node in (0..2).map(|node| cluster.node(node)) {
            node.join_pool(POOL);
            node.hear_token_rules(&keys.said());
        }
        Self { cluster, keys, next: std::cell::Cell::new(100) }
    }

    /// A block of the file that is on the first node, or one that is on none.
    fn block(&self, is_there: bool) -> u64 {
        let block = self.next.get();
        self.next.set(block + 1);
        if is_there {
            let token = token(&self.keys.ring, FILE, &[Mode::Write], Some(block));
            let ask = Ask { token: token.identifier.to_vec(), password: token.password.to_vec(), ..Ask::create(block) };
            let mut chain = self.cluster.chain(&[0], &ask).unwrap();
            chain.send_all(&pattern(block, LEN));
            chain.finish();
        }
        block
    }

    /// A good one.
    fn token(&self, operation: Operation, block: u64) -> TokenProto {
        // What goes on to a target is to make a replica there.
        let modes = [operation.mode(), Mode::Write];
        let modes = if operation == Operation::Transfer { &modes[..] } else { &modes[..1] };
        let names_block = operation.mode() != Mode::Read;
        token(&self.keys.ring, FILE, modes, names_block.then_some(block))
    }

    fn status(&self, operation: Operation, block: u64, token: &TokenProto) -> i32 {
        let mut base = base_header(block_proto(block, GENERATION, LEN as u64));
        base.token = Some(token.clone());
        let header = proto::ClientOperationHeaderProto { base_header: base.clone(), client_name: "client".into() };
        let mut connection: Connection = self.cluster.connect(0);
        let write = |stage, new_generation| {
            let len = if stage == Stage::PipelineSetupAppend { LEN as u64 } else { 0 };
            let ask = Ask::again(block, stage, new_generation, len, len);
            Ask { token: token.identifier.to_vec(), password: token.password.to_vec(), ..ask }.op(Vec::new())
        };
        match operation {
            Operation::Read => {
                let op = proto::OpReadBlockProto { header, offset: 0, len: 4, ..Default::default() };
                connection.send_op(Op::ReadBlock, &op);
            }
            Operation::ReadRanges => {
                let TokenProto { identifier, password, .. } = token.clone();
                let mut op = ReadRanges { pool: POOL.into(), ..ReadRanges::default() };
                op.tokens.push(RangesToken { identifier, password });
                op.blocks.push(RangesBlock { block, generation: GENERATION, token: 0, range_count: 1 });
                let mut ranges = Vec::new();
                put_ranges(&[Asked { from: 0, len: 4 }], &mut ranges);
                connection.send_op(Op::ReadRanges, &ReadRanges { ranges: ranges.into(), ..op });
                assert_eq!(connection.answer().status, 0, "each block is answered by itself");
                let mut head = [0; PartHead::LEN];
                connection.receive(&mut head);
                return match PartHead::decode(head).unwrap() {
                    PartHead::Refused { status, .. } => status.0.into(),
                    part => {
                        assert!(matches!(part, PartHead::Bytes { range: 0, len: 4, .. }), "{part:?}");
                        0
                    }
                };
            }
            Operation::Layout => {
                let TokenProto { identifier, password, .. } = token.clone();
                let len = LEN as u64;
                let op = ReadLayout {
                    pool: POOL.into(),
                    tokens: vec![RangesToken { identifier, password }],
                    blocks: vec![LayoutBlock { block, generation: GENERATION, len, ..LayoutBlock::default() }],
                    file_len: len,
                    ..ReadLayout::default()
                };
                connection.send_op(Op::ReadLayout, &op);
            }
            Operation::Checksum => {
                let op = proto::OpBlockChecksumProto { header: base, ..Default::default() };
                connection.send_op(Op::BlockChecksum, &op);
            }
            Operation::Descriptors => return local::status(&self.cluster, block, token),
            Operation::Create => connection.send_op(Op::WriteBlock, &write(Stage::PipelineSetupCreate, 0)),
            Operation::Append => {
                connection.send_op(Op::WriteBlock, &write(Stage::PipelineSetupAppend, GENERATION + 1));
            }
            Operation::CopyIn => {
                connection.send_op(Op::WriteBlock, &write(Stage::TransferFinalized, 0));
                // Answered at its end, if it is not refused.
                connection.socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
                return std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| connection.answer().status))
                    .unwrap_or(0);
            }
            Operation::Transfer => {
                let targets = vec![self.cluster.info(1)];
                connection
                    .send_op(Op::TransferBlock, &proto::OpTransferBlockProto { header, targets, ..Default::default() });
            }
            Operation::Small => return self.small(block, token).status as i32,
            Operation::Recover => return self.recover(block, token),
        }
        connection.answer().status
    }

    fn small(&self, block: u64, token: &TokenProto) -> SmallAnswer {
        let (data, mut body) = (pattern(block, LEN), Vec::new());
        SPEC.compute(&data, &mut body);
        body.extend_from_slice(&data);
        let header = SmallWrite {
            block,
            generation: GENERATION,
            data_len: LEN as u32,
            checksum_kind: SPEC.kind as u32,
            chunk_len: SPEC.chunk_len,
            pool: POOL.into(),
            token: token.identifier.clone(),
            password: token.password.clone(),
            targets: vec![self.cluster.node(1).xfer_addr().to_string()],
            ..SmallWrite::default()
        };
        let connections = RequestConnections::<Caller<Waiter<SmallAnswer>>>::default();
        let addr = self.cluster.node(0).xfer_addr().to_string();
        let outgoing = OutgoingRequest { header, body: body.into() };
        self.cluster.runtime.block_on(connections.call(&addr, outgoing)).unwrap()
    }

    /// Both calls of a recovery.
    fn recover(&self, block: u64, token: &TokenProto) -> i32 {
        let addr = self.cluster.node(0).ipc_addr().to_string();
        let client = rpc::Client::new(addr, "metad".into(), REPLICA_PROTOCOL);
        let TokenProto { identifier, password, .. } = token.clone();
        let token = Some(BlockToken { identifier, password });
        let (generation, len) = (GENERATION + 5, LEN as u64);
        let begin = BeginRecoveryRequest { block, generation, token: token.clone() };
        let begun = self.cluster.runtime.block_on(client.call::<_, BeginRecoveryResponse>(BEGIN_RECOVERY, &begin));
        let finish = FinishRecoveryRequest { block, generation, len, token };
        let finished =
            self.cluster.runtime.block_on(client.call::<_, FinishRecoveryResponse>(FINISH_RECOVERY, &finish));
        let is_refused = |error: &rpc::CallError| error.to_string().contains("InvalidBlockToken");
        match (begun, finished) {
            (Ok(begun), Ok(_)) => {
                assert!(begun.replica.is_some());
                0
            }
            (Err(begun), Err(finished)) if is_refused(&begun) && is_refused(&finished) => REFUSED,
            other => panic!("{other:?}"),
        }
    }
}

const REFUSED: i32 = 5;

#[test]
fn each_operation_takes_a_token_that_is_for_it() {
    assert_eq!(i32::from(Status::ERROR_ACCESS_TOKEN.0), REFUSED);
    let world = World::new();
    for operation in ALL {
        let block = world.block(!operation.makes());
        assert_eq!(world.status(operation, block, &world.token(operation, block)), 0, "{operation:?}");
    }
}

#[test]
fn each_operation_refuses_a_token_that_is_not_for_it() {
    let world = World::new();
    let keys = &world.keys;
    for operation in ALL {
        let block = world.block(!operation.makes());
        let good = world.token(operation, block);
        let modes = [operation.mode()];
        let names = |block| (operation.mode() != Mode::Read).then_some(block);
        let others: Vec<Mode> = Mode::ALL.into_iter().filter(|mode| *mode != operation.mode()).collect();
        let mut forged = good.password.to_vec();
        forged[31] ^= 1;
        let unsigned = BlockScope { file: FILE, home: HOME }.encode();
        let mut refused = vec![
            ("none", TokenProto::none()),
            ("unsigned", TokenProto { identifier: unsigned.into(), ..TokenProto::none() }),
            ("forged", TokenProto { password: forged.into(), ..good.clone() }),
            ("without its password", TokenProto { password: bytes::Bytes::new(), ..good.clone() }),
            ("expired", token(&keys.expired, FILE, &modes, names(block))),
            ("of another store", token(&keys.foreign, FILE, &modes, names(block))),
            ("for something else", token(&keys.ring, FILE, &others, Some(block))),
            ("of another block", token(&keys.ring, FILE, &modes, Some(block + 1000))),
        ];
        if operation.makes() {
            refused.push(("of all blocks there are", token(&keys.ring, FILE, &[Mode::Read, Mode::Copy], None)));
        } else {
            refused.push(("of another file", token(&keys.ring, InodeId(16_401), &modes, names(block))));
        }
        for (what, token) in refused {
            assert_eq!(world.status(operation, block, &token), REFUSED, "{operation:?} with one {what}");
        }
        // Nothing of that was done.
        assert_eq!(world.status(operation, block, &good), 0, "{operation:?}");
    }
}

/// What it refuses then may be somebody's own; it is told to ask for another token, and comes back.
#[test]
fn a_node_that_no_leader_has_told_anything_admits_nothing() {
    let cluster = Cluster::untold(1);
    let ask = Ask { token: BlockScope { file: FILE, home: HOME }.encode(), ..Ask::create(5) };
    let refused = |cluster: &Cluster| cluster.chain(&[0], &ask).err().map(|answer| answer.status);
    // No new token would help: a writer goes to another node.
    assert_eq!(refused(&cluster), Some(i32::from(Status::ERROR.0)));
    cluster.node(0).hear_token_rules(&TokenRules::default());
    assert_eq!(refused(&cluster), None);
}

#[test]
fn tokens_outlive_a_roll_and_end_with_a_revocation() {
    let mut world = World::new();
    let block = world.block(true);
    let tell = |world: &World| world.cluster.node(0).hear_token_rules(&world.keys.said());
    let before = world.token(Operation::Read, block);
    let former = world.keys.ring.current().id;
    world.keys.ring.roll(world.keys.ring.roll_at(), secret(4)).unwrap();
    // The key that signs now was known before.
    let after = token(&world.keys.ring, FILE, &[Mode::Read], None);
    assert_eq!(world.status(Operation::Read, block, &after), 0);
    tell(&world);
    for token in [&before, &after] {
        assert_eq!(world.status(Operation::Read, block, token), 0);
    }
    assert!(world.keys.ring.revoke(former));
    tell(&world);
    assert_eq!(world.status(Operation::Read, block, &before), REFUSED);
    assert_eq!(world.status(Operation::Read, block, &after), 0);
}

/// A connection to the first node that agreed on this by the token.
fn protected(world: &World, token: &TokenProto, qop: Qop) -> Result<Connection, sasl::Error> {
    let secret = sasl::Secret { identifier: &token.identifier, password: &token.password };
    let shaking_hands = async {
        let socket = TcpStream::connect(world.cluster.node(0).xfer_addr()).await?;
        let held = [(); 2].map(|()| Uncounted::default());
        let connection = sasl::connect(socket, secret, Protection::of(&[qop]), held).await?;
        Ok::<_, sasl::Error>(connection.pumped(None)?.into_std()?)
    };
    let socket = world.cluster.runtime.block_on(shaking_hands)?;
    socket.set_nonblocking(false).unwrap();
    Ok(Connection::over(socket))
}

fn checksum(connection: &mut Connection, block: u64, token: &TokenProto) -> proto::BlockOpResponseProto {
    let mut header = base_header(block_proto(block, GENERATION, LEN as u64));
    header.token = Some(token.clone());
    connection.send_op(Op::BlockChecksum, &proto::OpBlockChecksumProto { header, ..Default::default() });
    connection.answer()
}

/// From the leader's word on, on connections that are open already as well; a good token is no excuse.
#[test]
fn an_operation_needs_the_protection_that_the_store_asks_for() {
    let world = World::new();
    let block = world.block(true);
    let good = world.token(Operation::Checksum, block);
    let mut open = world.cluster.connect(0);
    assert_eq!(checksum(&mut open, block, &good).status, 0);
    let mut authenticated = protected(&world, &good, Qop::Auth).unwrap();
    assert_eq!(checksum(&mut authenticated, block, &good).status, 0, "who insists is served");
    let said = TokenRules { data_transfer_protection: vec!["privacy".into()], ..world.keys.said() };
    (0..2).for_each(|node| world.cluster.node(node).hear_token_rules(&said));
    for connection in [&mut open, &mut authenticated, &mut world.cluster.connect(0)] {
        let refused = checksum(connection, block, &good);
        assert_eq!(refused.status, i32::from(Status::ERROR.0));
        assert!(refused.message().contains("dfs.data.transfer.protection = privacy"), "{}", refused.message());
    }
    let mut private = protected(&world, &good, Qop::Privacy).unwrap();
    assert_eq!(checksum(&mut private, block, &good).status, 0);
    // The proof of one token admits nothing that another one is for.
    let other = token(&world.keys.ring, InodeId(16_401), &[Mode::Read], None);
    assert_eq!(checksum(&mut private, block, &other).status, REFUSED);
    for weaker in [Qop::Auth, Qop::Integrity] {
        assert!(protected(&world, &good, weaker).is_err());
    }
    let mut forged = good.password.to_vec();
    forged[31] ^= 1;
    let forged = TokenProto { password: forged.into(), ..good };
    let expired = token(&world.keys.expired, FILE, &[Mode::Read], None);
    let foreign = token(&world.keys.foreign, FILE, &[Mode::Read], None);
    for bad in [forged, expired, foreign] {
        assert!(protected(&world, &bad, Qop::Privacy).err().is_some_and(|error| error.is_of_secret()));
    }
}

/// A handshake for privacy by a key of an encrypting store.
fn encrypted(world: &World, ring: &KeyRing) -> Result<Channel, HandshakeError> {
    let (key, nonce) = (ring.current(), b"12345678");
    let user = encryption_key::user_name(key.id, POOL, nonce);
    let password = encryption_key::sign(key, nonce);
    let (mut machine, hello) =
        Client::new(user, password.bytes(), Protection::of(&[Qop::Privacy]), true, &[7; NONCE_LEN]).unwrap();
    let mut socket = std::net::TcpStream::connect(world.cluster.node(0).xfer_addr()).unwrap();
    socket.write_all(&hello).unwrap();
    let mut came = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let len = socket.read(&mut piece).unwrap();
        assert!(len > 0, "an answer comes first");
        came.extend_from_slice(&piece[..len]);
        let progress = machine.on_bytes(&came)?;
        came.drain(..progress.used_len);
        socket.write_all(&progress.send).unwrap();
        if let Some(channel) = progress.done {
            return Ok(channel);
        }
    }
}

/// The key of an encrypting store that was forgotten: the client asks for another.
#[test]
fn an_encryption_key_that_is_unknown_is_told_as_such() {
    let world = World::new();
    encrypted(&world, &world.keys.ring).unwrap();
    let refused = encrypted(&world, &world.keys.expired);
    assert!(matches!(refused, Err(HandshakeError::EncryptionKey { .. })), "{refused:?}");
}

/// How long the keys of AES are is the leader's word; one of the version before has none for it.
#[test]
fn keys_of_the_cipher_are_as_long_as_the_store_says() {
    let world = World::new();
    for (cipher_key_bits, name) in [(0, "AES-128"), (192, "AES-192"), (256, "AES-256")] {
        world.cluster.node(0).hear_token_rules(&TokenRules { cipher_key_bits, ..world.keys.said() });
        let (sending, _) = encrypted(&world, &world.keys.ring).unwrap().split();
        assert!(format!("{sending:?}").contains(name), "{sending:?}, not {name}");
    }
}
