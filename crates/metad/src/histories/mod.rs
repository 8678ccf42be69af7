//! Tests that histories of a real group are linearizable. Connections are cut while several clients change and read one
//! directory. There must be an order of their calls that explains all answers. In it no call precedes one that had been
//! answered when it began.
//!
//! A client whose server is a standby, or does not answer, asks the next server under the same call number. A call that
//! is never answered may have happened or not. The checker is that of Wing, Gong and Lowe. Reads from a server that
//! wrongly believes that it leads show that the checker finds faults. LEVADA_HISTORIES=200 checks more histories.

mod group;
mod names;

use crate::core::Core;
use crate::door::table;
use crate::leadership::Leadership;
use crate::visit::Visit;
use bytes::Bytes;
use group::{Cut, Group, Member};
use hdfs::exception::{ALREADY_BEING_CREATED, FILE_ALREADY_EXISTS, FILE_NOT_FOUND, STANDBY};
use hdfs::{Exception, proto};
use names::{Directory, Op, Ret};
use prost::Message;
use rpc::{Call, Service as _};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::Action;
use types::Random;
use types::random::Seeded;

const CLIENT_COUNT: u64 = 4;
/// Calls of each.
const OP_COUNT: usize = 20;
const ATTEMPT_WAIT: Duration = Duration::from_millis(700);
const ATTEMPT_COUNT_MAX: i32 = 20;

/// Where reads go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    Confirmed,
    /// The mutation: no majority is asked.
    Believed,
}

#[derive(Clone, Debug)]
enum Event {
    /// Each call has a number of its own.
    Begun(usize, Op),
    Ended(usize, Ret),
}

#[derive(Default)]
struct History(Mutex<Vec<Event>>);

impl History {
    fn note(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }

    fn answered_count(&self) -> usize {
        self.0.lock().unwrap().iter().filter(|event| matches!(event, Event::Ended(..))).count()
    }

    /// True if some order of the calls explains all answers.
    fn has_an_order(&self) -> bool {
        let events = self.0.lock().unwrap().clone();
        let ended: BTreeSet<usize> = events
            .iter()
            .filter_map(|event| if let Event::Ended(call, _) = event { Some(*call) } else { None })
            .collect();
        let (mut ops, mut actions) = (BTreeMap::new(), Vec::new());
        for event in events {
            match event {
                // A read that was never answered says nothing.
                Event::Begun(call, op) if op.is_read() && !ended.contains(&call) => {}
                Event::Begun(call, op) => {
                    ops.insert(call, op);
                    actions.push((call, Action::Call((op, None))));
                }
                Event::Ended(call, ret) => actions.push((call, Action::Response((ops[&call], Some(ret))))),
            }
        }
        // A change without an answer may still happen behind all that was seen, where nobody sees it.
        let open = ops.iter().filter(|(call, _)| !ended.contains(call));
        actions.extend(open.map(|(call, op)| (*call, Action::Response((*op, Some(Ret::Unknown))))));
        WGLChecker::<Directory>::is_linearizable(todc_utils::linearizability::history::History::from_actions(actions))
    }
}

/// One client: its calls, one after the other.
struct Client {
    group: Arc<Group>,
    history: Arc<History>,
    dir: String,
    id: [u8; 16],
    calls: i32,
    random: Seeded,
    reads: Reads,
}

