//! Polynomials over GF(2) modulo those of checksums. All are reflected: bit 31 is x⁰.

pub(crate) const CRC32: u32 = 0xedb8_8320;
pub(crate) const CRC32C: u32 = 0x82f6_3b78;

/// Product of two polynomials modulo the CRC's, all reflected (bit 31 is x⁰).
pub(crate) const fn multiply(polynomial: u32, a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, 32);
    while bit > 0 {
        bit -= 1;
        if a >> bit & 1 == 1 {
            product ^= b;
        }
        b = if b & 1 == 1 { b >> 1 ^ polynomial } else { b >> 1 };
    }
    product
}

/// x^(8·bytes) modulo the polynomial, by squaring.
pub(crate) const fn power_of_x(polynomial: u32, bytes: u64) -> u32 {
    let mut power = 1 << 31; // x⁰
    let mut square = 1 << 23; // x⁸
    let mut left = bytes;
    while left > 0 {
        if left & 1 == 1 {
            power = multiply(polynomial, power, square);
        }
        square = multiply(polynomial, square, square);
        left >>= 1;
    }
    power
}
