//! Names of protocols on the wire. All are at version 1.

/// Clients to the namespace.
pub const CLIENT: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
/// Clients to a datanode, for the length of a block that is being written.
pub const CLIENT_DATANODE: &str = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";
/// Tools that ask which node of a nameservice is active.
pub const HA_SERVICE: &str = "org.apache.hadoop.ha.HAServiceProtocol";
/// `hdfs groups`.
pub const GET_USER_MAPPINGS: &str = "org.apache.hadoop.tools.GetUserMappingsProtocol";
/// `hdfs dfsadmin -refreshUserToGroupsMappings`.
pub const REFRESH_USER_MAPPINGS: &str = "org.apache.hadoop.security.RefreshUserMappingsProtocol";
/// `hdfs dfsadmin -refreshServiceAcl`.
pub const REFRESH_AUTHORIZATION_POLICY: &str =
    "org.apache.hadoop.security.authorize.RefreshAuthorizationPolicyProtocol";
/// `hdfs dfsadmin -refreshCallQueue`.
pub const REFRESH_CALL_QUEUE: &str = "org.apache.hadoop.ipc.RefreshCallQueueProtocol";
/// `hdfs dfsadmin -refresh`.
pub const GENERIC_REFRESH: &str = "org.apache.hadoop.ipc.GenericRefreshProtocol";
/// `hdfs dfsadmin -reconfig`.
pub const RECONFIGURATION: &str = "org.apache.hadoop.hdfs.protocol.ReconfigurationProtocol";
/// Among HDFS's servers; of it, `hdfs balancer` and tools like it ask where blocks are.
pub const NAMENODE: &str = "org.apache.hadoop.hdfs.server.protocol.NamenodeProtocol";

pub const VERSION: u64 = 1;
