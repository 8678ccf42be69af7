//! Entries whose application panics.
//!
//! Promise: one entry cannot stop a store. Every member would panic on it, and again at each start, as the log still
//! has it. So the entry counts as applied, the rows it staged are dropped, and the caller gets an error. All members
//! apply the same bytes and drop the same. A member that panics alone has other rows from then on, which Raft's
//! comparison of digests finds. The guard covers the function of rows and command, and the leader's handling of the
//! entry ([`follower_failed`]). A panic while a change is committed stops the member.

use crate::command::{Command, Reply};
use blocks::BlocksError;
use namespace::NsError;
use security::joining::JoinError;
use security::rings::RingError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Panic = Box<dyn Any + Send>;

/// Since this process started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) count: u64,
    /// The index of the last one in the log.
    pub(crate) last_entry: Option<u64>,
    pub(crate) last_operation: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Counted>);

/// The caller drops what `apply` wrote if it panics: nothing else is behind it.
pub(crate) fn guard<T>(apply: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(apply))
}

/// The leader panicked over an entry, or over what followed from it. Over an entry of the block side, or while it held
/// its lock, it begins anew with the rows. Otherwise what is to be deleted stands in the rows, and is looked for there;
/// what is to be compared is found when all containers are, one after the other.
pub(crate) fn follower_failed(entry: Option<u64>, command: &Command, panic: &Panic) {
    let (operation, reason) = (name(command), io::task::panic_text(&**panic));
    tracing::error!(entry, operation, reason, "leader panicked over an applied entry. Report it");
}

impl Faults {
    /// Counts an entry that panicked, and answers its caller by a refusal, as nothing was changed.
    pub(crate) fn answer(&self, entry: Option<u64>, command: &Command, panic: &Panic) -> Reply {
        let operation = name(command);
        let reason = io::task::panic_text(&**panic);
        tracing::error!(entry, operation, reason, "entry skipped: applying it panicked. Report it");
        let mut counted = self.lock();
        counted.count += 1;
        (counted.last_entry, counted.last_operation) = (entry, Some(operation.clone()));
        match command {
            Command::Namespace(_) => Reply::Namespace(Err(NsError::Panicked { operation })),
            Command::Blocks(_) => Reply::Blocks(Err(BlocksError::Fault { operation })),
            Command::Rings(_) => Reply::Rings(Err(RingError::Fault { operation })),
            Command::Joining(_) => Reply::Joining(Err(JoinError::Fault { operation })),
            Command::Found(_) | Command::Raise { .. } => Reply::Failed,
        }
    }

