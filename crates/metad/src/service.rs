//! The door: which protocol a call speaks, and whether this server may answer it.

use crate::seat::Seat;
use crate::{admin, admission, balancer, client, ha, mappings, meter, nodes, own, racks, settings, standby};
use bytes::Bytes;
use hdfs::Exception;
use hdfs::exception::STANDBY;
use prost::Message;
use rpc::Call;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::raft::{MemberMessage, RAFT_PROTOCOL, RAFT_VERSION, TELL};

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) seat: Arc<Seat>,
}

impl rpc::Service for Service {
    async fn call(&self, call: Call) -> Result<Bytes, Exception> {
        let seat = &self.seat;
        match call.protocol.as_str() {
            hdfs::protocol::CLIENT => {
                call.check_version(hdfs::protocol::VERSION)?;
                let core = match seat.leading().await {
                    Ok(core) => core,
                    Err(error) if error.class == STANDBY => return standby::call(seat, &call, error).await,
                    Err(error) => return Err(error),
                };
                let session = core.users.session(&call, core.monotonic()).await?;
                racks::locate(&core, &session).await;
                client::call(&core, &session, &call.method, call.body).await
            }
            wire::client::CLIENT_PROTOCOL => own::call(&seat.leading().await?, call).await,
            wire::node::NODE_PROTOCOL => match seat.leading().await {
                Ok(core) => nodes::call(&core, seat, call).await,
                Err(error) if error.class == STANDBY => nodes::stand_by(seat, &call),
                Err(error) => Err(error),
            },
            wire::admin::ADMIN_PROTOCOL => admin::call(seat, call).await,
            hdfs::protocol::GET_USER_MAPPINGS | hdfs::protocol::REFRESH_USER_MAPPINGS => {
                mappings::call(seat, &call).await
            }
            hdfs::protocol::NAMENODE => {
                let core = seat.leading().await?;
                let session = core.users.session(&call, core.monotonic()).await?;
                balancer::call(&core, &session, &call.method, call.body).await
            }
            hdfs::protocol::HA_SERVICE => ha::call(seat, &call).await,
            hdfs::protocol::REFRESH_AUTHORIZATION_POLICY
            | hdfs::protocol::REFRESH_CALL_QUEUE
            | hdfs::protocol::GENERIC_REFRESH
            | hdfs::protocol::RECONFIGURATION => settings::call(seat, &call).await,
            wire::meter::METER_PROTOCOL => meter::call(&call),
            RAFT_PROTOCOL => member(seat, &call).await,
            _ => Err(call.no_such_protocol()),
        }
    }

    async fn admit_urgent(&self, peer: SocketAddr) -> Result<(), Exception> {
        self.seat.admission.admit(&self.seat, peer).await
    }

    fn opened(&self, peer: SocketAddr) {
        self.seat.opened(peer);
    }

    fn hung_up(&self, peer: SocketAddr) {
        self.seat.admission.hung_up(peer);
        self.seat.hung_up(peer);
    }
}

/// A message of another member.
async fn member(seat: &Arc<Seat>, call: &Call) -> Result<Bytes, Exception> {
    call.check_version(RAFT_VERSION)?;
    if call.method != TELL || seat.peers.is_none() {
        return Err(call.no_such_method());
    }
    seat.require_superuser(call).await?;
    seat.admission.admit_still(seat, call.peer).await?;
    let message: MemberMessage = call.request()?;
    if seat.admission.is_stranger(call.peer) {
        seat.raft.overhear(&message.bytes).await;
        return Err(admission::overheard());
    }
    let answer = MemberMessage { bytes: seat.raft.handle(&message.bytes).await.into() };
    Ok(answer.encode_to_vec().into())
}
