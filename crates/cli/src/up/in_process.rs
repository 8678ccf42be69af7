//! All roles in this process.

use super::plan::Plan;
use crate::roles::{DataReady, DataRole, MetaReady, MetaRole, StartError};
use futures_util::future::select_all;
use std::convert::Infallible;

pub(super) async fn run(
    plan: &Plan,
    stop: impl Future<Output = ()>,
    report: impl Fn(&[MetaReady], &[DataReady]) -> Result<(), StartError>,
) -> Result<(), StartError> {
    let _keeper = plan.certificates.clone().map(|all| io::task::spawn_owned("certificates", all.keep()));
    let (mut metas, mut nodes) = (Vec::new(), Vec::new());
    // A start may last for ever: of a datanode that no metadata server takes, for one.
    let end = tokio::select! {
        () = stop => Ok(()),
        end = serve(plan, report, &mut metas, &mut nodes) => end.map(|never| match never {}),
    };
    for node in nodes {
        node.stop().await;
    }
    for meta in metas {
        meta.stop().await;
    }
    end
}

/// Starts all, and watches them. What has started is in `metas` and `nodes`, for whoever stops it, but for datanodes
/// behind one that does not start: those end as by a crash.
async fn serve(
    plan: &Plan,
    report: impl Fn(&[MetaReady], &[DataReady]) -> Result<(), StartError>,
    metas: &mut Vec<MetaRole>,
    nodes: &mut Vec<DataRole>,
) -> Result<Infallible, StartError> {
    for number in plan.meta_numbers() {
        metas.push(MetaRole::start(plan.meta_file(number)).await?);
    }
    let ready: Vec<MetaReady> = metas.iter().map(MetaRole::ready).collect();
    // All datanodes open their volumes at the same time.
    let starts: Vec<_> = (1..=plan.datanodes)
        .map(|number| io::task::spawn_owned("datanode start", DataRole::start(plan.data_file(number, &ready))))
        .collect();
    for start in starts {
        let node = start.await.map_err(|error| StartError::new("a datanode did not start", &error))?;
        nodes.push(node?);
    }
    plan.remember()?;
    plan.make_home(&ready).await;
    report(&ready, &nodes.iter().map(DataRole::ready).collect::<Vec<_>>())?;
    Err(first_failure(metas).await)
}

/// Answers when one of the servers cannot go on.
async fn first_failure(metas: &[MetaRole]) -> StartError {
    let failures = metas.iter().map(|meta| Box::pin(meta.failed()));
    let (failure, _, _) = select_all(failures).await;
    failure
}
