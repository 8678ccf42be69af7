//! Calls of our own clients beyond HDFS's: `org.levada.ClientProtocol`.

mod add_leased;
mod explain;
mod held;
mod lease_blocks;
mod profile_list;
mod profiles;
mod put_file;

pub(crate) use add_leased::add_leased;
pub(crate) use explain::explain_file;
pub(crate) use lease_blocks::lease_blocks;
pub(crate) use profiles::{keep_profile, profile_of};
pub(crate) use put_file::put_file;
