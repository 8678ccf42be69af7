//! The metadata server of a scripted store.

use bytes::Bytes;
use hdfs::proto::*;
use prost::Message;
use rpc::{Call, Exception, Service};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use types::{BlockId, ContainerId, Generation, InodeId};
use wire::client::{BlockNode, LeaseBlocksRequest, LeaseBlocksResponse, LeasedBlock};
use wire::{Abilities, BlockScope};

/// What the store knows. Tests look into it, and script it.
#[derive(Default)]
pub(crate) struct Book {
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    nodes: Vec<DatanodeInfoProto>,
    /// Path to blocks, and whether it is closed.
    pub(crate) files: HashMap<String, (Vec<u64>, bool)>,
    /// What the datanodes hold of a block: bytes and generation.
    pub(crate) blocks: HashMap<u64, (Vec<u8>, u64)>,
    /// Names of the calls so far.
    pub(crate) calls: Vec<String>,
    /// Nodes for the next answers of getBlockLocations; then all.
    pub(crate) show: VecDeque<Vec<usize>>,
    /// Times that complete answers false.
    pub(crate) unready: usize,
    /// The last block of every file is being written.
    pub(crate) open: bool,
    /// What the datanodes show of an open block, if not what they have.
    pub(crate) visible_len: Option<u64>,
    /// What is in every directory.
    pub(crate) listed: Vec<HdfsFileStatusProto>,
    /// What it states in getServerDefaults.
    pub(crate) abilities: Option<u64>,
    /// Its tokens name the file of a block, as those of our servers do.
    pub(crate) names_files: bool,
    /// Times that putFile and leaseBlocks are refused, before anything is done.
    pub(crate) refused_puts: usize,
    pub(crate) refused_leases: usize,
    /// Blocks that came back from their lease.
    pub(crate) returned: Vec<u64>,
    /// Another server leads.
    pub(crate) stands_by: bool,
    pub(crate) reported: Vec<(u64, String)>,
    /// Nodes that a block gets, if not all there are.
    pub(crate) width: Option<usize>,
    /// Numbers of nodes that have started anew: a chain may have them again, also if they are excluded.
    pub(crate) back: Vec<usize>,
    /// Ports of the nodes of the last updatePipeline.
    pub(crate) pipeline: Vec<u32>,
    next_block: u64,
    next_generation: u64,
}

pub(crate) const POOL: &str = "BP-1-127.0.0.1-1";
pub(crate) const BLOCK_LEN: u64 = 1 << 20;
/// A file's id is above this by its first block.
pub(crate) const FILE_ID_BASE: u64 = 16385;

impl Book {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn set_nodes(&self, nodes: Vec<DatanodeInfoProto>) {
        self.state().nodes = nodes;
    }

    /// A closed file of these blocks.
    pub(crate) fn add_file(&self, path: &str, blocks: &[&[u8]]) {
        let mut state = self.state();
        let ids = blocks.iter().map(|bytes| {
            state.next_block += 1;
            let id = state.next_block;
            state.blocks.insert(id, (bytes.to_vec(), 1001));
            id
        });
        let ids = ids.collect();
        state.files.insert(path.into(), (ids, true));
    }

    pub(crate) fn contents(&self, path: &str) -> Vec<u8> {
        let state = self.state();
        let (blocks, closed) = &state.files[path];
        assert!(closed, "{path} is still open");
        blocks.iter().flat_map(|block| state.blocks[block].0.clone()).collect()
    }

    /// What the nodes have of a file that may be open.
    pub(crate) fn all(&self, path: &str) -> Vec<u8> {
        let state = self.state();
        state.files[path].0.iter().flat_map(|block| state.blocks[block].0.clone()).collect()
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.state().calls.iter().filter(|call| *call == method).count()
    }
}

impl State {
    fn id(&self, block: u64) -> ExtendedBlockProto {
        let (bytes, generation) = &self.blocks[&block];
        ExtendedBlockProto::of(POOL, BlockId(block), Generation(*generation), bytes.len() as u64)
    }

    fn located(&self, block: u64, offset: u64, nodes: &[DatanodeInfoProto]) -> LocatedBlockProto {
        LocatedBlockProto {
            b: self.id(block),
            offset,
            locs: nodes.to_vec(),
            corrupt: false,
            block_token: TokenProto::none(),
            storage_types: nodes.iter().map(|_| 1).collect(),
            storage_i_ds: nodes.iter().map(|node| format!("DS-{}", node.id.xfer_port)).collect(),
            ..Default::default()
        }
    }

