//! The bytes of every message between our nodes: nodes of two versions talk to each other during an upgrade.
//!
//! Each example names all its fields, so a field that is added needs a value here; and each message of their .proto
//! texts needs an example.

use crate::node::*;
use crate::raft::{MemberMessage, RAFT_PROTOCOL, RAFT_VERSION, TELL};
use crate::tree::*;
use prost::Message;
use std::collections::BTreeSet;
use std::fmt::Debug;
use testkit::golden::{Golden, variant};
use types::{Fitness, ReplicaState};

#[derive(Default)]
struct Examples {
    golden: Golden,
    names: BTreeSet<String>,
}

impl Examples {
    fn add<M: Message + Debug + Default + PartialEq>(&mut self, message: &M) {
        let bytes = message.encode_to_vec();
        assert_eq!(M::decode(&bytes[..]).as_ref(), Ok(message));
        let name = variant(message);
        self.golden.add(&name, &bytes);
        self.names.insert(name);
    }
}

/// The messages that a .proto text declares.
fn declared(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| line.strip_prefix("message ")?.split(' ').next().map(str::to_owned))
}

/// The text names the numbers of two enums whose Rust is written by hand.
#[test]
fn numbers_of_types_are_those_of_the_text() {
    let text = include_str!("../proto/node.proto");
    let holds = |prefix: &str, value: &dyn Debug, number: i32| {
        let letters = format!("{value:?}").replace("For", "_FOR_").replace("Recovery", "RECOVERY");
        let line = format!("  {prefix}_{} = {number};", letters.to_uppercase());
        assert!(text.lines().any(|other| other == line), "{line}");
    };
    for state in (0..).map_while(|number| ReplicaState::try_from(number).ok()) {
        holds("REPLICA_STATE", &state, state.into());
    }
    for fitness in (0..).map_while(|number| Fitness::try_from(number).ok()) {
        holds("FITNESS", &fitness, fitness.into());
    }
}

fn replica(state: ReplicaState) -> Replica {
    Replica { block: 7 << 20 | 3, generation: 1_001, len: 600_000, file: 16_388, home: 7, state: state as i32 }
}

fn usage() -> Usage {
    Usage { capacity_len: 1 << 40, used_len: 1 << 30, free_len: 1 << 39 }
}

fn incarnation() -> Incarnation {
    Incarnation { start_ms: 1_700_000_000_000, nonce: 0x1dea }
}

fn sender() -> Sender {
    Sender { incarnation: Some(incarnation()), addr: "10.0.0.7:9866".into() }
}

fn node() -> String {
    "01010101-0101-0101-0101-010101010101".into()
}

fn volume() -> String {
    "02020202-0202-0202-0202-020202020202".into()
}

fn disk() -> Disk {
    Disk {
        volume: volume(),
        dir: "/data/1".into(),
        failure: "EIO".into(),
        capacity_len: 1 << 40,
        used_len: 1 << 30,
        free_len: 1 << 39,
        replica_count: 900,
        stream_count: 4,
        unread_ms: Some(86_400_000),
    }
}

fn scrub_report() -> ScrubReport {
    ScrubReport {
        number: 4,
        checked_count: 10,
        checked_len: 1_000,
        total_count: 20,
        total_len: 2_000,
        bad_count: 1,
        ended: true,
    }
}

fn disk_balance_report() -> DiskBalanceReport {
    DiskBalanceReport {
        number: 5,
        done_count: 10,
        done_len: 1_000,
        total_len: 2_000,
        failed_count: 1,
        ended: true,
        note: "stopped".into(),
    }
}

fn copy_failure() -> CopyFailure {
    let reason = "timed out".to_owned();
    CopyFailure { block: 7 << 20 | 4, generation: 1_002, source: node(), corrupt: true, reason, number: 6 }
}

fn source() -> Source {
    Source { node: node(), addr: "10.0.0.7:9866".into() }
}

fn copy() -> CopyOrder {
    let (block, generation, sources) = (7 << 20 | 4, 1_002, vec![source()]);
    CopyOrder { block, generation, len: 600_000, file: 16_388, home: 7, sources, replaces: true, token: Some(token()) }
}

