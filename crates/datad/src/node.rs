//! A datanode put together: each part is given what it needs of the others, and none knows the whole.
//!
//! ```text
//! Replicas ◀── Admission · Contents · Copier, Scrubber … (Maintenance)
//!    ▲
//! DataService ◀── Writes · SmallWrites ◀── DataPort
//! ```

use crate::admission::Admission;
use crate::config::Config;
use crate::data_port::DataPort;
use crate::data_service::DataService;
use crate::layouts::Layouts;
use crate::maintenance::Maintenance;
use crate::operations::Operations;
use crate::replicas::Replicas;
use crate::small::SmallWrites;
use crate::stop::Stop;
use crate::write::Writes;
use disks::Disks;
use io::{ConnectionLimit, SystemClock};
use metrics::Registry;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) service: Arc<DataService>,
    pub(crate) port: Arc<DataPort>,
    pub(crate) maintenance: Arc<Maintenance>,
    pub(crate) stop: Arc<Stop>,
}

impl Node {
    pub(crate) fn new(config: &Config, disks: Disks, registry: &mut Registry) -> std::io::Result<Self> {
        let (stop, operations) = (Arc::new(Stop::new()?), Arc::new(Operations::new(registry)));
        let layouts = Layouts::new(registry, &disks, config.layout_cache_len);
        let replicas = Arc::new(Replicas::new(disks, config.metads().len(), SystemClock::new()));
        let admission = Admission::new(Arc::clone(&replicas), Arc::clone(&operations), &config.limits);
        let admission = Arc::new(admission);
        let service = DataService::new(
            Arc::clone(&replicas),
            Arc::clone(&admission),
            Arc::clone(&operations),
            Arc::clone(&stop),
            config,
        );
        let service = Arc::new(service);
        let (limits, outward) = (&config.limits, &service.outward);
        let maintenance = Arc::new(Maintenance::new(&replicas, &operations, &stop, limits, outward));
        let writes = Arc::new(Writes::new(Arc::clone(&service)));
        let small = Arc::new(SmallWrites::start(Arc::clone(&service))?);
        let port = Arc::new(DataPort {
            service: Arc::clone(&service),
            writes,
            small,
            layouts,
            connection_limit: ConnectionLimit::new(config.limits.connection_count_max),
        });
        Ok(Self { replicas, admission, service, port, maintenance, stop })
    }

    /// A metadata server that leads knows it. Before, and while there is none, it serves what it has, and gets no new
    /// blocks.
    pub(crate) fn is_registered(&self) -> bool {
        self.replicas.node.with(|node| node.servers.has_leader())
    }
}
