//! What a failed call is answered with: a Java exception's class and a message.
//!
//! The class decides what clients do (retry, fail over, answer false to their caller), so it must be exactly Java's
//! binary name, inner classes behind a `$`. The first line of the message is what people see.

use crate::proto::RpcErrorCodeProto as Code;

/// What a refusal is, for our own clients. Those of HDFS pass it over; nobody reads it from a message.
pub use crate::proto::DetailProto as Detail;
pub use crate::proto::KindProto as Kind;

/// An answer other than success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{class}: {message}")]
pub struct Exception {
    pub class: &'static str,
    pub message: String,
    /// A FATAL code ends the connection once the answer is out.
    pub code: Code,
    pub detail: Option<Box<Detail>>,
}

impl Exception {
    /// The failure of one call; the connection stays.
    pub fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), code: Code::ErrorApplication, detail: None }
    }

    /// `java.io.IOException`, for whatever clients do not tell apart.
    pub fn io(message: impl Into<String>) -> Self {
        Self::new(IO, message)
    }

    /// What some client calls take as the sign to use an older one.
    pub fn no_such_method(method: &str, protocol: &str) -> Self {
        let message = format!("Unknown method {method} called on {protocol} protocol.");
        Self { code: Code::ErrorNoSuchMethod, ..Self::new(RPC_NO_SUCH_METHOD, message) }
    }

    pub fn no_such_protocol(protocol: &str) -> Self {
        let message = format!("Unknown protocol: {protocol}");
        Self { code: Code::ErrorNoSuchProtocol, ..Self::new(RPC_NO_SUCH_PROTOCOL, message) }
    }

    /// The protocol is known, but not at the client's version.
    pub fn protocol_version(protocol: &str, client: u64, server: u64) -> Self {
        let message = format!("Protocol {protocol} version mismatch. (client = {client}, server = {server})");
        Self { code: Code::ErrorRpcVersionMismatch, ..Self::new(RPC_VERSION_MISMATCH, message) }
    }

    /// The request message of a call cannot be read.
    pub fn malformed_request(method: &str, reason: impl std::fmt::Display) -> Self {
        let message = format!("the request of {method} cannot be read: {reason}");
        Self { code: Code::ErrorRpcServer, ..Self::new(RPC_SERVER, message) }
    }

    /// The connection cannot go on: a client broke the rules of RPC.
    pub fn fatal(code: Code, message: impl Into<String>) -> Self {
        let fatal = Self { code, ..Self::new(RPC_SERVER, message) };
        assert!(fatal.is_fatal());
        fatal
    }

    /// The connection is refused to this user.
    pub fn unauthorized(class: &'static str, message: impl Into<String>) -> Self {
        Self { code: Code::FatalUnauthorized, ..Self::new(class, message) }
    }

    /// The same, for our own clients too.
    pub fn with_kind(self, kind: Kind) -> Self {
        Self { detail: Some(Box::new(Detail::of(kind))), ..self }
    }

    /// True when the connection ends with this answer.
    pub fn is_fatal(&self) -> bool {
        self.code as i32 >= Code::FatalUnknown as i32
    }
}

impl Detail {
    pub fn of(kind: Kind) -> Self {
        Self { kind: Some(kind.into()), ..Self::default() }
    }

    /// `None`: there is none, or one that this version does not know.
    pub fn known_kind(&self) -> Option<Kind> {
        self.kind.and_then(|number| Kind::try_from(number).ok())
    }
}

// Java's own.
pub const IO: &str = "java.io.IOException";
pub const FILE_NOT_FOUND: &str = "java.io.FileNotFoundException";
pub const ILLEGAL_ARGUMENT: &str = "java.lang.IllegalArgumentException";
pub const UNSUPPORTED_OPERATION: &str = "java.lang.UnsupportedOperationException";
pub const ASSERTION: &str = "java.lang.AssertionError";
pub const SASL: &str = "javax.security.sasl.SaslException";

// Hadoop's file systems.
pub const HADOOP_ILLEGAL_ARGUMENT: &str = "org.apache.hadoop.HadoopIllegalArgumentException";
pub const FILE_ALREADY_EXISTS: &str = "org.apache.hadoop.fs.FileAlreadyExistsException";
pub const PARENT_NOT_DIRECTORY: &str = "org.apache.hadoop.fs.ParentNotDirectoryException";
pub const PATH_IS_NOT_DIRECTORY: &str = "org.apache.hadoop.fs.PathIsNotDirectoryException";
pub const PATH_IS_NOT_EMPTY_DIRECTORY: &str = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException";
pub const INVALID_PATH: &str = "org.apache.hadoop.fs.InvalidPathException";
pub const START_AFTER_NOT_FOUND: &str = "org.apache.hadoop.fs.DirectoryListingStartAfterNotFoundException";

