//! What the metadata server asks when it compares containers: does this node have what it should have?

use crate::replicas::{Replicas, held};
use container::{ReplicaError, ReplicaInfo};
use datanode::compare;
use types::{BlockId, ContainerId, Fitness, Generation, ReplicaState};
use wire::node::{CompareRequest, CompareResponse, Digest, PAGE_COUNT_MAX, Replica, VerifyRequest, VerifyResponse};

/// Replicas looked up at a time.
const STEP_COUNT: usize = 1000;

/// A page by its digest, or by its list.
pub(crate) fn compare(replicas: &Replicas, request: &CompareRequest) -> Result<CompareResponse, ReplicaError> {
    let mut answer = CompareResponse::default();
    if let Some(digest) = request.digest {
        answer.same = self_digest(replicas, request, digest.count)? == Some(digest);
        return Ok(answer);
    }
    for wanted in request.replicas.iter().take(PAGE_COUNT_MAX) {
        let fitness = match fitness(replicas, wanted)? {
            Fitness::Absent if is_readable(replicas, wanted)? => Fitness::Readable,
            fitness => fitness,
        };
        answer.fitness.push(fitness.into());
    }
    Ok(answer)
}

/// The digest of what is here in the range; `None` as soon as it is more than `count_max`.
fn self_digest(replicas: &Replicas, request: &CompareRequest, count_max: u64) -> Result<Option<Digest>, ReplicaError> {
    let mut digest = Digest::default();
    let mut from = BlockId(request.from);
    loop {
        let infos = replicas.disks.replicas(from, STEP_COUNT)?;
        for info in &infos {
            let identity = info.identity;
            if identity.block.0 > request.through {
                return Ok(Some(digest));
            }
            let leaves = replicas.is_ordered_away(identity.block, identity.generation);
            if compare::counts_in(&held(info), ContainerId(request.home), leaves) {
                digest.add(identity.block, identity.generation, info.len);
            }
        }
        if digest.count > count_max {
            return Ok(None);
        }
        match infos.last().and_then(|last| last.identity.block.0.checked_add(1)) {
            Some(next) if infos.len() == STEP_COUNT && next <= request.through => from = BlockId(next),
            _ => return Ok(Some(digest)),
        }
    }
}

fn fitness(replicas: &Replicas, wanted: &Replica) -> Result<Fitness, ReplicaError> {
    let held = replicas.disks.find(wanted.block_id())?.as_ref().map(held);
    let leaves = held.is_some_and(|held| replicas.is_ordered_away(held.block, held.generation));
    Ok(compare::fitness(held.as_ref(), wanted, leaves))
}

/// It is on a disk that is lost for all but reading.
fn is_readable(replicas: &Replicas, wanted: &Replica) -> Result<bool, ReplicaError> {
    let Some(info) = replicas.disks.find_readable(wanted.block_id())? else { return Ok(false) };
    let have = info.identity.generation;
    let is_whole = info.state == ReplicaState::Finalized && info.len >= wanted.len;
    Ok(is_whole && have >= wanted.generation_stamp() && !replicas.is_ordered_away(info.identity.block, have))
}

/// Reads a replica from end to end. One that is to be deleted, or just is, by order of whoever leads or led before, is
/// as good as gone: whoever asks may give the block to a file.
pub(crate) fn verify(replicas: &Replicas, request: &VerifyRequest) -> VerifyResponse {
    let block = BlockId(request.block);
    let fitness = match replicas.disks.find(block) {
        Ok(Some(info)) if is_worth_reading(replicas, &info, request) => match replicas.verify(block) {
            Ok(()) => Fitness::Fit,
            Err(ReplicaError::NotFound { .. }) => Fitness::Absent,
            Err(error) if error.is_momentary() => Fitness::Busy,
            Err(_) => Fitness::Unfit,
        },
        Ok(Some(_)) => Fitness::Absent,
        Ok(None) => verify_readable(replicas, request),
        Err(_) => Fitness::Unfit,
    };
    VerifyResponse { fitness: fitness.into() }
}

fn is_worth_reading(replicas: &Replicas, info: &ReplicaInfo, request: &VerifyRequest) -> bool {
    let held = held(info);
    let leaves = replicas.is_ordered_away(held.block, held.generation);
    compare::is_worth_reading(&held, Generation(request.generation), leaves)
}

/// Whether what counts as absent and was called damaged reads well: if not, nobody is to be sent to it again.
fn verify_readable(replicas: &Replicas, request: &VerifyRequest) -> Fitness {
    let block = BlockId(request.block);
    match replicas.disks.find_readable(block) {
        Ok(Some(info)) if is_worth_reading(replicas, &info, request) => match replicas.disks.verify(block) {
            Ok(_) => Fitness::Fit,
            Err(error) if error.is_momentary() => Fitness::Busy,
            Err(_) => Fitness::Unfit,
        },
        _ => Fitness::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use container::{Identity, Options};
    use types::InodeId;
    use types::checksum::{ChecksumKind, ChecksumSpec};

    const BLOCK: BlockId = BlockId(7);
    const GENERATION: Generation = Generation(1001);

    fn replicas(dir: &std::path::Path) -> Replicas {
        let options = Options { reserved_len: Some(0), ..Options::default() };
        let replicas = Replicas::new(disks::open(&[dir.to_owned()], &options).unwrap(), 1, io::SystemClock::new());
        let checksum = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 };
        let (file, home) = (InodeId(7), ContainerId(0));
        let identity = Identity { block: BLOCK, generation: GENERATION, file, home, checksum };
        let mut writer = replicas.disks.create(identity).unwrap();
        writer.write(0, &[1; 100], &[]).unwrap();
        writer.put(100).unwrap();
        replicas
    }

    /// A leader ordered its deletion, and ended while it was in hand. The next one asks before it gives the block to a
    /// file.
    #[test]
    fn a_replica_that_is_to_be_deleted_is_not_fit() {
        let dir = tempfile::tempdir().unwrap();
        let replicas = replicas(dir.path());
        let verified = || verify(&replicas, &VerifyRequest { block: BLOCK.0, generation: GENERATION.0 }).fitness();
        assert_eq!(verified(), Fitness::Fit);
        replicas.node.with(|node| node.deletions.order(0, BLOCK, GENERATION));
        assert_eq!(verified(), Fitness::Absent, "it waits");
        let in_hand = replicas.node.with(|node| node.deletions.take(0));
        assert_eq!((in_hand.len(), verified()), (1, Fitness::Absent), "it is in hand");
        replicas.node.with(|node| node.deletions.done(0));
        assert_eq!(verified(), Fitness::Fit, "it could not be deleted");
    }
}
