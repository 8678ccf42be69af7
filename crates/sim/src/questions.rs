//! What a datanode answers by RPC: recovery's calls, and what it has of what it should have.

use crate::datanode::Datanode;
use crate::platter::{Identity, SPEC};
use crate::volume::{Info, VolumeError};
use bytes::Bytes;
use namespace::BlockView;
use prost::Message;
use std::rc::Rc;
use types::{BlockId, ContainerId, FileId, Generation, ReplicaState};
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
                let BeginRecoveryRequest { block, generation } = decode(body);
                self.world.shows_for_recovery(BlockId(block), Generation(generation), self.number);
                let begun = self.volume.begin_recovery(BlockId(block), Generation(generation)).await;
                let replica = match begun {
                    Ok(info) => Some(Replica {
                        block,
                        generation: info.identity.generation.0,
                        len: info.len as u64,
                        file: info.identity.file.map_or(0, |file| file.0),
                        home: info.identity.home.map_or(0, |home| home.0),
                        state: info.state as i32,
                    }),
                    Err(VolumeError::NotFound) => None,
                    Err(_) => return Err(IO),
                };
                encode(BeginRecoveryResponse { replica })
            }
            FINISH_RECOVERY => {
                let FinishRecoveryRequest { block, generation, len } = decode(body);
                let (block, generation) = (BlockId(block), Generation(generation));
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
        let mut same = false;
        if let Some(wanted) = request.digest {
            let mut digest = Digest::default();
            let here = self.volume.replicas().into_iter().filter(|info| {
                info.state == ReplicaState::Finalized
                    && (request.from..=request.through).contains(&info.identity.block.0)
                    && info.identity.home.is_none_or(|home| home == ContainerId(request.home))
                    && !self.is_to_delete(info.identity.block, info.identity.generation)
            });
            here.for_each(|info| digest.add(info.identity.block, info.identity.generation, info.len as u64));
            same = digest == wanted;
        }
        let fitness = request.replicas.iter().map(|replica| {
            let wanted = BlockView {
                block: replica.block_id(),
                generation: replica.generation_stamp(),
                len: replica.len,
                file: FileId::default(),
                home: ContainerId(0),
                complete: true,
                offset: 0,
            };
            self.fitness(&wanted) as i32
        });
        CompareResponse { same, fitness: fitness.collect() }
    }
}
