//! The servers of a store from their start to their end, wherever they run.

use super::plan::Plan;
use crate::roles::{DataReady, MetaReady, StartError};
use std::convert::Infallible;

/// All servers of one store. They are stopped also where only some of them have started.
pub(super) trait Servers: Default {
    /// Where they are reached, metadata servers first.
    async fn start(&mut self, plan: &Plan) -> Result<(Vec<MetaReady>, Vec<DataReady>), StartError>;

    /// Answers when the store cannot go on.
    async fn failure(&mut self) -> StartError;

    /// Ends the datanodes first. A datanode says goodbye to a metadata server that runs: what starts next need not wait
    /// for who may be there.
    async fn stop(self);
}

/// Runs a store until it is to stop, or cannot go on.
pub(super) async fn run<S: Servers>(
    plan: &Plan,
    stop: impl Future<Output = ()>,
    report: impl Fn(&[MetaReady], &[DataReady]) -> Result<(), StartError>,
) -> Result<(), StartError> {
    let _keeper = plan.certificates.clone().map(|all| io::task::spawn_owned("certificates", all.keep()));
    let mut servers = S::default();
    // A start may last for ever: of a datanode that no metadata server takes, for one.
    let end = tokio::select! {
        () = stop => Ok(()),
        end = serve(&mut servers, plan, report) => end.map(|never| match never {}),
    };
    servers.stop().await;
    end
}

async fn serve(
    servers: &mut impl Servers,
    plan: &Plan,
    report: impl Fn(&[MetaReady], &[DataReady]) -> Result<(), StartError>,
) -> Result<Infallible, StartError> {
    let (metas, nodes) = servers.start(plan).await?;
    plan.remember()?;
    plan.make_home(&metas).await;
    report(&metas, &nodes)?;
    Err(servers.failure().await)
}
