//! Configuration files with every key explained, made of the tables in docs/configuration.md.
//!
//! Promise: a key is explained once, in the documentation, which a test of the program holds to the keys that there
//! are; and each key of a table is in a file. What a file does not set is a comment of the form `#key = value`, with
//! the default or, where that is no value, an example.

use std::error::Error;
use std::fmt::Write;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A configuration file of the package.
pub(crate) struct SettingsFile {
    /// Relative to the root of the repository.
    pub(crate) output: &'static str,
    /// What stands above the first table.
    head: &'static str,
    tables: &'static [Table],
}

struct Table {
    /// As in TOML, and in the heading of its table in the documentation.
    name: &'static str,
    /// Keys that the file sets.
    set: &'static [(&'static str, &'static str)],
    /// What a key may be whose default is no value.
    examples: &'static [(&'static str, &'static str)],
    /// Keys that have a table of their own.
    left_out: &'static [&'static str],
}

/// Where the documentation is, from the root of the repository.
pub(crate) const SOURCE: &str = "docs/configuration.md";

pub(crate) const FILES: &[SettingsFile] = &[
    SettingsFile {
        output: "packaging/etc/meta.toml",
        head: "\
# The metadata server of this machine (levada-meta(1)), started by: systemctl enable --now levada-meta
#
# As it is, it serves this machine alone. For others, bind it to all addresses (0.0.0.0) on a trusted network, or read
# docs/security.md first. A store has 1, 3 or 5 metadata servers: `members`. After a change:
# systemctl reload levada-meta, which says in the log what needs a restart. More of each setting is in
# docs/configuration.md, of which this file is made.
#
# Lines with # and no space after it are settings with their defaults, or with an example where the default is none.
# Times are in milliseconds, lengths in bytes, or as \"256M\".

# Where /status and /metrics are served, and fsck.
http_addr = \"127.0.0.1:9870\"

# HTTPS there, and nothing else: a certificate and its key, in PEM.
#https = { certificate = \"/etc/levada/https.crt\", key = \"/etc/levada/https.key\" }
",
        tables: &[
            Table {
                name: "[meta]",
                set: &[("dir", "\"/var/lib/levada/meta\""), ("rpc_addr", "\"127.0.0.1:8020\"")],
                examples: &[
                    (
                        "members",
                        "[{ id = 1, addr = \"meta1:8020\" }, { id = 2, addr = \"meta2:8020\" }, { id = 3, addr = \
                         \"meta3:8020\" }]",
                    ),
                    ("members_from", "[\"10.0.0.1\"]"),
                    ("topology_script", "\"/etc/levada/topology\""),
                    ("hosts_include", "\"/etc/levada/hosts\""),
                    ("inside", "[\"10.0.0.0/8\"]"),
                    ("hosts_exclude", "\"/etc/levada/hosts.exclude\""),
                    ("free_warn_len", "2147483648"),
                    ("free_reserve_len", "536870912"),
                ],
                left_out: &["security"],
            },
            Table {
                name: "[meta.security]",
                set: &[],
                examples: &[
                    ("node_certificates", "\"/var/lib/levada/meta-certificates\""),
                    ("authority", "\"/etc/levada/authority\""),
                    ("principal", "\"nn/_HOST@EXAMPLE.COM\""),
                    ("keytab", "\"/etc/levada/levada.keytab\""),
                    ("web_principal", "\"HTTP/_HOST@EXAMPLE.COM\""),
                    ("web_keytab", "\"/etc/levada/http.keytab\""),
                    ("realm", "\"EXAMPLE.COM\""),
                    ("proxy_users", "{ oozie = { users = \"ada,bob\", groups = \"staff\", hosts = \"10.0.0.0/8\" } }"),
                ],
                left_out: &[],
            },
            Table { name: "[log]", set: &[], examples: &[("file", "\"/var/log/levada/meta.log\"")], left_out: &[] },
        ],
    },
    SettingsFile {
        output: "packaging/etc/data.toml",
        head: "\
# The datanode of this machine (levada-data(1)), started by: systemctl enable --now levada-data
#
# As it is, it serves this machine alone, for a metadata server beside it. For others, name the metadata servers in
# `metad`, and bind it to all addresses (0.0.0.0) on a trusted network, or read docs/security.md first. Disks outside of
# /var/lib/levada, /srv, /mnt and /data need: systemctl edit levada-data, with [Service] and ReadWritePaths=/disk1
# After a change: systemctl reload levada-data, which says in the log what needs a restart. More of each setting is in
# docs/configuration.md, of which this file is made.
#
# Lines with # and no space after it are settings with their defaults, or with an example where the default is none.
# Times are in milliseconds, lengths in bytes, or as \"256M\".

# Where /status and /metrics are served; without it there is no page.
http_addr = \"127.0.0.1:9864\"

# HTTPS there, and nothing else: a certificate and its key, in PEM.
#https = { certificate = \"/etc/levada/https.crt\", key = \"/etc/levada/https.key\" }
",
        tables: &[
            Table {
                name: "[data]",
                set: &[
                    ("dir", "\"/var/lib/levada/data\""),
                    ("xfer_addr", "\"127.0.0.1:9866\""),
                    ("ipc_addr", "\"127.0.0.1:9867\""),
                    ("metad", "\"127.0.0.1:8020\""),
                ],
                examples: &[
                    ("dirs", "[\"/srv/disk1/levada\", \"/srv/disk2/levada\"]"),
                    ("metad_from", "[\"10.0.0.1\"]"),
                    ("ip", "\"10.0.0.11\""),
                    ("host", "\"node1.example.com\""),
                    ("outside_host", "\"store.example.com\""),
                    ("node_certificates", "\"/var/lib/levada/certificates\""),
                    ("domain_socket", "\"/run/levada/data._PORT\""),
                    ("free_reserve_len", "1000000000"),
                    ("congestion", "\"cubic\""),
                ],
                left_out: &[],
            },
            Table { name: "[data.limits]", set: &[], examples: &[], left_out: &[] },
            Table { name: "[log]", set: &[], examples: &[("file", "\"/var/log/levada/data.log\"")], left_out: &[] },
        ],
    },
];

