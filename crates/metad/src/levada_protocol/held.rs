//! A block on lease while it is being put.

use crate::block_tokens;
use crate::change_error::ChangeError;
use crate::core::Core;
use crate::node_questions::{self, Answer, Policy};
use crate::refusal;
use crate::repair::askable;
use crate::session::Session;
use hdfs::Exception;
use lead::{Grant, LeaseRefused, LeasedFor, LeasedHome, PutFate};
use namespace::{HOLDER_LEN_MAX, Op, Reply};
use security::block_token::Mode;
use std::time::Duration;
use types::{BlockId, ContainerId, Fitness, Generation, NodeId};
use wire::node::{COMPARE, CompareRequest, CompareResponse, Replica};

/// Datanodes find a new leader within a few heartbeats.
const REGISTERED_WITHIN: Duration = Duration::from_secs(10);
const REGISTERED_LOOK: Duration = Duration::from_millis(100);
/// For a datanode to look up one replica.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A block that is being put. It counts as on lease until the log decides the put, even if no caller waits for that.
pub(super) struct Held<'a> {
    core: &'a Core,
    block: BlockId,
    /// Of the put, among all that were begun here.
    number: u64,
    fate: PutFate,
}

/// What a client says it has on lease.
pub(super) struct Claim<'r> {
    pub(super) grant: Grant,
    pub(super) leased_for: LeasedFor,
    /// Of the token that came with it.
    pub(super) identifier: &'r [u8],
    pub(super) password: &'r [u8],
}

impl<'a> Held<'a> {
    pub(super) fn begin(
        core: &'a Core,
        session: &Session,
        holder: &str,
        Claim { grant, leased_for, identifier, password }: Claim<'_>,
        is_short: bool,
    ) -> Result<(Self, LeasedHome), LeaseRefused> {
        let mode = match leased_for {
            LeasedFor::NewFile => Mode::Put,
            LeasedFor::OpenFile => Mode::Write,
        };
        // A leader younger than the lease knows nothing else of it.
        let is_its_own = holder.len() <= HOLDER_LEN_MAX
            && block_tokens::prove(core, session, (grant.block, grant.file, mode), identifier, password);
        if !is_its_own {
            return Err(LeaseRefused::NotHeld);
        }
        let put = (grant, leased_for);
        let (home, number) = core.with_leader(|leader, _| leader.begin_put(holder, put, is_short, core.monotonic()))?;
        Ok((Self { core, block: grant.block, number, fate: PutFate::NotProposed }, home))
    }

    /// Whether a member of its `home` has the replica. To be asked where a leader before this one gave the block out:
    /// it may have taken the lease for ended, and had the replicas deleted. Who leads now deletes none while it
    /// believes others' leases, so what is there stays.
    pub(super) async fn is_written(&self, home: ContainerId, generation: Generation, len: u64) -> bool {
        let here = self.members_here(home).await;
        let answers = node_questions::verify(self.core, &here, self.block, generation, len).await;
        answers.iter().any(|(_, fitness)| *fitness == Some(Fitness::Fit))
    }

    /// The same of a replica that may still be written: whether a member has it at all, open or whole. Its writer sets
    /// up a chain before it adds the block to its file.
    pub(super) async fn is_begun(&self, home: ContainerId, generation: Generation) -> bool {
        let here = self.members_here(home).await;
        let replica = Replica { block: self.block.0, generation: generation.0, ..Replica::default() };
        let request = CompareRequest { replicas: vec![replica], ..CompareRequest::default() };
        let answers: Vec<(NodeId, Answer<CompareResponse>)> =
            node_questions::ask(self.core, &here, COMPARE, &request, ANSWER_MAX, Policy::All).await;
        let said = answers.into_iter().filter_map(|(_, answer)| answer.said());
        let mut fitness = said.flat_map(|answer| answer.fitness).map(node_questions::fitness);
        fitness.any(|fitness| matches!(fitness, Fitness::Fit | Fitness::Busy | Fitness::Unfit))
    }

    /// Members that can be asked, as soon as there are any.
    async fn members_here(&self, home: ContainerId) -> Vec<(NodeId, String)> {
        let begun = self.core.monotonic();
        loop {
            let members = self.core.with_cluster(|cluster, _| cluster.member_ids(home).to_vec());
            let here = askable(self.core, members);
            if !here.is_empty() || self.core.monotonic().saturating_sub(begun) >= REGISTERED_WITHIN {
                return here;
            }
            io::time::sleep(REGISTERED_LOOK).await;
        }
    }

    /// Proposes what puts it.
    pub(super) async fn change(&mut self, session: &Session, op: impl Into<Op>) -> Result<Reply, Exception> {
        let op = op.into();
        // A request refused here never came to the log, so the log has decided nothing about earlier puts.
        self.core.admit(&op).map_err(refusal::change)?;
        self.fate = PutFate::InDoubt;
        let changed = self.core.change_admitted(session, op).await;
        if !matches!(changed, Err(ChangeError::Raft(_))) {
            self.fate = PutFate::Decided;
        }
        changed.map_err(refusal::change)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(mut leader) = self.core.leader_unless_broken() {
            leader.block_leases.leave_put(self.block, self.number, self.fate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_node;
    use namespace::{AddBlock, AddLeased, Allocated};
    use types::{FileId, FsPath, InodeId};

    const FILE: FileId = InodeId(49);

    /// A disk that is full refuses puts before they come to the log. That says nothing of those in doubt before.
    #[tokio::test]
    async fn a_put_that_is_refused_here_decides_nothing() {
        let (_dir, metad, core) = with_node().await;
        let session = Session::example("alice", false);
        let (home, now) = (LeasedHome { container: ContainerId(1), set: None }, core.monotonic());
        let [first, second] = [0, 1].map(|index| BlockId::new(home.container, index));
        let grants = core.with_leader(|leader, _| {
            leader.block_leases.reserved(InodeId(50), 10, Generation(1001));
            let holder = session.lease_holder("a");
            leader.block_leases.grant(&holder, home, &[first, second], Some(FILE), now).unwrap().0
        });
        let claim = |grant| Claim { grant, leased_for: LeasedFor::OpenFile, identifier: &[], password: &[] };
        let (mut in_doubt, _) =
            Held::begin(&core, &session, &session.lease_holder("a"), claim(grants[0]), false).unwrap();
        in_doubt.fate = PutFate::InDoubt;
        drop(in_doubt);
        core.room.note(0);
        let (mut refused, _) =
            Held::begin(&core, &session, &session.lease_holder("a"), claim(grants[1]), false).unwrap();
        let allocated = Allocated { block: second, home: home.container };
        let path = FsPath::parse("/f").unwrap();
        let add = AddBlock { path, client: "a".into(), file: Some(grants[1].file), previous: None, allocated };
        let answer = refused.change(&session, AddLeased { add, generation: Generation(1001) }).await;
        assert!(answer.unwrap_err().to_string().contains("in reserve"));
        drop(refused);
        let later = core.monotonic() + std::time::Duration::from_secs(3600);
        assert!(core.leader().block_leases.may_be_put(first, later), "it may still come about");
        assert!(!core.leader().block_leases.may_be_put(second, later));
        drop(core);
        metad.shutdown().await;
    }
}
