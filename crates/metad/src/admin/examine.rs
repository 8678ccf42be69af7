//! What a doctor asks of a store beside its lists: clocks, versions, age.

use crate::core::Core;
use host::version::VERSION;
use wire::admin::examine::{ExamineRequest, ExamineResponse, ServerVersion};

pub(super) fn examine(core: &Core, _request: ExamineRequest) -> ExamineResponse {
    let (now, versions) = (core.monotonic(), core.heard.versions());
    let leader = core.leader();
    let live = leader.cluster.nodes().filter(|member| member.is_live(now));
    let datanodes = live.map(|member| ServerVersion {
        addr: member.node.xfer_addr(),
        version: versions.get(&member.node.id).cloned().unwrap_or_default(),
    });
    ExamineResponse {
        now_ms: core.now().0,
        version: VERSION.into(),
        // As it is made in HDFS's form, and here: BP-<random>-<address>-<ms>.
        founded_ms: core.pool.rsplit('-').next().and_then(|ms| ms.parse().ok()).unwrap_or_default(),
        datanodes: datanodes.collect(),
        found_count: leader.found.block_count() as u64,
    }
}