    pub(crate) fn counted(&self) -> Counted {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What kind of change it is.
fn name(command: &Command) -> String {
    match command {
        Command::Namespace(request) => request.op.name().to_owned(),
        Command::Blocks(command) => variant(command),
        Command::Rings(command) => format!("{}Ring", variant(command)),
        Command::Joining(command) => format!("{}Joining", variant(command)),
        Command::Found(_) => "found".to_owned(),
        Command::Raise { .. } => "raise".to_owned(),
    }
}

fn variant(command: &impl std::fmt::Debug) -> String {
    let text = format!("{command:?}");
    text.split(|character: char| !character.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Applied, Follower, Machine, apply};
    use lead::Cluster;
    use namespace::{Effects, Op};
    use raft::{
        Answer, Export, GroupOptions, Import, Lane, Machine as _, MachineError, Options, Peer, Raft, Timing, Transport,
    };
    use std::collections::HashMap;
    use std::io::{Error, ErrorKind};
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use types::rows::{RowsError, RowsMut};
    use types::{FsPath, Millis, NodeId, RowsDigest};

    const POISON: &str = "poison";

    /// Panics after the rows of a change were staged, if its name asks for it.
    fn apply_poisoned(rows: &mut dyn RowsMut, command: &Command) -> Result<Applied, RowsError> {
        let applied = apply(rows, command)?;
        let poisons = match command {
            Command::Namespace(request) => {
                matches!(&request.op, Op::Mkdirs(mkdirs) if mkdirs.path.to_string().contains(POISON))
            }
            Command::Blocks(blocks::Command::Register(node)) => node.host == POISON,
            _ => false,
        };
        assert!(!poisons, "a thought of ours was wrong");
        Ok(applied)
    }

    /// Follows the block side alone.
    #[derive(Debug)]
    struct Leader(Mutex<Cluster>);

    impl Follower for Leader {
        fn on_blocks(&self, command: &blocks::Command, answer: &Result<blocks::Reply, BlocksError>) {
            self.0.lock().unwrap().on_applied(command, answer);
        }

        fn on_rings(&self, _command: &security::rings::Command, _answer: &Result<(), RingError>) {}

        fn on_blocks_lost(&self) {}

        fn on_effects(&self, _effects: &Effects) {}

        fn on_effects_lost(&self) {}
    }

    /// A machine some of whose entries panic.
    struct Poisoned(Machine);

    impl Poisoned {
        async fn open(dir: &Path) -> Arc<Self> {
            std::fs::create_dir_all(dir).unwrap();
            // A moment ago another one had the directory.
            for _ in 0..500 {
                if let Ok(store) = kv::Store::open(&dir.join("store"), kv::Options::default()) {
                    return Arc::new(Self(Machine::open(store, dir.join("incoming")).unwrap()));
                }
                io::time::sleep(Duration::from_millis(10)).await;
            }
            panic!("the store is in use");
        }
    }

    impl raft::Machine for Poisoned {
        type Command = Command;
        type Reply = Reply;

        fn position(&self) -> Option<Vec<u8>> {
            self.0.position()
        }

        fn apply(&self, position: &[u8], command: Option<Command>) -> Result<Reply, MachineError> {
            Ok(self.0.run(position, command.as_ref(), apply_poisoned)?)
        }

        fn digest(&self) -> Option<RowsDigest> {
            self.0.digest()
        }

        fn flush(&self) -> Result<(), MachineError> {
            self.0.flush()
        }

        fn export(&self) -> Result<Box<dyn Export>, MachineError> {
            self.0.export()
        }

        fn import(&self) -> Result<Box<dyn Import>, MachineError> {
            self.0.import()
        }
    }

    fn request(op: impl Into<Op>) -> Command {
        let caller = namespace::Caller::system();
        Command::Namespace(namespace::Request { now: Millis(7), caller, retry: None, op: op.into() })
    }

    fn format() -> Command {
        request(namespace::Format { owner: "root".into(), group: "supergroup".into() })
    }

    fn mkdirs(path: &str) -> Command {
        let path = FsPath::parse(path).unwrap();
        request(namespace::Mkdirs { path, mode: 0o755, unmasked: None, create_parent: true })
    }

    fn register(number: u8, host: &str) -> Command {
        let host = host.to_owned();
        Command::Blocks(blocks::Command::Register(blocks::Node { host, ..blocks::Node::example(number, "/r") }))
    }

    /// Cannot bear entries, nor effects.
    #[derive(Debug, Default)]
    struct Weakling {
        lost: AtomicUsize,
        blocks_lost: AtomicUsize,
    }

    impl Follower for Weakling {
        fn on_blocks(&self, _command: &blocks::Command, _answer: &Result<blocks::Reply, BlocksError>) {
            panic!("a thought of ours was wrong");
        }

        fn on_rings(&self, _command: &security::rings::Command, _answer: &Result<(), RingError>) {}

        fn on_blocks_lost(&self) {
            self.blocks_lost.fetch_add(1, Ordering::Relaxed);
        }

        fn on_effects(&self, _effects: &Effects) {
            panic!("a thought of ours was wrong");
        }

        fn on_effects_lost(&self) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The change is there, its caller has an answer, and the next one is applied.
    #[tokio::test]
    async fn a_leader_that_panics_over_an_entry_changes_no_reply() {
        let dir = tempfile::tempdir().unwrap();
        let one = Poisoned::open(dir.path()).await;
        let leader = one.0.follow(|| Ok(Weakling::default())).unwrap();
        let leave = |on| {
            let request = namespace::Request {
                now: Millis(1),
                caller: namespace::Caller::system(),
                retry: None,
                op: namespace::SetSafeMode { on }.into(),
            };
            one.0.run(b"p", Some(&Command::Namespace(request)), apply).unwrap()
        };
        one.0.run(b"p", Some(&format()), apply).unwrap();
        for on in [true, false, true] {
            assert!(matches!(leave(on), Reply::Namespace(Ok(namespace::Reply::Bool(is_on))) if is_on == on));
        }
        assert_eq!(leader.lost.load(Ordering::Relaxed), 1, "to end safe mode has effects");
        let reply = one.0.run(b"p", Some(&register(2, "sound")), apply).unwrap();
        assert!(matches!(reply, Reply::Blocks(Ok(_))), "{reply:?}");
        assert_eq!(leader.blocks_lost.load(Ordering::Relaxed), 1);
        assert_eq!(one.0.faults.counted(), Counted::default());
    }

    /// Nothing of an entry that panics is left: not in the rows, not in the digest, not in the picture of the block
    /// side.
    #[tokio::test]
    async fn an_entry_that_panics_changes_nothing() {
        let dirs: [_; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let (one, other) = (Poisoned::open(dirs[0].path()).await, Poisoned::open(dirs[1].path()).await);
        let leader = one.0.follow(|| Ok(Leader(Mutex::new(Cluster::load(&one.0.store().view(), 1)?)))).unwrap();
        let run = |machine: &Poisoned, commands: &[Command]| -> Vec<Reply> {
            commands.iter().map(|command| machine.0.run(b"p", Some(command), apply_poisoned).unwrap()).collect()
        };
        let replies =
            run(&one, &[format(), mkdirs("/poison/below"), register(1, POISON), register(2, "sound"), mkdirs("/a")]);
        assert!(matches!(&replies[1], Reply::Namespace(Err(NsError::Panicked { operation })) if operation == "mkdirs"));
        assert!(matches!(&replies[2], Reply::Blocks(Err(BlocksError::Fault { operation })) if operation == "Register"));
        assert!(matches!(&replies[3..], [Reply::Blocks(Ok(_)), Reply::Namespace(Ok(_))]));
        let nodes: Vec<NodeId> = leader.0.lock().unwrap().nodes().map(|member| member.node.id).collect();
        assert_eq!(nodes, [NodeId([2; 16])]);
        assert_eq!(
            (one.0.faults.counted().count, one.0.faults.counted().last_operation.as_deref()),
            (2, Some("Register"))
        );

        // To the rows such an entry is one that changes nothing.
        run(&other, &[format()]);
        for _ in 0..2 {
            other.0.run(b"p", None, apply_poisoned).unwrap();
        }
        run(&other, &[register(2, "sound"), mkdirs("/a")]);
        assert_eq!(one.digest(), other.digest());
        // One that panics alone is told apart.
        run(&one, &[mkdirs("/poison/again")]);
        other.0.run(b"p", Some(&mkdirs("/poison/again")), apply).unwrap();
        assert_ne!(one.digest(), other.digest());
    }

    #[derive(Default)]
    struct Wires(Mutex<HashMap<u64, Raft<Poisoned>>>);

    impl Transport for Wires {
        fn send<'a>(&'a self, to: &'a Peer, _lane: Lane, message: Vec<u8>, wait_max: Duration) -> Answer<'a> {
            Box::pin(async move {
                let there = self.0.lock().unwrap().get(&to.id).cloned();
                let there = there.ok_or_else(|| Error::from(ErrorKind::HostUnreachable))?;
                let answer = io::time::timeout(wait_max, there.handle(&message, None)).await;
                answer.map_err(|_| Error::from(ErrorKind::TimedOut))
            })
        }
    }

    /// So many members, in directories below `dir`.
    struct Members {
        machines: Vec<Arc<Poisoned>>,
        wires: Arc<Wires>,
    }

    impl Members {
        async fn start(dir: &Path, count: u64) -> Self {
            let wires = Arc::new(Wires::default());
            let founders: Vec<Peer> = (1..=count).map(|id| Peer { id, addr: format!("member{id}:1") }).collect();
            let mut machines = Vec::new();
            for id in 1..=count {
                let home = dir.join(id.to_string());
                let machine = Poisoned::open(&home).await;
                let timing = Timing { heartbeat_ms: 60, election_min_ms: 300, election_max_ms: 600 };
                let group = (count > 1).then(|| GroupOptions {
                    transport: Arc::clone(&wires) as _,
                    founders: founders.clone(),
                    timing,
                    retain_len: GroupOptions::RETAIN_LEN_DEFAULT,
                });
                let options = Options { dir: home.join("log"), node_id: id, group };
                let raft = Raft::start(options, Arc::clone(&machine)).await.unwrap();
                wires.0.lock().unwrap().insert(id, raft);
                machines.push(machine);
            }
            Self { machines, wires }
        }

        async fn propose(&self, command: Command) -> Reply {
            for _ in 0..1_000 {
                let members: Vec<_> = self.wires.0.lock().unwrap().values().cloned().collect();
                for raft in members {
                    if raft.is_leader()
                        && let Ok(reply) = raft.propose(command.clone()).await
                    {
                        return reply;
                    }
                }
                io::time::sleep(Duration::from_millis(20)).await;
            }
            panic!("nobody leads");
        }

        /// Waits until all have the rows of whoever has applied most.
        async fn agree(&self) {
            for _ in 0..1_000 {
                let digests: Vec<_> = self.machines.iter().map(|machine| machine.digest()).collect();
                let positions: Vec<_> = self.machines.iter().map(|machine| machine.position()).collect();
                let at: Vec<_> =
                    positions.iter().map(|position| raft::entry_index(position.as_ref().unwrap())).collect();
                if at.iter().all(|index| *index == at[0]) {
                    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
                    return;
                }
                io::time::sleep(Duration::from_millis(20)).await;
            }
            panic!("some member lags");
        }

        fn has(&self, path: &str) -> Vec<bool> {
            let path = FsPath::parse(path).unwrap();
            let caller = namespace::Caller::system();
            let look = |machine: &Arc<Poisoned>| {
                namespace::read::status(&machine.0.store().view(), &caller, &path).unwrap().unwrap().is_some()
            };
            self.machines.iter().map(look).collect()
        }

        /// As a process that is killed: what was not flushed is applied again.
        fn kill(self) {
            self.wires.0.lock().unwrap().clear();
        }
    }

    #[tokio::test]
    async fn a_store_goes_on_after_an_entry_that_panics() {
        for count in [1, 3] {
            let dir = tempfile::tempdir().unwrap();
            let members = Members::start(dir.path(), count).await;
            members.propose(format()).await;
            assert!(matches!(
                members.propose(mkdirs("/poison")).await,
                Reply::Namespace(Err(NsError::Panicked { .. }))
            ));
            assert!(matches!(members.propose(register(1, POISON)).await, Reply::Blocks(Err(_))));
            assert!(matches!(members.propose(mkdirs("/a")).await, Reply::Namespace(Ok(_))));
            members.agree().await;
            members.kill();

            let members = Members::start(dir.path(), count).await;
            assert!(matches!(members.propose(mkdirs("/b")).await, Reply::Namespace(Ok(_))));
            members.agree().await;
            assert_eq!(
                (members.has("/a"), members.has("/b")),
                (vec![true; count as usize], vec![true; count as usize])
            );
            assert_eq!(members.has("/poison"), vec![false; count as usize]);
            // The entries were applied again, and dropped again, unless all was flushed before.
            let failed = members.machines.iter().map(|machine| machine.0.faults.counted().count);
            assert!(failed.into_iter().all(|count| count == 2 || count == 0));
        }
    }
}