// Security.
pub const ACCESS_CONTROL: &str = "org.apache.hadoop.security.AccessControlException";
pub const AUTHORIZATION: &str = "org.apache.hadoop.security.authorize.AuthorizationException";
/// A block token that a datanode does not take.
pub const INVALID_BLOCK_TOKEN: &str = "org.apache.hadoop.hdfs.security.token.block.InvalidBlockTokenException";
pub const INVALID_TOKEN: &str = "org.apache.hadoop.security.token.SecretManager$InvalidToken";

// Which server, and when.
pub const STANDBY: &str = "org.apache.hadoop.ipc.StandbyException";
pub const RETRIABLE: &str = "org.apache.hadoop.ipc.RetriableException";
pub const HEALTH_CHECK_FAILED: &str = "org.apache.hadoop.ha.HealthCheckFailedException";
pub const SAFE_MODE: &str = "org.apache.hadoop.hdfs.server.namenode.SafeModeException";

// RPC itself.
pub const RPC_SERVER: &str = "org.apache.hadoop.ipc.RpcServerException";
pub const RPC_NO_SUCH_METHOD: &str = "org.apache.hadoop.ipc.RpcNoSuchMethodException";
pub const RPC_NO_SUCH_PROTOCOL: &str = "org.apache.hadoop.ipc.RpcNoSuchProtocolException";
pub const RPC_VERSION_MISMATCH: &str = "org.apache.hadoop.ipc.RPC$VersionMismatch";

// Writing.
pub const LEASE_EXPIRED: &str = "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException";
pub const ALREADY_BEING_CREATED: &str = "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException";
pub const RECOVERY_IN_PROGRESS: &str = "org.apache.hadoop.hdfs.protocol.RecoveryInProgressException";
pub const NOT_REPLICATED_YET: &str = "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException";
pub const REPLICA_NOT_FOUND: &str = "org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException";

// Limits.
pub const NAMESPACE_QUOTA_EXCEEDED: &str = "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException";
pub const SPACE_QUOTA_EXCEEDED: &str = "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException";
pub const TYPE_QUOTA_EXCEEDED: &str = "org.apache.hadoop.hdfs.protocol.QuotaByStorageTypeExceededException";
pub const NAME_TOO_LONG: &str = "org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException";
pub const DIRECTORY_FULL: &str = "org.apache.hadoop.hdfs.protocol.FSLimitException$MaxDirectoryItemsExceededException";

// Features.
pub const SNAPSHOT: &str = "org.apache.hadoop.hdfs.protocol.SnapshotException";
pub const ACL: &str = "org.apache.hadoop.hdfs.protocol.AclException";
pub const XATTR_NOT_FOUND: &str = "org.apache.hadoop.hdfs.protocol.XAttrNotFoundException";
pub const NO_EC_POLICY_SET: &str = "org.apache.hadoop.hdfs.protocol.NoECPolicySetException";
pub const UNSUPPORTED_ACTION: &str = "org.apache.hadoop.hdfs.server.namenode.UnsupportedActionException";

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients compare these texts and names, so they are as in Hadoop to the letter.
    #[test]
    fn clients_fall_back_on_exactly_this() {
        let exception = Exception::no_such_method("getQuotaUsage", crate::protocol::CLIENT);
        assert_eq!(
            exception.to_string(),
            "org.apache.hadoop.ipc.RpcNoSuchMethodException: Unknown method getQuotaUsage called on \
             org.apache.hadoop.hdfs.protocol.ClientProtocol protocol."
        );
        assert_eq!(exception.code as i32, 2);
        let exception = Exception::no_such_protocol("x");
        assert_eq!((exception.message.as_str(), exception.code as i32), ("Unknown protocol: x", 3));
    }

    #[test]
    fn only_fatal_codes_end_a_connection() {
        assert!(!Exception::io("x").is_fatal());
        assert!(!Exception::protocol_version("p", 2, 1).is_fatal());
        assert!(Exception::unauthorized(ACCESS_CONTROL, "x").is_fatal());
        assert!(Exception::fatal(Code::FatalUnknown, "x").is_fatal());
    }
}