impl SettingsFile {
    /// Its text; `documentation` is that of [`SOURCE`].
    pub(crate) fn text(&self, documentation: &str) -> Result<String> {
        let mut text = self.head.to_owned();
        for table in self.tables {
            write!(text, "\n{}\n", table.name)?;
            for row in rows(documentation, table.name)? {
                table.describe(&row, &mut text)?;
            }
        }
        Ok(text)
    }
}

impl Table {
    fn describe(&self, row: &Row<'_>, text: &mut String) -> Result<()> {
        let keys: Vec<&str> = row.keys.split(", ").map(|key| key.trim_matches('`')).collect();
        if keys.iter().any(|key| self.left_out.contains(key)) {
            return Ok(());
        }
        text.push('\n');
        wrap(&sentence(row.about), text);
        // What belongs together is in one row: as many defaults as keys, with commas between them.
        let defaults: Vec<&str> = match keys.len() {
            1 => vec![row.default],
            _ => row.default.split(", ").collect(),
        };
        if defaults.len() != keys.len() {
            return Err(format!("{}: {} and its defaults differ in number", self.name, row.keys).into());
        }
        for (key, default) in keys.into_iter().zip(defaults) {
            let of =
                |list: &[(&'static str, &'static str)]| list.iter().find(|(name, _)| *name == key).map(|pair| pair.1);
            if let Some(value) = of(self.set) {
                writeln!(text, "{key} = {value}")?;
            } else if let Some(example) = of(self.examples) {
                wrap(&format!("Default: {}.", plain(default)), text);
                writeln!(text, "#{key} = {example}")?;
            } else if is_value(default) {
                writeln!(text, "#{key} = {default}")?;
            } else {
                return Err(format!("{}: {key} needs an example, as its default is {default:?}", self.name).into());
            }
        }
        Ok(())
    }
}

/// A row of a table of the documentation: `| keys | default | about |`.
struct Row<'a> {
    keys: &'a str,
    default: &'a str,
    about: &'a str,
}

fn rows<'a>(documentation: &'a str, table: &str) -> Result<Vec<Row<'a>>> {
    let heading = format!("| key of `{table}` |");
    let lines = documentation.lines().skip_while(|line| !line.starts_with(&heading));
    // The heading, and the line below it.
    let mut rows = Vec::new();
    for line in lines.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [keys, default, about] = cells[..] else {
            return Err(format!("{SOURCE}: no row of three cells: {line}").into());
        };
        rows.push(Row { keys, default, about });
    }
    if rows.is_empty() {
        return Err(format!("{SOURCE} has no table of {table}").into());
    }
    Ok(rows)
}

/// A value of TOML that needs no more than one look.
fn is_value(default: &str) -> bool {
    let number = !default.is_empty() && default.chars().all(|digit| digit.is_ascii_digit());
    let enclosed = |open, close| default.starts_with(open) && default.ends_with(close);
    number || ["true", "false"].contains(&default) || enclosed('"', '"') || enclosed('[', ']')
}

/// Without Markdown: of a link only its text.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        // What `[` opened; addresses have no closing brackets in them.
        match (before.rsplit_once('['), after.split_once(')')) {
            (Some((before, name)), Some((_, after))) => {
                text.push_str(before);
                text.push_str(name);
                rest = after;
            }
            _ => break,
        }
    }
    text + rest
}

fn sentence(markdown: &str) -> String {
    let text = plain(markdown);
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

/// As comments, in lines of at most 100 characters.
fn wrap(sentence: &str, text: &mut String) {
    const WIDTH: usize = 100;
    let mut line = String::from("#");
    for word in sentence.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENTATION: &str = "\
| key of `[data.limits]` | default | |
|---|---|---|
| `a_ms`, `b_ms` | 2, 50 | until [it](x.md#y) ends |
| `c` | true | HDFS: `dfs.c`. |

| `other` | 1 | |
";

    #[test]
    fn a_row_becomes_a_comment_and_settings() {
        let table = Table { name: "[data.limits]", set: &[("c", "false")], examples: &[], left_out: &[] };
        let mut text = String::new();
        for row in rows(DOCUMENTATION, table.name).unwrap() {
            table.describe(&row, &mut text).unwrap();
        }
        assert_eq!(text, "\n# Until it ends.\n#a_ms = 2\n#b_ms = 50\n\n# HDFS: `dfs.c`.\nc = false\n");
        assert!(rows(DOCUMENTATION, "[meta]").is_err());
    }

    #[test]
    fn a_default_in_words_needs_an_example() {
        let row = Row { keys: "`d`", default: "a tenth", about: "room" };
        let mut table = Table { name: "[t]", set: &[], examples: &[], left_out: &[] };
        let mut text = String::new();
        assert!(table.describe(&row, &mut text).is_err());
        table.examples = &[("d", "10")];
        text.clear();
        table.describe(&row, &mut text).unwrap();
        assert_eq!(text, "\n# Room.\n# Default: a tenth.\n#d = 10\n");
    }
}