    fn locations(
        &mut self,
        request: &GetBlockLocationsRequestProto,
    ) -> Result<GetBlockLocationsResponseProto, Exception> {
        let missing =
            || Exception::new(hdfs::exception::FILE_NOT_FOUND, format!("File does not exist: {}", request.src));
        let (blocks, _) = self.files.get(&request.src).ok_or_else(missing)?.clone();
        let shown = self.show.pop_front().unwrap_or_else(|| (0..self.nodes.len()).collect());
        let nodes: Vec<_> = shown.into_iter().map(|place| self.nodes[place].clone()).collect();
        let mut answer = LocatedBlocksProto {
            is_last_block_complete: !self.open,
            under_construction: self.open,
            ..Default::default()
        };
        let mut offset = 0;
        for (place, block) in blocks.iter().enumerate() {
            let mut located = self.located(*block, offset, &nodes);
            if self.names_files {
                let scope = BlockScope { file: InodeId(FILE_ID_BASE + blocks[0]), home: ContainerId(7) };
                located.block_token.identifier = scope.encode().into();
            }
            let len = located.b.num_bytes.unwrap_or(0);
            let last = place + 1 == blocks.len();
            if last && self.open {
                located.b.num_bytes = Some(0);
            }
            if request.offset < offset + len && offset <= request.offset.saturating_add(request.length) {
                answer.blocks.push(located.clone());
            }
            answer.last_block = Some(located);
            offset += if last && self.open { 0 } else { len };
        }
        answer.file_length = offset;
        Ok(GetBlockLocationsResponseProto { locations: Some(answer) })
    }

    fn add_block(&mut self, request: &AddBlockRequestProto) -> Result<AddBlockResponseProto, Exception> {
        let excluded = |node: &&DatanodeInfoProto| {
            request.exclude_nodes.iter().all(|other| other.id.datanode_uuid != node.id.datanode_uuid)
        };
        let width = self.width.unwrap_or(usize::MAX);
        let nodes: Vec<_> = self.nodes.iter().filter(excluded).take(width).cloned().collect();
        if nodes.is_empty() {
            return Err(Exception::io("could only be written to 0 of the 1 minReplication nodes"));
        }
        self.next_block += 1;
        let block = self.next_block;
        self.blocks.insert(block, (Vec::new(), 1001));
        let (blocks, _) = self.files.get_mut(&request.src).ok_or_else(|| Exception::io("no such open file"))?;
        // The client names the block before, with the length all its nodes have.
        let before = blocks.last().copied();
        blocks.push(block);
        assert_eq!(request.previous.as_ref().map(|previous| previous.block_id), before);
        if let Some(previous) = &request.previous {
            assert_eq!(*previous, self.id(previous.block_id), "the block before, as it is");
        }
        Ok(AddBlockResponseProto { block: self.located(block, 0, &nodes) })
    }

    /// The nodes of a chain, and others.
    fn additional(&mut self, request: GetAdditionalDatanodeRequestProto) -> GetAdditionalDatanodeResponseProto {
        let last = self.files[&request.src].0.last().copied();
        assert_eq!(Some(request.blk.clone()).map(|block| block.block_id), last, "of the last block");
        assert_eq!(request.existings.len(), request.existing_storage_uuids.len(), "a node has one storage here");
        let is_among = |nodes: &[DatanodeInfoProto], node: &DatanodeInfoProto| {
            nodes.iter().any(|other| other.id.datanode_uuid == node.id.datanode_uuid)
        };
        let free = self.nodes.iter().enumerate().filter(|(number, node)| {
            let may_come = !is_among(&request.excludes, node) || self.back.contains(number);
            may_come && !is_among(&request.existings, node)
        });
        let more = free.map(|(_, node)| node.clone()).take(request.num_additional_nodes as usize);
        let nodes: Vec<_> = request.existings.iter().cloned().chain(more).collect();
        GetAdditionalDatanodeResponseProto { block: self.located(request.blk.block_id, 0, &nodes) }
    }

    fn lease(&mut self, count: u32) -> LeaseBlocksResponse {
        let leased = (0..count).map(|_| {
            self.next_block += 1;
            LeasedBlock {
                block: self.next_block,
                file: FILE_ID_BASE + self.next_block,
                token: Bytes::new(),
                password: Bytes::new(),
            }
        });
        let blocks = leased.collect();
        let node = |node: &DatanodeInfoProto| BlockNode {
            id: node.id.datanode_uuid.clone(),
            addr: node.id.xfer_addr(),
            rack: String::new(),
        };
        let nodes = self.nodes.iter().map(node).collect();
        LeaseBlocksResponse { pool: POOL.into(), generation: 1001, blocks, nodes, limit_ms: 60_000 }
    }

