//! What a datanode answers by RPC: recovery's calls, and what it has of what it should have.

use crate::datanode::{Datanode, held};
use crate::platter::{Identity, SPEC};
use crate::volume::{Info, VolumeError};
use bytes::Bytes;
use datanode::compare;
use prost::Message;
use security::block_token::Mode;
use std::rc::Rc;
use types::{BlockId, ContainerId, Generation, ReplicaState};
use wire::node::*;
use wire::tree::{Content, HashTree, Leaf, TREE, TreeRequest, TreeResponse};

/// Whatever nobody tells apart.
const IO: &str = "java.io.IOException";
/// A method that is not there.
const NO_SUCH_METHOD: &str = "org.apache.hadoop.ipc.RpcNoSuchMethodException";

fn decode<M: Message + Default>(body: Bytes) -> M {
    M::decode(body).expect("a server's question can be read")
}

fn encode(message: impl Message) -> Result<Bytes, &'static str> {
    Ok(message.encode_to_vec().into())
}

impl Datanode {
    /// `Err`: the class of the refusal.
    pub(crate) async fn answer(self: Rc<Self>, method: &str, body: Bytes) -> Result<Bytes, &'static str> {
        match method {
            BEGIN_RECOVERY => {
                let BeginRecoveryRequest { block, generation, token } = decode(body);
                self.admit_order(BlockId(block), token)?;
                self.world.shows_for_recovery(BlockId(block), Generation(generation), self.number);
                let begun = self.volume.begin_recovery(BlockId(block), Generation(generation)).await;
                let replica = match begun {
                    Ok(info) => Some(held(&info).report()),
                    Err(VolumeError::NotFound) => None,
                    Err(_) => return Err(IO),
                };
                encode(BeginRecoveryResponse { replica })
            }
            FINISH_RECOVERY => {
                let FinishRecoveryRequest { block, generation, len, token } = decode(body);
                let (block, generation) = (BlockId(block), Generation(generation));
                self.admit_order(block, token)?;
                self.volume.finish_recovery(block, generation, len as usize).await.map_err(|_| IO)?;
                self.was_put(block);
                self.world.ends_recovery(block, generation, self.id);
                encode(FinishRecoveryResponse {})
            }
            COMPARE => encode(self.compare(decode(body))),
            VERIFY => {
                let VerifyRequest { block, generation } = decode(body);
                let fitness = self.verify(BlockId(block), Generation(generation)).await;
                encode(VerifyResponse { fitness: fitness as i32 })
            }
            TREE => encode(self.tree(decode(body))?),
            _ => Err(NO_SUCH_METHOD),
        }
    }

    /// What a metadata server asks for needs a token of the leader.
    fn admit_order(&self, block: BlockId, token: Option<BlockToken>) -> Result<(), &'static str> {
        let BlockToken { identifier, password } = token.unwrap_or_default();
        let grant = self.admit(block, (Mode::Write, false), &identifier, &password).map_err(|_| IO)?;
        match self.volume.find(block) {
            Some(info) => self.must_cover(&grant, info.identity.file).map_err(|_| IO),
            None => Ok(()),
        }
    }

    /// Made anew for each question, which production does only now and then.
    fn tree(&self, request: TreeRequest) -> Result<TreeResponse, &'static str> {
        let (home, infos) = (ContainerId(request.home), self.volume.replicas().into_iter());
        if !request.anew.is_empty() {
            let leaves = infos.filter(|info| request.anew.contains(&info.identity.block.0));
            let leaves = leaves.filter_map(|info| self.leaf(&info)).collect();
            return Ok(TreeResponse { leaves, ..TreeResponse::default() });
        }
        let here = infos.filter(|info| info.identity.block.born_in() == home);
        let here = here.filter(|info| info.identity.home.is_none_or(|now| now == home));
        HashTree::new(here.filter_map(|info| self.leaf(&info))).answer(&request).map_err(|_| IO)
    }

    fn leaf(&self, info: &Info) -> Option<Leaf> {
        let Identity { block, generation, .. } = info.identity;
        if info.state != ReplicaState::Finalized || self.is_to_delete(block, generation) {
            return None;
        }
        let platter = self.world.node_platter(self.number).borrow();
        let mut content = Content::new(SPEC);
        platter.shelf.get(&block)?.image().sums.iter().for_each(|sum| content.add(&sum.to_be_bytes()));
        Some(Leaf { block: block.0, generation: generation.0, len: info.len as u64, content: content.value() })
    }

    fn compare(&self, request: CompareRequest) -> CompareResponse {
        let mut answer = CompareResponse::default();
        if let Some(wanted) = request.digest {
            let mut digest = Digest::default();
            for held in self.volume.replicas().iter().map(held) {
                let leaves = self.is_to_delete(held.block, held.generation);
                let is_asked = (request.from..=request.through).contains(&held.block.0);
                if is_asked && compare::counts_in(&held, ContainerId(request.home), leaves) {
                    digest.add(held.block, held.generation, held.len);
                }
            }
            answer.same = digest == wanted;
            return answer;
        }
        for wanted in &request.replicas {
            let held = self.held(wanted.block_id());
            let leaves = held.is_some_and(|held| self.is_to_delete(held.block, held.generation));
            answer.fitness.push(compare::fitness(held.as_ref(), wanted, leaves).into());
        }
        answer
    }
}