fn token() -> BlockToken {
    BlockToken { identifier: vec![8, 1].into(), password: vec![2; 32].into() }
}

fn token_key() -> TokenKey {
    TokenKey { id: 3, expires_ms: 1_700_000_000_000, secret: vec![4; 32].into() }
}

fn token_rules() -> TokenRules {
    TokenRules {
        required: true,
        revision: 5,
        keys: vec![token_key()],
        data_transfer_protection: vec!["privacy".into()],
        cipher_key_bits: 256,
    }
}

const DELETION: Deletion = Deletion { block: 7 << 20 | 5, generation_at_most: 1_003 };
const OWNER: Owner = Owner { block: 7 << 20 | 6, file: 16_389, home: 7 };
const SCRUB_ORDER: ScrubOrder = ScrubOrder { number: 4, len_per_s: 1 << 20, stop: true };
const DISK_BALANCE_ORDER: DiskBalanceOrder =
    DiskBalanceOrder { number: 5, len_per_s: 1 << 20, stop: true, within: 50_000_000 };
const DIGEST: Digest = Digest { count: 2, sum: 1 << 63 };
const SUM: TreeSum = TreeSum { count: 2, high: 1 << 63, low: 5 };
const LEAF: Leaf = Leaf { block: 7 << 20 | 3, generation: 1_001, len: 600_000, content: 1 << 63 };

fn member() -> Member {
    Member { id: 2, addr: "10.0.0.2:8020".into() }
}

fn outside() -> Outside {
    Outside { host: "gate.example.com".into(), xfer_port: 19866, ipc_port: 19867, info_port: 19864 }
}

fn registration(examples: &mut Examples) {
    examples.add(&RegisterRequest {
        node: node(),
        ip: "10.0.0.7".into(),
        host: "node7".into(),
        xfer_port: 9866,
        ipc_port: 9867,
        info_port: 9864,
        storage: volume(),
        rack: "/rack-1".into(),
        usage: Some(usage()),
        version: "0.1.0".into(),
        pool: "BP-1-10.0.0.1-1".into(),
        incarnation: Some(incarnation()),
        advertised: true,
        outside: Some(outside()),
    });
    examples.add(&outside());
    let block_pool = "BP-1-10.0.0.1-1".into();
    examples.add(&RegisterResponse { block_pool, standby: true, term: 3, new: true, tokens: Some(token_rules()) });
    examples.add(&token_rules());
    examples.add(&token_key());
    examples.add(&token());
    examples.add(&incarnation());
    examples.add(&sender());
    examples.add(&usage());
}

fn heartbeat(examples: &mut Examples) {
    examples.add(&HeartbeatRequest {
        node: node(),
        usage: Some(usage()),
        transfer_count: 2,
        put: vec![replica(ReplicaState::Finalized)],
        deleted: vec![9, 10],
        stale: vec![replica(ReplicaState::Open)],
        copying: vec![11, 12],
        copy_failures: vec![copy_failure()],
        bad: vec![replica(ReplicaState::Finalized)],
        deletions_waiting: 3,
        scrub: Some(scrub_report()),
        disks: vec![disk()],
        disk_balance: Some(disk_balance_report()),
        sender: Some(sender()),
        token_revision: 5,
        leaving_ms: 630_000,
        clock_ms: 1_700_000_000_000,
    });
    examples.add(&NodeLogLevelRequest { level: "debug".into() });
    examples.add(&NodeLogLevelResponse {});
    examples.add(&replica(ReplicaState::WaitingForRecovery));
    examples.add(&disk());
    examples.add(&scrub_report());
    examples.add(&disk_balance_report());
    examples.add(&copy_failure());
    examples.add(&CatalogueRequest {
        node: node(),
        from: 1,
        through: u64::MAX,
        replicas: vec![replica(ReplicaState::Finalized), replica(ReplicaState::WaitingForRecovery)],
        writing: vec![13, 14],
        sender: Some(sender()),
    });
}

