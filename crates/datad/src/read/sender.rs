//! Packets onto a socket, without a copy of the data.

use super::plan::Plan;
use io::Share;
use io::transfer::{send_all, sendfile_all};
use metrics::Counter;
use std::io::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::net::TcpStream;
use wire::PacketHeader;

/// Sends `front`, the packets of `plan` and the empty packet at the end. `sums` are the first of [`Plan::sums`]; what
/// follows waits for its disk in that disk's share. Gives up if the peer takes longer than `stalled` over one packet.
pub(crate) async fn send_packets(
    socket: &TcpStream,
    plan: &Plan,
    share: &Share,
    front: Vec<u8>,
    mut sums: Vec<u8>,
    stalled: Duration,
    bytes: &Counter,
) -> Result<()> {
    let mut head = front;
    let mut sums_at = 0;
    let mut at = plan.start;
    let mut seqno = 0;
    while at < plan.end {
        let data_len = plan.packet_data_len(at);
        let sums_len = plan.spec.sums_len(data_len) as usize;
        if sums_at + sums_len > sums.len() {
            let (window, from) = (plan.clone(), at);
            let read = share.run(move || window.sums(from)).await.map_err(Error::other)?;
            sums = read.map_err(Error::other)?;
            sums_at = 0;
        }
        let header = PacketHeader { offset: at as i64, seqno, last: false, data_len: data_len as i32, sync: false };
        header.put(sums_len as u32, &mut head);
        head.extend_from_slice(&sums[sums_at..sums_at + sums_len]);
        let data_at = plan.reader.data_offset() + at;
        let packet = async {
            send_all(socket, &head, true).await?;
            sendfile_all(socket, plan.reader.data(), share, data_at, data_len).await
        };
        within(stalled, packet).await?;
        plan.reader.count_sent(data_len);
        bytes.inc_by(data_len);
        head.clear();
        sums_at += sums_len;
        at += data_len;
        seqno += 1;
    }
    PacketHeader { offset: at as i64, seqno, last: true, data_len: 0, sync: false }.put(0, &mut head);
    within(stalled, send_all(socket, &head, false)).await
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| Error::new(ErrorKind::TimedOut, "the reader takes nothing");
    tokio::time::timeout(limit, work).await.map_err(late)?
}
