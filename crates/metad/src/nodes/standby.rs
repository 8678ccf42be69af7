//! What datanodes get from a server that stands by: it remembers who lives, and gives no orders.

use super::messages::{described, encode, incarnation, node_id, usage, version};
use super::registration::is_foreign;
use crate::refusal;
use crate::seat::Seat;
use bytes::Bytes;
use hdfs::Exception;
use rpc::Call;
use wire::node::{CATALOGUE, HEARTBEAT, HeartbeatRequest, Orders, REGISTER, RegisterRequest, RegisterResponse};

/// What a server that stands by answers: it remembers who lives, and gives no orders.
pub(crate) fn stand_by(seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    let now = seat.clock.monotonic();
    match call.method.as_str() {
        REGISTER => {
            // Before the first leader there is no pool to join.
            let founding = seat.machine.founding().map_err(refusal::rows)?;
            let block_pool = founding.ok_or_else(|| seat.standby())?.pool;
            let request: RegisterRequest = call.request()?;
            if !is_foreign(&request, &block_pool) {
                let (usage, version) = (usage(request.usage, 0), version(&request));
                let node = described(request, call.peer)?;
                // Who is a datanode is decided by the leader, and read in the rows; of others nothing is remembered.
                let row = blocks::tables::node(&seat.machine.store().view(), node.id).map_err(refusal::rows)?;
                if row.is_some_and(|row| row.incarnation == node.incarnation) {
                    seat.heard.registered(node, usage, version, now);
                }
            }
            Ok(encode(&RegisterResponse { block_pool, standby: true, term: 0, new: false }))
        }
        HEARTBEAT => {
            let request: HeartbeatRequest = call.request()?;
            let usage = usage(request.usage, request.transfer_count);
            let incarnation = incarnation(request.sender.and_then(|sender| sender.incarnation))?;
            let known = seat.heard.beat_of(node_id(&request.node)?, incarnation, usage, now);
            let (id, members) = seat.members();
            Ok(encode(&Orders { known, standby: true, id, members, ..Orders::default() }))
        }
        CATALOGUE => Ok(encode(&Orders { known: true, standby: true, ..Orders::default() })),
        _ => Err(call.no_such_method()),
    }
}
