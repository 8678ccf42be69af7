//! What `levada` says to words that it does not understand.

use std::process::Command;

fn said(words: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_levada"));
    for name in ["LEVADA_URL", "LEVADA_GATEWAY", "LEVADA_PATIENCE"] {
        command.env_remove(name);
    }
    let done = command.args(words).envs(environment.iter().copied()).output().unwrap();
    assert_eq!(done.status.code(), Some(2), "{words:?}");
    String::from_utf8(done.stderr).unwrap()
}

/// What the environment says is no part of a command line, so nobody is asked to write it there.
#[test]
fn the_usage_is_the_same_whatever_the_environment_says() {
    let set = [("LEVADA_URL", "hdfs://h:8020"), ("LEVADA_GATEWAY", "h:1"), ("LEVADA_PATIENCE", "1s")];
    for words in [&["put"][..], &["mv", "/one"], &["ls", "--nonsense"], &["admin", "datanode", "drain"], &["admin"]] {
        let usage = |text: &str| text.lines().find(|line| line.starts_with("Usage:")).unwrap_or_default().to_owned();
        let (without, with) = (usage(&said(words, &[])), usage(&said(words, &set)));
        assert!(!without.is_empty(), "{words:?}");
        assert_eq!(with, without, "{words:?}");
    }
    let said = said(&["put"], &[("LEVADA_PATIENCE", "long")]);
    assert!(said.contains("invalid value 'long'"), "what is wrong in the environment is told: {said}");
}
