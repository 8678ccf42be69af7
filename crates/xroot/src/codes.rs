//! The numbers of requests, responses and errors.

/// An enum of numbers of the wire, with the names that XRootD has for them.
macro_rules! numbers {
    ($(#[$doc:meta])* $enum:ident { $($(#[$of:meta])* $variant:ident = $number:literal $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $enum {
            $($(#[$of])* $variant = $number,)*
        }

        impl $enum {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            pub fn number(self) -> u16 {
                self as u16
            }

            /// XRootD's name for it, without `kXR_`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

numbers! {
    /// What a client asks for.
    RequestCode {
        Auth = 3000 "auth",
        Query = 3001 "query",
        Chmod = 3002 "chmod",
        Close = 3003 "close",
        Dirlist = 3004 "dirlist",
        Gpfile = 3005 "gpfile",
        Protocol = 3006 "protocol",
        Login = 3007 "login",
        Mkdir = 3008 "mkdir",
        Mv = 3009 "mv",
        Open = 3010 "open",
        Ping = 3011 "ping",
        Chkpoint = 3012 "chkpoint",
        Read = 3013 "read",
        Rm = 3014 "rm",
        Rmdir = 3015 "rmdir",
        Sync = 3016 "sync",
        Stat = 3017 "stat",
        Set = 3018 "set",
        Write = 3019 "write",
        Fattr = 3020 "fattr",
        Prepare = 3021 "prepare",
        Statx = 3022 "statx",
        Endsess = 3023 "endsess",
        Bind = 3024 "bind",
        Readv = 3025 "readv",
        Pgwrite = 3026 "pgwrite",
        Locate = 3027 "locate",
        Truncate = 3028 "truncate",
        Sigver = 3029 "sigver",
        Pgread = 3030 "pgread",
        Writev = 3031 "writev",
    }
}

numbers! {
    /// How a response stands to those before and behind it.
    ResponseStatus {
        Ok = 0 "ok",
        /// More responses to the same request follow.
        OkSoFar = 4000 "oksofar",
        Error = 4003 "error",
        /// Of a read by pages.
        Status = 4007 "status",
    }
}

numbers! {
    /// Why a request was refused. Clients decide by these whether to try again or elsewhere.
    ErrorCode {
        ArgInvalid = 3000 "ArgInvalid",
        ArgMissing = 3001 "ArgMissing",
        ArgTooLong = 3002 "ArgTooLong",
        FileNotOpen = 3004 "FileNotOpen",
        FsError = 3005 "FSError",
        InvalidRequest = 3006 "InvalidRequest",
        IoError = 3007 "IOError",
        NoMemory = 3008 "NoMemory",
        NotAuthorized = 3010 "NotAuthorized",
        NotFound = 3011 "NotFound",
        ServerError = 3012 "ServerError",
        Unsupported = 3013 "Unsupported",
        NotFile = 3015 "NotFile",
        IsDirectory = 3016 "isDirectory",
        Overloaded = 3024 "Overloaded",
        FsReadOnly = 3025 "fsReadOnly",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_say() {
        for code in RequestCode::ALL {
            assert_eq!(RequestCode::from_number(code.number()), Some(*code));
        }
        assert_eq!((RequestCode::from_number(2999), RequestCode::from_number(3032)), (None, None));
        assert_eq!((RequestCode::Pgread.number(), RequestCode::Readv.name()), (3030, "readv"));
        assert_eq!(ErrorCode::from_number(3011), Some(ErrorCode::NotFound));
    }
}