fn orders(examples: &mut Examples) {
    examples.add(&Orders {
        known: true,
        delete: vec![DELETION],
        owners: vec![OWNER],
        copy: vec![copy()],
        scrub: Some(SCRUB_ORDER),
        tell_all: true,
        disk_balance: Some(DISK_BALANCE_ORDER),
        standby: true,
        term: 3,
        id: 1,
        members: vec![member()],
        tokens: Some(token_rules()),
    });
    examples.add(&DELETION);
    examples.add(&OWNER);
    examples.add(&copy());
    examples.add(&source());
    examples.add(&SCRUB_ORDER);
    examples.add(&DISK_BALANCE_ORDER);
    examples.add(&member());
}

fn recovery(examples: &mut Examples) {
    examples.add(&BeginRecoveryRequest { block: 7 << 20 | 3, generation: 1_004, token: Some(token()) });
    examples.add(&BeginRecoveryResponse { replica: Some(replica(ReplicaState::Open)) });
    let (block, generation, token) = (7 << 20 | 3, 1_004, Some(token()));
    examples.add(&FinishRecoveryRequest { block, generation, len: 300, token });
    examples.add(&FinishRecoveryResponse {});
}

fn sources(examples: &mut Examples) {
    let (node, sender, blocks) = ("n".to_owned(), Some(sender()), vec![7 << 20 | 3, 9]);
    examples.add(&SourcesRequest { node, sender, blocks });
    let source = Source { node: "n".into(), addr: "10.0.0.1:9866".into() };
    let of_block = BlockSources { block: 7 << 20 | 3, sources: vec![source] };
    examples.add(&of_block);
    examples.add(&SourcesResponse { known: true, blocks: vec![of_block] });
}

fn comparison(examples: &mut Examples) {
    let fitness = [Fitness::Fit, Fitness::Absent, Fitness::Unfit, Fitness::Busy, Fitness::Readable].map(i32::from);
    let replicas = vec![replica(ReplicaState::Finalized)];
    examples.add(&CompareRequest { home: 7, from: 1, through: 1 << 40, digest: Some(DIGEST), replicas });
    examples.add(&CompareResponse { same: true, fitness: fitness.to_vec() });
    examples.add(&DIGEST);
    examples.add(&VerifyRequest { block: 7 << 20 | 3, generation: 1_001 });
    examples.add(&VerifyResponse { fitness: Fitness::Unfit.into() });
}

fn tree(examples: &mut Examples) {
    let node = TreeNode { depth: 2, path: 0xff01 };
    examples.add(&TreeRequest { home: 7, nodes: vec![node], leaves: true, anew: vec![7 << 20 | 3] });
    examples.add(&node);
    let (root, branches, leaves) = (Some(SUM), vec![SUM, SUM], vec![LEAF]);
    examples.add(&TreeResponse { building: true, root, branches, leaves });
    examples.add(&SUM);
    examples.add(&LEAF);
}

#[test]
fn messages_between_nodes() {
    let mut examples = Examples::default();
    let protocols = [(NODE_PROTOCOL, PROTOCOL_VERSION), (REPLICA_PROTOCOL, PROTOCOL_VERSION)];
    for (protocol, version) in protocols.into_iter().chain([(RAFT_PROTOCOL, RAFT_VERSION)]) {
        examples.golden.add(protocol, &version.to_be_bytes());
    }
    let methods = [
        REGISTER,
        HEARTBEAT,
        CATALOGUE,
        SOURCES,
        BEGIN_RECOVERY,
        FINISH_RECOVERY,
        COMPARE,
        VERIFY,
        TREE,
        SET_LOG_LEVEL,
    ];
    for method in methods.into_iter().chain([TELL, CANNOT_SAY, NODE_IN_USE, NODE_SUPERSEDED, NODE_REVOKED]) {
        examples.golden.add(method, &[]);
    }
    for group in [registration, heartbeat, orders, recovery, sources, comparison, tree] {
        group(&mut examples);
    }
    examples.add(&MemberMessage { bytes: bytes::Bytes::from_static(&[1, 2, 3]) });
    let sources =
        [include_str!("../proto/node.proto"), include_str!("../proto/tree.proto"), include_str!("../proto/raft.proto")];
    let all: BTreeSet<String> = sources.into_iter().flat_map(declared).collect();
    assert_eq!(examples.names, all, "each message has its example");
    examples.golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden.txt"));
}
