//! Where HDFS's messages about blocks and nodes end, and our own words begin. Fields that nobody here reads end here,
//! too.

use crate::located::{FilePart, Located, Node, Token};
use hdfs::proto;
use xfer::fault::Fault;
use xfer::writer::{Identity, Member};

/// A port as the wire has it; TCP has no larger ones.
fn port(number: u32) -> u16 {
    number as u16
}

impl From<proto::DatanodeInfoProto> for Node {
    fn from(info: proto::DatanodeInfoProto) -> Self {
        let proto::DatanodeInfoProto { id, location, .. } = info;
        Self {
            addr: id.xfer_addr().into(),
            id: id.datanode_uuid,
            host: id.host_name,
            ip: id.ip_addr,
            xfer_port: port(id.xfer_port),
            ipc_port: port(id.ipc_port),
            info_port: port(id.info_port),
            info_secure_port: id.info_secure_port.map(port),
            rack: location,
            storage: None,
            storage_type: None,
        }
    }
}

impl From<&Node> for proto::DatanodeInfoProto {
    fn from(node: &Node) -> Self {
        let id = proto::DatanodeIdProto {
            ip_addr: node.ip.clone(),
            host_name: node.host.clone(),
            datanode_uuid: node.id.clone(),
            xfer_port: node.xfer_port.into(),
            info_port: node.info_port.into(),
            ipc_port: node.ipc_port.into(),
            info_secure_port: node.info_secure_port.map(u32::from),
        };
        Self { id, location: node.rack.clone(), ..Self::default() }
    }
}

impl Node {
    pub(crate) fn ipc_addr(&self) -> String {
        proto::DatanodeInfoProto::from(self).id.ipc_addr()
    }
}

impl From<&Node> for Member {
    fn from(node: &Node) -> Self {
        Self {
            info: node.into(),
            storage_type: node.storage_type.unwrap_or(proto::StorageTypeProto::Disk as i32),
            storage: node.storage.clone().unwrap_or_default(),
        }
    }
}

impl From<proto::TokenProto> for Token {
    fn from(token: proto::TokenProto) -> Self {
        let proto::TokenProto { identifier, password, kind, service } = token;
        Self { identifier, password, kind, service }
    }
}

impl From<Token> for proto::TokenProto {
    fn from(token: Token) -> Self {
        let Token { identifier, password, kind, service } = token;
        Self { identifier, password, kind, service }
    }
}

impl From<proto::LocatedBlockProto> for Located {
    fn from(block: proto::LocatedBlockProto) -> Self {
        let mut storages = block.storage_i_ds.into_iter();
        let mut storage_types = block.storage_types.into_iter();
        let nodes = block.locs.into_iter().map(|info| Node {
            storage: storages.next(),
            storage_type: storage_types.next(),
            ..Node::from(info)
        });
        Self {
            offset: block.offset,
            len: block.b.num_bytes.unwrap_or(0),
            identity: block.b.into(),
            token: block.block_token.into(),
            nodes: nodes.collect(),
            is_striped: block.block_indices.is_some(),
        }
    }
}

impl Located {
    /// This block, as if one node alone had it: what a complaint about its replica names.
    pub(crate) fn only_on(&self, node: &Node) -> proto::LocatedBlockProto {
        proto::LocatedBlockProto {
            b: self.identity.message(),
            offset: self.offset,
            locs: vec![node.into()],
            block_token: self.token.clone().into(),
            storage_types: node.storage_type.into_iter().collect(),
            storage_i_ds: node.storage.clone().into_iter().collect(),
            ..Default::default()
        }
    }

    /// READ_BLOCK of a range of it.
    pub(crate) fn read_request(&self, holder: &str, range: xfer::read::Range) -> Result<Vec<u8>, Fault> {
        xfer::read::request(self.identity.message(), self.token.clone().into(), holder.to_owned(), range)
    }

    /// BLOCK_CHECKSUM of its first `len` bytes.
    pub(crate) fn checksum_request(&self, len: u64) -> Result<Vec<u8>, Fault> {
        let request = proto::OpBlockChecksumProto {
            header: proto::BaseHeaderProto {
                block: Identity { len, ..self.identity.clone() }.message(),
                token: Some(self.token.clone().into()),
                trace_info: None,
            },
            block_checksum_options: None,
        };
        xfer::request::encode(wire::Op::BlockChecksum, &request)
    }

    /// What is written when it is new.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.nodes.iter().map(Member::from).collect()
    }
}

impl From<proto::LocatedBlocksProto> for FilePart {
    fn from(part: proto::LocatedBlocksProto) -> Self {
        let any_block = part.blocks.first().or(part.last_block.as_ref());
        Self {
            file: any_block.and_then(|block| file_of(&block.block_token)),
            file_len: part.file_length,
            blocks: part.blocks.into_iter().map(Located::from).collect(),
            last: part.last_block.map(Located::from),
            is_open: part.under_construction && !part.is_last_block_complete,
        }
    }
}

/// The file that a token names, if it is one of ours.
fn file_of(token: &proto::TokenProto) -> Option<u64> {
    let scope = wire::BlockScope::decode(&token.identifier).ok().flatten()?;
    Some(scope.file.0)
}

/// Nodes, as a server is told not to give them.
pub(crate) fn excluded<'n>(nodes: impl Iterator<Item = &'n Node>) -> Vec<proto::DatanodeInfoProto> {
    nodes.map(proto::DatanodeInfoProto::from).collect()
}

/// As `excluded`, if no more is known of them than their ids.
pub(crate) fn excluded_ids(ids: Vec<String>) -> impl Iterator<Item = proto::DatanodeInfoProto> {
    ids.into_iter().map(|id| proto::DatanodeInfoProto {
        id: proto::DatanodeIdProto { datanode_uuid: id, ..Default::default() },
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> proto::DatanodeInfoProto {
        let id = proto::DatanodeIdProto {
            ip_addr: "10.0.0.1".into(),
            host_name: "one".into(),
            datanode_uuid: "uuid".into(),
            xfer_port: 9866,
            info_port: 9864,
            ipc_port: 9867,
            info_secure_port: Some(9865),
        };
        proto::DatanodeInfoProto { id, location: Some("/rack".into()), ..Default::default() }
    }

    /// Servers and nodes find a node again by what they said of it.
    #[test]
    fn a_node_comes_back_as_it_was_named() {
        let node = Node::from(info());
        assert_eq!(&*node.addr, "10.0.0.1:9866");
        assert_eq!(proto::DatanodeInfoProto::from(&node), info());
    }

    /// Lists of storages that are shorter than that of the nodes, as a server of HDFS may send them.
    #[test]
    fn a_complaint_names_one_replica_and_its_storage() {
        let located = Located::from(proto::LocatedBlockProto {
            locs: vec![info(), info()],
            storage_i_ds: vec!["DS-1".into()],
            storage_types: vec![3],
            ..Default::default()
        });
        let told = |place: usize| located.only_on(&located.nodes[place]);
        assert_eq!((told(0).storage_i_ds, told(0).storage_types), (vec!["DS-1".to_owned()], vec![3]));
        assert_eq!((told(1).storage_i_ds.len(), told(1).storage_types.len(), told(1).locs.len()), (0, 0, 1));
        let members = located.members();
        assert_eq!((members[0].storage_type, members[1].storage_type), (3, proto::StorageTypeProto::Disk as i32));
    }
}
