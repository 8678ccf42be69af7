//! Names of protocols on the wire. All are at version 1.

/// Clients to the namespace.
pub const CLIENT: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
/// Clients to a datanode, for the length of a block that is being written.
pub const CLIENT_DATANODE: &str = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";
/// Tools that ask which node of a nameservice is active.
pub const HA_SERVICE: &str = "org.apache.hadoop.ha.HAServiceProtocol";
/// Tools that ask which methods a server has.
pub const PROTOCOL_META_INFO: &str = "org.apache.hadoop.ipc.ProtocolMetaInfoPB";
/// `hdfs groups`.
pub const GET_USER_MAPPINGS: &str = "org.apache.hadoop.tools.GetUserMappingsProtocol";
/// `hdfs dfsadmin -refreshUserToGroupsMappings`.
pub const REFRESH_USER_MAPPINGS: &str = "org.apache.hadoop.security.RefreshUserMappingsProtocol";

pub const VERSION: u64 = 1;
