//! What the metadata server asks when it compares containers: does this node have what it should have?

use crate::replicas::{Replicas, held};
use container::ReplicaError;
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

/// Reads a replica from end to end.
pub(crate) fn verify(replicas: &Replicas, request: &VerifyRequest) -> VerifyResponse {
    let block = BlockId(request.block);
    let fitness = match replicas.disks.find(block) {
        Ok(Some(info)) if info.identity.generation >= Generation(request.generation) => match replicas.verify(block) {
            Ok(()) => Fitness::Fit,
            Err(ReplicaError::NotFound { .. }) => Fitness::Absent,
            Err(error) if error.is_momentary() => Fitness::Busy,
            Err(_) => Fitness::Unfit,
        },
        Ok(Some(_)) => Fitness::Absent,
        Ok(None) => verify_readable(replicas, block, Generation(request.generation)),
        Err(_) => Fitness::Unfit,
    };
    VerifyResponse { fitness: fitness.into() }
}

/// Whether what counts as absent and was called damaged reads well: if not, nobody is to be sent to it again.
fn verify_readable(replicas: &Replicas, block: BlockId, generation: Generation) -> Fitness {
    match replicas.disks.find_readable(block) {
        Ok(Some(info)) if info.identity.generation >= generation => match replicas.disks.verify(block) {
            Ok(_) => Fitness::Fit,
            Err(error) if error.is_momentary() => Fitness::Busy,
            Err(_) => Fitness::Unfit,
        },
        _ => Fitness::Absent,
    }
}
