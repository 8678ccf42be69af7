//! `levada admin log-level`

use crate::shell::{Common, Failure, Session, Stop};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// error, warn, info, debug or trace, or directives as RUST_LOG has them; reset: as the configuration of each says
    #[arg(value_name = "LEVEL")]
    level: String,
    /// Metadata servers by address, host:port; datanodes by id, its beginning, or address [default: all of both]
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Each server is told by itself: one that cannot be reached is reported, and the others log as they are to.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let admin = target.client.admin();
    let level = if args.level == "reset" { "" } else { &args.level };
    let group = admin.members().await.map_err(|error| target.failure(&error))?;
    let metas: Vec<String> = group.members.into_iter().map(|member| member.addr).collect();
    let servers = match &args.servers[..] {
        [] => {
            let datanodes = admin.datanodes().await.map_err(|error| target.failure(&error))?;
            let live = datanodes.into_iter().filter(|node| node.live).map(|node| node.id);
            metas.iter().cloned().chain(live).collect()
        }
        named => named.to_vec(),
    };
    for server in &servers {
        let set = match metas.contains(server) {
            true => admin.set_log_level(server, level).await,
            false => admin.set_datanode_log_level(server, level).await,
        };
        if let Err(error) = set {
            session.report(&Failure::of(server, &error));
        }
    }
    Ok(())
}
