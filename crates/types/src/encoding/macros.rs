//! How a type says its fields and variants. Each names all fields of the type, or does not compile; golden bytes hold
//! the numbers.

/// A record: `record!(Point { 0: x, 1: y })`. Fields behind `without` are not written, and read as their default;
/// `absent` is what the record itself is as a field that is missing.
#[macro_export]
macro_rules! record {
    ($type:ident { $($number:literal : $field:ident),* $(,)? }
        $(without { $($left_out:ident),* })? $(absent $absent:expr)?) => {
        impl $crate::encoding::Encoded for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                const _: () = assert!($crate::encoding::are_in_order(&[$($number),*]));
                let Self { $($field,)* $($($left_out: _,)*)? } = self;
                #[allow(unused_mut)]
                let mut record = $crate::encoding::Begun::new(out);
                $(record.field($field, out);)*
                record.end(out);
            }

            fn decode(input: &mut $crate::encoding::Input<'_>) -> Result<Self, $crate::encoding::DecodeError> {
                #[allow(unused_mut)]
                let mut fields = input.record(stringify!($type))?;
                let record = Self { $($field: fields.field()?,)* $($($left_out: Default::default(),)*)? };
                fields.end()?;
                Ok(record)
            }

            $(fn absent() -> Option<Self> {
                Some($absent)
            }

            fn is_absent(&self) -> bool {
                *self == $absent
            })?
        }
    };
}

/// An enum whose variants have fields, or may get some:
/// `variants!(Shape { 0 => Point, 1 => Circle { 0: radius }, 2 => Text(0: text), 3 => Path[path] })`. In brackets is a
/// record or an enum that stands for the variant's own.
#[macro_export]
macro_rules! variants {
    ($type:ident { $($number:literal => $variant:ident
        $({ $($n:literal : $field:ident),* $(,)? })? $(( $($p:literal : $place:ident),* ))? $([ $inner:ident ])?),*
        $(,)? }) => {
        impl $crate::encoding::Encoded for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field),* })? $(( $($place),* ))? $(( $inner ))? => {
                        $crate::encoding::Encoded::encode(&($number as u64), out);
                        $crate::encode_variant!(out $({ $($n: $field),* })? $(( $($p: $place),* ))? $([ $inner ])?);
                    })*
                }
            }

            fn decode(input: &mut $crate::encoding::Input<'_>) -> Result<Self, $crate::encoding::DecodeError> {
                match u64::decode(input)? {
                    $($number => $crate::decode_variant!(
                        input, $type, $variant $({ $($n: $field),* })? $(( $($p: $place),* ))? $([ $inner ])?
                    ),)*
                    number => Err($crate::encoding::DecodeError::UnknownVariant { of: stringify!($type), number }),
                }
            }
        }
    };
}

/// Part of [`variants!`].
#[doc(hidden)]
#[macro_export]
macro_rules! encode_variant {
    ($out:ident [ $inner:ident ]) => {
        $inner.encode($out)
    };
    ($out:ident) => {
        $crate::encoding::Begun::new($out).end($out)
    };
    ($out:ident { $($number:literal : $field:ident),* }) => {{
        const _: () = assert!($crate::encoding::are_in_order(&[$($number),*]));
        let mut record = $crate::encoding::Begun::new($out);
        $(record.field($field, $out);)*
        record.end($out);
    }};
    ($out:ident ( $($number:literal : $field:ident),* )) => {
        $crate::encode_variant!($out { $($number : $field),* })
    };
}

/// Part of [`variants!`].
#[doc(hidden)]
#[macro_export]
macro_rules! decode_variant {
    ($input:ident, $type:ident, $variant:ident [ $inner:ident ]) => {
        $crate::encoding::Encoded::decode($input).map(Self::$variant)
    };
    ($input:ident, $type:ident, $variant:ident) => {{
        $input.record(concat!(stringify!($type), "::", stringify!($variant)))?.end()?;
        Ok(Self::$variant)
    }};
    ($input:ident, $type:ident, $variant:ident { $($number:literal : $field:ident),* }) => {{
        let mut fields = $input.record(concat!(stringify!($type), "::", stringify!($variant)))?;
        let value = Self::$variant { $($field: fields.field()?),* };
        fields.end()?;
        Ok(value)
    }};
    ($input:ident, $type:ident, $variant:ident ( $($number:literal : $place:ident),* )) => {{
        let mut fields = $input.record(concat!(stringify!($type), "::", stringify!($variant)))?;
        $(let $place = fields.field()?;)*
        fields.end()?;
        Ok(Self::$variant($($place),*))
    }};
}

/// An enum that is a number and will never be more: `numbered!(Colour { 0 => Red, 1 => Blue })`.
#[macro_export]
macro_rules! numbered {
    ($type:ident { $($number:literal => $variant:ident),* $(,)? }) => {
        impl $crate::encoding::Encoded for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                let number: u64 = match self { $(Self::$variant => $number,)* };
                number.encode(out);
            }

            fn decode(input: &mut $crate::encoding::Input<'_>) -> Result<Self, $crate::encoding::DecodeError> {
                match u64::decode(input)? {
                    $($number => Ok(Self::$variant),)*
                    number => Err($crate::encoding::DecodeError::UnknownVariant { of: stringify!($type), number }),
                }
            }
        }
    };
}
