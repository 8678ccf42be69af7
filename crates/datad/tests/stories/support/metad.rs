//! A metadata server of few words: it notes what it is told, and gives the orders it was given.

use super::POOL;
use bytes::Bytes;
use hdfs::Exception;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;
use wire::node::*;

/// What it has heard, and what it orders.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) registered: usize,
    pub(crate) beats: usize,
    /// The last heartbeat.
    pub(crate) told: HeartbeatRequest,
    /// Blocks that were told as put, and not as deleted since.
    pub(crate) put: BTreeSet<u64>,
    pub(crate) delete: Vec<Deletion>,
    /// Given until the node says that it has them.
    pub(crate) copy: Vec<CopyOrder>,
    pub(crate) balance: Option<DiskBalanceOrder>,
    pub(crate) scrub: Option<ScrubOrder>,
    /// When each copy was ordered last. What is put just then is neither under way nor told yet.
    ordered: BTreeMap<u64, usize>,
}

impl Notes {
    fn beat(&mut self, told: HeartbeatRequest) -> Orders {
        self.beats += 1;
        self.put.extend(told.put.iter().map(|replica| replica.block));
        told.deleted.iter().for_each(|block| _ = self.put.remove(block));
        self.told = told;
        let lacks = |copy: &&CopyOrder| {
            let of_late = self.ordered.get(&copy.block).is_some_and(|at| at + 5 > self.beats);
            !of_late && !self.put.contains(&copy.block) && !self.told.copying.contains(&copy.block)
        };
        let copy: Vec<CopyOrder> = self.copy.iter().filter(lacks).cloned().collect();
        self.ordered.extend(copy.iter().map(|copy| (copy.block, self.beats)));
        Orders { copy, delete: self.delete.clone(), disk_balance: self.balance, scrub: self.scrub, ..known() }
    }
}

fn known() -> Orders {
    Orders { known: true, ..Orders::default() }
}

struct Service(Mutex<Notes>);

impl rpc::Service for Service {
    async fn call(&self, call: rpc::Call) -> Result<Bytes, Exception> {
        let notes = &mut *self.0.lock().unwrap();
        Ok(match call.method.as_str() {
            REGISTER => {
                notes.registered += 1;
                let block_pool = POOL.into();
                RegisterResponse { block_pool, standby: false, term: 0, new: false, tokens: None }.encode_to_vec()
            }
            HEARTBEAT => notes.beat(call.request()?).encode_to_vec(),
            _ => known().encode_to_vec(),
        }
        .into())
    }
}

/// To be dropped after those who talk to it.
pub(crate) struct Metad {
    service: Arc<Service>,
    server: rpc::Server,
    _runtime: Runtime,
}

impl Metad {
    pub(crate) fn start() -> Self {
        let service = Arc::new(Service(Mutex::default()));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let bind = rpc::Server::bind("127.0.0.1:0", rpc::ServerOptions::default(), Arc::clone(&service));
        let server = runtime.block_on(bind).unwrap();
        Self { service, server, _runtime: runtime }
    }

    pub(crate) fn addr(&self) -> String {
        self.server.local_addr().to_string()
    }

    pub(crate) fn notes<T>(&self, look: impl FnOnce(&mut Notes) -> T) -> T {
        look(&mut self.service.0.lock().unwrap())
    }
}