    fn answer(&mut self, call: &Call) -> Result<Bytes, Exception> {
        self.calls.push(call.method.clone());
        if self.stands_by {
            return Err(Exception::new(hdfs::exception::STANDBY, "this server stands by"));
        }
        match call.method.as_str() {
            "getServerDefaults" => encoded(GetServerDefaultsResponseProto {
                server_defaults: FsServerDefaultsProto {
                    block_size: BLOCK_LEN,
                    bytes_per_checksum: 512,
                    write_packet_size: 65536,
                    replication: 3,
                    file_buffer_size: 4096,
                    checksum_type: Some(2),
                    abilities: self.abilities,
                    ..Default::default()
                },
            }),
            "getBlockLocations" => encoded(self.locations(&call.request()?)?),
            "reportBadBlocks" => {
                let request: ReportBadBlocksRequestProto = call.request()?;
                for block in request.blocks {
                    assert_eq!((block.locs.len(), block.storage_i_ds.len()), (1, 1));
                    self.reported.push((block.b.block_id, format!(":{}", block.locs[0].id.xfer_port)));
                }
                encoded(ReportBadBlocksResponseProto {})
            }
            "create" => {
                let request: CreateRequestProto = call.request()?;
                self.files.insert(request.src, (Vec::new(), false));
                encoded(CreateResponseProto {
                    fs: Some(HdfsFileStatusProto { file_id: Some(16386), ..Default::default() }),
                })
            }
            "append" => {
                let request: AppendRequestProto = call.request()?;
                let (blocks, _) = self.files[&request.src].clone();
                let len = blocks.iter().map(|block| self.blocks[block].0.len() as u64).sum();
                let stat = HdfsFileStatusProto {
                    file_id: Some(16386),
                    length: len,
                    blocksize: Some(BLOCK_LEN),
                    ..Default::default()
                };
                let block = blocks.last().map(|block| self.located(*block, 0, &[]));
                encoded(AppendResponseProto { block, stat: Some(stat) })
            }
            "addBlock" => encoded(self.add_block(&call.request()?)?),
            "abandonBlock" => {
                let request: AbandonBlockRequestProto = call.request()?;
                self.files.get_mut(&request.src).unwrap().0.retain(|block| *block != request.b.block_id);
                encoded(AbandonBlockResponseProto {})
            }
            "updateBlockForPipeline" => {
                let request: UpdateBlockForPipelineRequestProto = call.request()?;
                self.next_generation = self.next_generation.max(1001) + 1;
                let mut block = self.located(request.block.block_id, u64::MAX, &[]);
                block.b.generation_stamp = self.next_generation;
                encoded(UpdateBlockForPipelineResponseProto { block })
            }
            "updatePipeline" => {
                let request: UpdatePipelineRequestProto = call.request()?;
                self.pipeline = request.new_nodes.iter().map(|node| node.xfer_port).collect();
                assert!(request.new_block.generation_stamp > request.old_block.generation_stamp);
                encoded(UpdatePipelineResponseProto {})
            }
            "getAdditionalDatanode" => encoded(self.additional(call.request()?)),
            "getListing" => {
                let dir_list = DirectoryListingProto { partial_listing: self.listed.clone(), remaining_entries: 0 };
                encoded(GetListingResponseProto { dir_list: Some(dir_list) })
            }
            "complete" => {
                let request: CompleteRequestProto = call.request()?;
                if self.unready > 0 {
                    self.unready -= 1;
                    return encoded(CompleteResponseProto { result: false });
                }
                if let Some(last) = &request.last {
                    assert_eq!(*last, self.id(last.block_id), "the last block, as it is");
                }
                self.files.get_mut(&request.src).unwrap().1 = true;
                encoded(CompleteResponseProto { result: true })
            }
            "putFile" if Abilities::of(self.abilities).has(Abilities::SMALL_FILES) => {
                let request: wire::client::PutFileRequest = call.request()?;
                if self.refused_puts > 0 {
                    self.refused_puts -= 1;
                    return Err(Exception::new(hdfs::exception::SAFE_MODE, "nothing may change"));
                }
                let block = request.block.map(|put| {
                    assert_eq!(self.id(put.block).num_bytes(), put.len, "a block that is put has its bytes");
                    put.block
                });
                self.files.insert(request.path, (block.into_iter().collect(), true));
                encoded(wire::client::PutFileResponse { file: 16386 })
            }
            "leaseBlocks" if Abilities::of(self.abilities).has(Abilities::SMALL_FILES) => {
                let request: LeaseBlocksRequest = call.request()?;
                if self.refused_leases > 0 {
                    self.refused_leases -= 1;
                    return Err(Exception::io("no blocks can be given on lease now"));
                }
                self.returned.extend(request.returned);
                encoded(self.lease(request.count))
            }
            "rename2" => {
                let request: Rename2RequestProto = call.request()?;
                if self.files.contains_key(&request.dst) && !request.overwrite_dest {
                    return Err(Exception::new(hdfs::exception::FILE_ALREADY_EXISTS, "it is there"));
                }
                let file = self.files.remove(&request.src).expect("a file that is renamed");
                assert!(file.1, "{} is renamed while it is open", request.src);
                self.files.insert(request.dst, file);
                encoded(Rename2ResponseProto {})
            }
            "delete" => {
                let request: DeleteRequestProto = call.request()?;
                encoded(DeleteResponseProto { result: self.files.remove(&request.src).is_some() })
            }
            "fsync" => encoded(FsyncResponseProto {}),
            "renewLease" => encoded(RenewLeaseResponseProto {}),
            _ => Err(call.no_such_method()),
        }
    }
}

impl Service for Book {
    async fn call(&self, call: Call) -> Result<Bytes, Exception> {
        self.state().answer(&call)
    }
}

fn encoded(message: impl Message) -> Result<Bytes, Exception> {
    Ok(message.encode_to_vec().into())
}