impl Client {
    async fn run(mut self) {
        for number in 0..OP_COUNT {
            let op = self.choose();
            let call = usize::from(self.id[0]) * OP_COUNT + number;
            self.history.note(Event::Begun(call, op));
            if let Some(ret) = self.call(op).await {
                self.history.note(Event::Ended(call, ret));
            }
            let pause = self.random.below(120) as u64;
            io::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    fn choose(&mut self) -> Op {
        let mut name = || ['a', 'b', 'c'][self.random.below(3)];
        let (one, other) = (name(), name());
        match self.random.below(8) {
            0 | 1 => Op::Create(one),
            2 => Op::Delete(one),
            3 if one != other => Op::Rename(one, other),
            4 | 5 => Op::Exists(one),
            _ => Op::List,
        }
    }

    async fn call(&mut self, op: Op) -> Option<Ret> {
        self.calls += 1;
        let (method, body) = self.request(op);
        let first = self.random.below(self.group.members.len());
        for attempt in 0..ATTEMPT_COUNT_MAX {
            let number = (first + attempt as usize) % self.group.members.len();
            let call = Call {
                protocol: hdfs::protocol::CLIENT.into(),
                method: method.into(),
                version: hdfs::protocol::VERSION,
                body: body.clone(),
                user: rpc::Identity::simple(host::user::current(), None).into(),
                client_id: Bytes::copy_from_slice(&self.id),
                call_id: self.calls,
                retry_count: attempt,
                peer: ([127, 0, 0, 1], 1).into(),
                is_private: true,
                untaken: rpc::Untaken::default(),
            };
            let (group, believed) = (Arc::clone(&self.group), self.reads == Reads::Believed && op.is_read());
            // As in a server, it goes on when nobody waits for it any more.
            let asked = io::task::spawn("call", async move {
                let member = &group.members[number];
                if believed { believe(member, call).await } else { member.service.call(call).await }
            });
            match io::time::timeout(ATTEMPT_WAIT, asked).await {
                Ok(answer) => match meaning(op, answer.unwrap()) {
                    Some(ret) => return Some(ret),
                    None => io::time::sleep(Duration::from_millis(20)).await,
                },
                Err(_elapsed) => {}
            }
        }
        None
    }

    fn request(&self, op: Op) -> (&'static str, Bytes) {
        let path = |name: char| format!("{}/{name}", self.dir);
        match op {
            Op::Create(name) => {
                let request = proto::CreateRequestProto {
                    src: path(name),
                    masked: proto::FsPermissionProto { perm: 0o644 },
                    client_name: format!("client{}", self.id[0]),
                    create_flag: 1,
                    create_parent: false,
                    replication: 1,
                    block_size: 1 << 20,
                    ..Default::default()
                };
                ("create", request.encode_to_vec().into())
            }
            Op::Delete(name) => {
                let request = proto::DeleteRequestProto { src: path(name), recursive: true };
                ("delete", request.encode_to_vec().into())
            }
            Op::Rename(from, to) => {
                let request = proto::Rename2RequestProto {
                    src: path(from),
                    dst: path(to),
                    overwrite_dest: false,
                    move_to_trash: None,
                    replaces: None,
                };
                ("rename2", request.encode_to_vec().into())
            }
            Op::Exists(name) => {
                ("getFileInfo", proto::GetFileInfoRequestProto { src: path(name) }.encode_to_vec().into())
            }
            Op::List => {
                let request = proto::GetListingRequestProto { src: self.dir.clone(), ..Default::default() };
                ("getListing", request.encode_to_vec().into())
            }
        }
    }
}

/// As the door does it, but for asking whether the leadership is sure.
async fn believe(member: &Member, call: Call) -> Result<Bytes, Exception> {
    let core = member.leadership.core().ok_or_else(|| member.leadership.standby())?;
    carry_out(&member.leadership, core, call).await
}

async fn carry_out(leadership: &Arc<Leadership>, core: Arc<Core>, call: Call) -> Result<Bytes, Exception> {
    let (_, method, _) = table::find(&call.protocol, &call.method).unwrap();
    let session = leadership.session(&call).await?;
    let leadership = Arc::clone(leadership);
    let subject = std::sync::OnceLock::new();
    let visit =
        Visit { leadership, call, core: Some(core), session: Some(session), standby: None, report: None, subject };
    (method.handler)(&visit).await
}

/// `None`: ask elsewhere.
fn meaning(op: Op, answer: Result<Bytes, Exception>) -> Option<Ret> {
    match (op, answer) {
        (_, Err(error)) if error.class == STANDBY => None,
        (Op::Create(_), Err(error)) if [ALREADY_BEING_CREATED, FILE_ALREADY_EXISTS].contains(&error.class) => {
            Some(Ret::Taken)
        }
        (Op::Rename(..), Err(error)) if error.class == FILE_ALREADY_EXISTS => Some(Ret::Taken),
        (Op::Rename(..), Err(error)) if error.class == FILE_NOT_FOUND => Some(Ret::Missing),
        (_, Err(error)) => panic!("{op:?}: {error:?}"),
        (Op::Create(_) | Op::Rename(..), Ok(_)) => Some(Ret::Done),
        (Op::Delete(_), Ok(bytes)) => {
            let done = proto::DeleteResponseProto::decode(bytes).unwrap().result;
            Some(if done { Ret::Done } else { Ret::Missing })
        }
        (Op::Exists(_), Ok(bytes)) => {
            Some(Ret::Found(proto::GetFileInfoResponseProto::decode(bytes).unwrap().fs.is_some()))
        }
        (Op::List, Ok(bytes)) => {
            let list = proto::GetListingResponseProto::decode(bytes).unwrap().dir_list.unwrap();
            let names = list.partial_listing.iter().map(|entry| char::from(entry.path[0]));
            Some(Ret::Names(names.collect()))
        }
    }
}

/// One history: clients at work while the leader is cut off, some way, for a while.
async fn history(group: &Arc<Group>, seed: u64, reads: Reads) -> Arc<History> {
    let mut random = Seeded(seed);
    let (history, dir) = (Arc::new(History::default()), format!("/history{seed}"));
    let leader = group.leader().await;
    make(group, leader, &dir).await;
    let clients: Vec<_> = (1..=CLIENT_COUNT)
        .map(|number| {
            let mut id = seed.to_be_bytes().repeat(2);
            id[0] = number as u8;
            let client = Client {
                group: Arc::clone(group),
                history: Arc::clone(&history),
                dir: dir.clone(),
                id: id.try_into().unwrap(),
                calls: 0,
                random: Seeded(random.next_u64()),
                reads,
            };
            io::task::spawn("client", client.run())
        })
        .collect();
    for how in [Cut::Both, Cut::Out, Cut::In] {
        if random.below(2) == 0 {
            continue;
        }
        io::time::sleep(Duration::from_millis(random.below(200) as u64)).await;
        // Whoever leads by then, or takes itself for it.
        let mut leaders = (0..group.members.len()).filter(|number| group.members[*number].leadership.core().is_some());
        group.cut(leaders.next_back().unwrap_or(0), how);
        io::time::sleep(Duration::from_millis(500 + random.below(1_000) as u64)).await;
        group.mend();
    }
    for client in clients {
        client.await.unwrap();
    }
    history
}

async fn make(group: &Arc<Group>, leader: usize, dir: &str) {
    let leadership = &group.members[leader].leadership;
    let core = leadership.leading().await.unwrap();
    let masked = proto::FsPermissionProto { perm: 0o755 };
    let request = proto::MkdirsRequestProto { src: dir.into(), masked, create_parent: true, unmasked: None };
    let call = Call {
        protocol: hdfs::protocol::CLIENT.into(),
        method: "mkdirs".into(),
        version: hdfs::protocol::VERSION,
        body: request.encode_to_vec().into(),
        user: rpc::Identity::simple(host::user::current(), None).into(),
        client_id: Bytes::new(),
        call_id: 0,
        retry_count: 0,
        peer: ([127, 0, 0, 1], 1).into(),
        is_private: true,
        untaken: rpc::Untaken::default(),
    };
    carry_out(leadership, core, call).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_see_has_an_order() {
    let count = std::env::var("LEVADA_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(8);
    let group = Arc::new(Group::of(3).await);
    let mut answered = 0;
    for seed in 0..count {
        let history = history(&group, seed, Reads::Confirmed).await;
        assert!(history.has_an_order(), "history {seed} has no order: {:#?}", history.0.lock().unwrap());
        answered += history.answered_count();
    }
    // Otherwise nothing was shown.
    assert!(answered as u64 > count * CLIENT_COUNT * OP_COUNT as u64 / 2, "{answered} calls were answered");
}

/// A leader that nobody confirms answers from the past, and the check says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_nobody_confirms_are_found_out() {
    let group = Arc::new(Group::of(3).await);
    for seed in 1_000..1_060 {
        if !history(&group, seed, Reads::Believed).await.has_an_order() {
            println!("found out in history {}", seed - 999);
            return;
        }
    }
    panic!("sixty histories with reads that were not confirmed, and all have an order");
}
