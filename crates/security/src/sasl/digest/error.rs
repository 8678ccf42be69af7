//! How an exchange fails.

/// Why an exchange ends without success. Whatever it is, the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("DIGEST-MD5: {what} of {len} bytes, at most {max} are allowed")]
    TooLong { what: &'static str, len: usize, max: usize },
    #[error("DIGEST-MD5: malformed directive at byte {at}")]
    Malformed { at: usize },
    #[error("DIGEST-MD5: directive {name} is missing")]
    Missing { name: &'static str },
    #[error("DIGEST-MD5: directive {} twice", types::excerpt(name))]
    Twice { name: String },
    #[error("DIGEST-MD5: {name} is not what was offered, or what this side supports")]
    Unsupported { name: &'static str },
    #[error("DIGEST-MD5: digest response format violation. Mismatched response.")]
    Proof,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_does_not_choose_how_long_a_line_of_the_log_is() {
        let twice = DigestError::Twice { name: "a".repeat(4000) };
        assert!(twice.to_string().len() < 200);
    }
}
