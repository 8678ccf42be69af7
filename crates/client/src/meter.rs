//! What the servers of a store have used so far, asked of each of them; the difference of two answers is what work has
//! cost.

use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use std::time::Duration;
use wire::meter::{METER, METER_PROTOCOL, MeterRequest, MeterResponse};

pub use wire::meter::Role;

/// One server, as of the moment it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    pub role: Role,
    /// Its RPC address.
    pub addr: String,
    /// Roles that share a process tell the same number, and the same of all below.
    pub process: u64,
    pub pid: u32,
    pub user: Duration,
    pub system: Duration,
    /// Times the process waited for a disk.
    pub sync_count: u64,
}

impl Client {
    /// Every metadata server and every live datanode; those that do not answer are left out. `None` if the store is not
    /// one of Levada, so that its servers have no such thing to tell.
    pub async fn meters(&self) -> Result<Option<Vec<Meter>>> {
        self.run(self.meters_of_all()).await
    }

    async fn meters_of_all(&self) -> Result<Option<Vec<Meter>>> {
        let mut meters = Vec::new();
        for addr in self.url().authority.split(',') {
            match self.meter(addr.to_owned()).await {
                Ok(meter) => meters.push(meter),
                Err(error) if error.kind() == ErrorKind::NotAMetadataServer => return Ok(None),
                Err(error) => tracing::info!(addr, %error, "a metadata server does not say what it has used"),
            }
        }
        for node in self.live_datanodes().await? {
            let addr = node.ipc_addr();
            match self.meter(addr.clone()).await {
                Ok(meter) => meters.push(meter),
                Err(error) => tracing::info!(addr, %error, "a datanode does not say what it has used"),
            }
        }
        Ok(Some(meters))
    }

    async fn meter(&self, addr: String) -> Result<Meter> {
        let rpc = rpc::Client::with_options(addr, self.user().to_owned(), METER_PROTOCOL, self.store().rpc_options());
        let answer: MeterResponse =
            rpc.call(METER, &MeterRequest {}).await.map_err(|error| Error::of_call(rpc.addr(), error))?;
        Ok(Meter {
            role: answer.role(),
            addr: rpc.addr().to_owned(),
            process: answer.process,
            pid: answer.pid,
            user: Duration::from_micros(answer.user_us),
            system: Duration::from_micros(answer.system_us),
            sync_count: answer.sync_count,
        })
    }
}
