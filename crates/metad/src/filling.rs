//! Fills the directory of a new metadata server with files, as clients would have over years: by the same entries of
//! the log, without a client, a datanode, or a byte of a block. For measurements of a server that has many files.

use crate::command::{Command, Reply};
use crate::config::Config;
use crate::core::Core;
use crate::environment::Environment;
use crate::server::Server;
use crate::start_error::StartError;
use blocks::{Incarnation, Node};
use io::SystemClock;
use namespace::{Create, PutBlock, PutFile, Request, Reserve};
use std::sync::Arc;
use tokio::task::JoinSet;
use types::{BlockId, ContainerId, FsPath, Generation, InodeId, Millis, NodeId, PipelineId};

/// Files in one directory.
const PER_DIRECTORY: u64 = 1000;
/// Ids that are taken together.
const RESERVED_COUNT: u64 = 1000;
/// Entries that are proposed together: they share the syncs of the log.
const BATCH_COUNT: usize = 4000;
/// Of each file's block: 640 fill a container.
const BLOCK_LEN: u64 = 8 << 20;
const REPLICATION: u16 = 3;

/// Why a directory was not filled.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{0}")]
    Refused(String),
}

/// Where file `number` lies.
pub fn path(number: u64) -> String {
    let directory = number / PER_DIRECTORY;
    format!("/many/{:04}/{:03}/file-{number:09}", directory / PER_DIRECTORY, directory % PER_DIRECTORY)
}

/// Puts `count` files of one block each into the new directory of `config`. `tell` hears how
/// many are there.
pub async fn fill(config: Config, count: u64, tell: impl FnMut(u64)) -> Result<(), FillError> {
    let container_len = config.container_len;
    let environment = Environment::of_machine(&config, Arc::new(SystemClock::new())).await?;
    let server = Server::start(config, environment).await?;
    let core = server.leadership.core().ok_or_else(|| FillError::Refused("this server does not lead".into()))?;
    let filler = Filler { pipeline: pipeline(&core).await?, core };
    let filled = filler.files(count, (container_len / BLOCK_LEN).max(1), tell).await;
    drop(filler);
    server.shutdown().await;
    filled
}

struct Filler {
    core: Arc<Core>,
    pipeline: PipelineId,
}

impl Filler {
    async fn files(&self, count: u64, per_container: u64, mut tell: impl FnMut(u64)) -> Result<(), FillError> {
        let (mut container, mut ids) = (ContainerId(0), None);
        let mut batch = Vec::with_capacity(BATCH_COUNT);
        for number in 0..count {
            let index = number % per_container;
            if index == 0 {
                self.put(&mut batch).await?;
                if number > 0 {
                    self.close(container, per_container).await?;
                }
                container = self.open(per_container).await?;
            }
            if number % RESERVED_COUNT == 0 {
                ids = Some(self.reserve().await?);
                tell(number);
            }
            let (first, generation) = ids.expect("the first number takes some");
            let put = PutBlock {
                file: InodeId(first.0 + number % RESERVED_COUNT),
                block: BlockId::new(container, index as u32),
                generation,
                len: BLOCK_LEN,
                home: container,
            };
            batch.push(PutFile { create: create(number)?, block: Some(put) });
            if batch.len() == BATCH_COUNT {
                self.put(&mut batch).await?;
            }
        }
        self.put(&mut batch).await?;
        tell(count);
        Ok(())
    }

    async fn put(&self, batch: &mut Vec<PutFile>) -> Result<(), FillError> {
        let mut puts = JoinSet::new();
        for put in batch.drain(..) {
            let core = Arc::clone(&self.core);
            puts.spawn(async move { change(&core, put).await });
        }
        while let Some(done) = puts.join_next().await {
            done.map_err(|error| FillError::Refused(error.to_string()))??;
        }
        Ok(())
    }

    async fn open(&self, index_count: u64) -> Result<ContainerId, FillError> {
        let opened = decide(&self.core, blocks::Command::OpenContainer { pipeline: self.pipeline }).await?;
        let blocks::Reply::Container(container) = opened else { return Err(unexpected(&opened)) };
        let (from, up_to, len) = (0, index_count as u32, 0);
        decide(&self.core, blocks::Command::LeaseIndexes { container, from, up_to, lessee: 1, len }).await?;
        Ok(container)
    }

    async fn close(&self, container: ContainerId, block_count: u64) -> Result<(), FillError> {
        decide(&self.core, blocks::Command::Seal { container, len: block_count * BLOCK_LEN }).await?;
        decide(&self.core, blocks::Command::FinishSeal { container }).await.map(drop)
    }

    async fn reserve(&self) -> Result<(InodeId, Generation), FillError> {
        match change(&self.core, Reserve { count: RESERVED_COUNT as u32 }).await? {
            namespace::Reply::Reserved { first, generation } => Ok((first, generation)),
            reply => Err(unexpected(&reply)),
        }
    }
}

fn create(number: u64) -> Result<Create, FillError> {
    Ok(Create {
        path: FsPath::parse(&path(number)).map_err(|error| FillError::Refused(error.to_string()))?,
        client: "fill".into(),
        client_host: "localhost".into(),
        mode: 0o644,
        unmasked: None,
        create: true,
        overwrite: false,
        create_parent: true,
        replication: REPLICATION,
        block_len: BLOCK_LEN,
        block_len_min: 0,
        takeover: None,
    })
}

/// Three datanodes that nobody has seen.
async fn pipeline(core: &Core) -> Result<PipelineId, FillError> {
    let members: Vec<_> = (1..=REPLICATION as u8).map(|number| NodeId([number; 16])).collect();
    for (number, id) in members.iter().enumerate() {
        let node = Node {
            id: *id,
            ip: format!("192.0.2.{}", number + 1),
            host: format!("data{}.example.com", number + 1),
            xfer_port: 9866,
            ipc_port: 9867,
            info_port: 9864,
            storage: id.to_string(),
            rack: "/default-rack".into(),
            incarnation: Incarnation { start_ms: 1, nonce: 1 },
            from: String::new(),
            outside: None,
        };
        decide(core, blocks::Command::Register(node)).await?;
    }
    let create = blocks::Command::CreateSet { members, wanted: REPLICATION, planned: true };
    match decide(core, create).await? {
        blocks::Reply::Pipeline(pipeline) => Ok(pipeline),
        reply => Err(unexpected(&reply)),
    }
}

async fn change(core: &Core, op: impl Into<namespace::Op>) -> Result<namespace::Reply, FillError> {
    let request =
        Request { now: Millis(core.now().0), caller: namespace::Caller::system(), retry: None, op: op.into() };
    match core.raft.propose(Command::Namespace(request)).await.map_err(|error| FillError::Refused(error.to_string()))? {
        Reply::Namespace(answer) => answer.map_err(|refused| FillError::Refused(refused.to_string())),
        reply => Err(unexpected(&reply)),
    }
}

async fn decide(core: &Core, command: blocks::Command) -> Result<blocks::Reply, FillError> {
    let answer = core.change_blocks(command).await.map_err(|error| FillError::Refused(error.to_string()))?;
    answer.map_err(|refused| FillError::Refused(refused.to_string()))
}

fn unexpected(reply: &impl std::fmt::Debug) -> FillError {
    FillError::Refused(format!("a command was answered with {reply:?}"))
}
