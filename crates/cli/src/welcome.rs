//! What `levada up` says when a store is ready: where it is, what is protected, and what to try.

use crate::config::fs_of;
use crate::hadoop;
use crate::reach::Reach;
use crate::secure::Kerberos;
use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

/// The last lines of `up`: endpoints, and what to try.
pub(crate) struct Welcome<'a> {
    pub(crate) seconds: f64,
    pub(crate) dir: &'a Path,
    pub(crate) rpc: &'a [String],
    /// The status page's URL.
    pub(crate) http: &'a str,
    pub(crate) data: &'a [SocketAddr],
    pub(crate) reach: &'a Reach,
    pub(crate) security: Option<Security<'a>>,
}

/// What is protected of a secure store.
pub(crate) struct Security<'a> {
    /// How blocks travel: `authentication`, `integrity` or `privacy`.
    pub(crate) data_transfer: &'a str,
    pub(crate) kerberos: Option<&'a Kerberos>,
}

impl fmt::Display for Security<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = match self.data_transfer {
            "privacy" => "blocks travel encrypted",
            "integrity" => "blocks travel sealed against changes, and readable for who listens",
            _ => "blocks are passed to who proves himself, and travel readable for who listens",
        };
        write!(f, "Servers prove to each other who they are, and {blocks}.")?;
        match self.kerberos {
            Some(_) => write!(
                f,
                "\nUsers prove by Kerberos who they are. How calls travel each client chooses: encrypted with levada, \
                 and with\n\
                 the files of HADOOP_CONF_DIR below; by Hadoop's default with the proof alone, readable for who \
                 listens."
            ),
            None => write!(
                f,
                "\nUsers are who they say they are, for want of --principal and --keytab, and calls travel as they are."
            ),
        }
    }
}

impl Welcome<'_> {
    pub(crate) fn text(&self, hadoop_conf: Option<&Path>) -> String {
        let Self { seconds, dir, rpc, http, data, reach, security } = self;
        let fs = fs_of(rpc);
        let mut text = format!("Levada is ready after {seconds:.2} s. Its data is in {}.\n\n", dir.display());
        if rpc.len() > 1 {
            // Only our own client takes a URL with several servers.
            let _ =
                writeln!(text, "  {:<28} files, for every HDFS client with HADOOP_CONF_DIR as below", hadoop::url(rpc));
            let _ = writeln!(text, "  {fs:<28} the same, for levada");
        } else {
            let _ = writeln!(text, "  {fs:<28} files, for every HDFS client");
        }
        let _ = writeln!(text, "  {:<28} status and metrics", http);
        let nodes: Vec<String> = data.iter().map(SocketAddr::to_string).collect();
        let _ = writeln!(text, "  {:<28} datanodes", nodes.join(" "));
        if let Some((name, _)) = reach.outside() {
            let _ = writeln!(
                text,
                "\nClients outside of this machine's networks are told to dial {name}, all others these addresses."
            );
        }
        if !reach.is_local() && security.is_none() {
            let _ = writeln!(
                text,
                "\nWhoever reaches its ports may read and delete everything: keep them to a network that you \
                 trust, or give --secure."
            );
        }
        if let Some(security) = security {
            let _ = writeln!(text, "\n{security}");
        }
        let _ = writeln!(text, "\nTry, in another terminal:\n");
        let url = hadoop_conf.map_or(fs, |conf| {
            let _ = writeln!(text, "  export HADOOP_CONF_DIR={}", conf.display());
            hadoop::url(rpc)
        });
        if let Some(Kerberos { principal, keytab }) = security.as_ref().and_then(|security| security.kerberos) {
            // Nobody else may write anything yet.
            let _ = writeln!(text, "  kinit -kt {} {principal}   # as the superuser", keytab.display());
        }
        let _ = writeln!(text, "  hdfs dfs -ls {url}/");
        let _ = writeln!(
            text,
            "  python3 -c \"import hdfs_native as h; print(list(h.Client('{url}').list_status('/')))\"   # pip \
             install hdfs-native"
        );
        let _ = writeln!(text, "  {} put /etc/hosts {url}/", own_name());
        if security.as_ref().is_some_and(|security| security.kerberos.is_some()) {
            let levada = own_name();
            let _ = writeln!(text, "\nUsers have no home directory until the superuser makes it, as for ada:\n");
            let _ = writeln!(text, "  {levada} mkdir -p {url}/user/ada && {levada} chown ada {url}/user/ada");
        }
        let _ = write!(text, "\nCtrl-C stops it; the data stays.");
        text
    }
}

/// How to call this program from a shell elsewhere: by its name if the shell found it by that, else by its path.
fn own_name() -> String {
    let called = std::env::args().next().unwrap_or_default();
    let path = std::env::current_exe().ok().filter(|_| called.contains('/'));
    path.map_or_else(|| "levada".into(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_say_what_is_protected_and_how_to_begin() {
        let kerberos = Kerberos { principal: "nn/localhost@EXAMPLE.COM".into(), keytab: "/etc/nn.keytab".into() };
        let (rpc, data) = (["localhost:8020".to_owned()], []);
        let reach = Reach::new(None, None, 8020).unwrap();
        let text = |data_transfer, kerberos| {
            let security = Some(Security { data_transfer, kerberos });
            let http = "https://127.0.0.1:9870";
            let welcome =
                Welcome { seconds: 1.0, dir: "/s".as_ref(), rpc: &rpc, http, data: &data, reach: &reach, security };
            welcome.text(Some("/s/conf/hadoop".as_ref()))
        };
        let secure = text("privacy", Some(&kerberos));
        for line in [
            "blocks travel encrypted",
            "by Hadoop's default with the proof alone",
            "  export HADOOP_CONF_DIR=/s/conf/hadoop\n  kinit -kt /etc/nn.keytab nn/localhost@EXAMPLE.COM ",
            "  hdfs dfs -ls hdfs://localhost:8020/\n",
            "mkdir -p hdfs://localhost:8020/user/ada",
        ] {
            assert!(secure.contains(line), "{line:?} is not in\n{secure}");
        }
        let simple = text("integrity", None);
        assert!(simple.contains("readable for who listens") && simple.contains("who they say they are"), "{simple}");
        assert!(!simple.contains("kinit") && !simple.contains("/user/"), "{simple}");
    }

    #[test]
    fn who_else_reaches_it_is_said() {
        let advertised = "gate:18020".parse().unwrap();
        let everywhere = Reach::new(Some("0.0.0.0"), Some(&advertised), 8020).unwrap();
        let here = Reach::new(None, None, 8020).unwrap();
        let rpc = ["gate:18020".to_owned()];
        let text = |reach| {
            let http = "http://gate:19870";
            Welcome { seconds: 1.0, dir: "/s".as_ref(), rpc: &rpc, http, data: &[], reach, security: None }.text(None)
        };
        assert!(text(&everywhere).contains("are told to dial gate,"), "{}", text(&everywhere));
        assert!(text(&everywhere).contains("Whoever reaches its ports") && !text(&here).contains("Whoever"));
    }
}
