//! All roles in this process.

use super::plan::Plan;
use super::servers::Servers;
use crate::roles::{DataReady, DataRole, MetaReady, MetaRole, StartError};
use futures_util::future::select_all;

#[derive(Default)]
pub(super) struct InProcess {
    metas: Vec<MetaRole>,
    /// Those behind one that did not start are missing: they end as by a crash.
    nodes: Vec<DataRole>,
}

impl Servers for InProcess {
    async fn start(&mut self, plan: &Plan) -> Result<(Vec<MetaReady>, Vec<DataReady>), StartError> {
        for number in plan.meta_numbers() {
            self.metas.push(MetaRole::start(plan.meta_file(number)).await?);
        }
        let ready: Vec<MetaReady> = self.metas.iter().map(MetaRole::ready).collect();
        // All datanodes open their volumes at the same time.
        let starts: Vec<_> = (1..=plan.datanodes)
            .map(|number| io::task::spawn_owned("datanode start", DataRole::start(plan.data_file(number, &ready))))
            .collect();
        for start in starts {
            let node = start.await.map_err(|error| StartError::new("a datanode did not start", &error))?;
            self.nodes.push(node?);
        }
        Ok((ready, self.nodes.iter().map(DataRole::ready).collect()))
    }

    /// One metadata server that fails ends all, as they are one process.
    async fn failure(&mut self) -> StartError {
        let failures = self.metas.iter().map(|meta| Box::pin(meta.failed()));
        let (failure, _, _) = select_all(failures).await;
        failure
    }

    async fn stop(self) {
        for node in self.nodes {
            node.stop().await;
        }
        for meta in self.metas {
            meta.stop().await;
        }
    }
}
