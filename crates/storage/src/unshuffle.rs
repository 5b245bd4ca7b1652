//! Undoes the shuffling of bytes and of bits, which is done before elements are compressed.
//!
//! Bytes are interleaved in rounds: a round pairs the first half of the rows with the second half, and doubles the bytes that are
//! neighbours. After log2(n) rounds all n are. (Rows of 16 bytes: one instruction for each half of a pair.)

/// Bytes of a row.
const ROW: usize = 16;
type Row = [u8; ROW];

/// Puts the bytes of elements of `item` bytes together. `data` has the first bytes of all elements, then the second ones, and so on. Bytes
/// at its end that make no element are copied.
pub(crate) fn bytes(item: usize, data: &[u8], out: &mut [u8]) {
    let n = data.len() / item;
    let (elements, rest) = out.split_at_mut(n * item);
    rest.copy_from_slice(&data[n * item..]);
    match item {
        1 => elements.copy_from_slice(data),
        2 => interleave::<2>(|k| &data[k * n..][..n], elements),
        4 => interleave::<4>(|k| &data[k * n..][..n], elements),
        8 => interleave::<8>(|k| &data[k * n..][..n], elements),
        16 => interleave::<16>(|k| &data[k * n..][..n], elements),
        _ => scatter(item, |k| &data[k * n..][..n], elements),
    }
}

/// As [`bytes`], with the bytes of every place in a slice of their own.
pub(crate) fn planes(planes: &[&[u8]], out: &mut [u8]) {
    match planes.len() {
        1 => out.copy_from_slice(planes[0]),
        2 => interleave::<2>(|k| planes[k], out),
        4 => interleave::<4>(|k| planes[k], out),
        8 => interleave::<8>(|k| planes[k], out),
        16 => interleave::<16>(|k| planes[k], out),
        n => scatter(n, |k| planes[k], out),
    }
}

/// Puts the bits of elements of `item` bytes together, eight elements at a time. `scratch` is as long as `data`. If their number is not a
/// multiple of eight, they were not shuffled.
pub(crate) fn bits(item: usize, data: &[u8], scratch: &mut [u8], out: &mut [u8]) {
    let n = data.len() / item;
    if n == 0 || !n.is_multiple_of(8) {
        out.copy_from_slice(data);
        return;
    }
    let (shuffled, rest) = data.split_at(n * item);
    for (rows, plane) in shuffled.chunks_exact(n).zip(scratch.chunks_exact_mut(n)) {
        // Eight rows of bits. Eight bytes that stand above each other are the bits of eight bytes.
        interleave::<8>(|k| &rows[k * (n / 8)..][..n / 8], plane);
        for square in plane.as_chunks_mut::<8>().0 {
            *square = transpose(u64::from_le_bytes(*square)).to_le_bytes();
        }
    }
    let (elements, end) = out.split_at_mut(n * item);
    bytes(item, &scratch[..n * item], elements);
    end.copy_from_slice(rest);
}

/// Transposes eight by eight bits: Warren, "Hacker's Delight", section 7-3.
fn transpose(mut x: u64) -> u64 {
    for (shift, mask) in [(7, 0x00AA_00AA_00AA_00AA), (14, 0x0000_CCCC_0000_CCCC), (28, 0x0000_0000_F0F0_F0F0)] {
        let t = (x ^ (x >> shift)) & mask;
        x ^= t ^ (t << shift);
    }
    x
}

/// Elements of `N` bytes, a power of two, from `N` planes.
#[inline(always)]
fn interleave<'a, const N: usize>(plane: impl Fn(usize) -> &'a [u8], out: &mut [u8]) {
    let planes: [&[Row]; N] = std::array::from_fn(|k| plane(k).as_chunks().0);
    let (rows, _) = out.as_chunks_mut::<ROW>();
    let whole = planes[0].len();
    for (i, out) in rows.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        let mut rows: [Row; N] = std::array::from_fn(|k| planes[k][i]);
        let mut round = 1;
        while round < N {
            let pairs: [[Row; 2]; N] = std::array::from_fn(|k| if k < N / 2 { zip(rows[k], rows[k + N / 2]) } else { Default::default() });
            rows = std::array::from_fn(|k| pairs[k / 2][k % 2]);
            round *= 2;
        }
        *out = rows;
    }
    scatter(N, |k| &plane(k)[whole * ROW..], &mut out[whole * ROW * N..]);
}

/// Elements of any number of bytes.
fn scatter<'a>(item: usize, plane: impl Fn(usize) -> &'a [u8], out: &mut [u8]) {
    for k in 0..item {
        for (out, byte) in out.iter_mut().skip(k).step_by(item).zip(plane(k)) {
            *out = *byte;
        }
    }
}

/// The bytes of two rows in turns.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn zip(a: Row, b: Row) -> [Row; 2] {
    use std::arch::x86_64::{__m128i, _mm_unpackhi_epi8, _mm_unpacklo_epi8};
    let (a, b): (__m128i, __m128i) = (bytemuck::cast(a), bytemuck::cast(b));
    // SAFETY: every processor of this architecture has these instructions.
    bytemuck::cast(unsafe { [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)] })
}

/// The bytes of two rows in turns.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn zip(a: Row, b: Row) -> [Row; 2] {
    let of = |i: usize| if i % 2 == 0 { a[i / 2] } else { b[i / 2] };
    [std::array::from_fn(of), std::array::from_fn(|i| of(i + ROW))]
}

#[cfg(test)]
mod tests {
    use super::{bits, bytes, planes};

    fn random(n: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(n as u64);
        (0..n).map(|_| random.u8(..)).collect()
    }

    #[test]
    fn bytes_are_put_together() {
        for item in 1..40 {
            for n in [0, 1, 15, 16, 17, 100, 128] {
                for rest in [0, item - 1] {
                    let elements = random(n * item + rest);
                    let byte = |i: usize| if i < n * item { elements[i % n * item + i / n] } else { elements[i] };
                    let shuffled: Vec<u8> = (0..elements.len()).map(byte).collect();
                    let mut out = vec![0; elements.len()];
                    bytes(item, &shuffled, &mut out);
                    assert_eq!(out, elements, "{n} of {item} bytes and {rest}");
                    if rest == 0 && n > 0 {
                        out.fill(0);
                        planes(&shuffled.chunks_exact(n).collect::<Vec<_>>(), &mut out);
                        assert_eq!(out, elements, "{n} of {item} bytes in planes");
                    }
                }
            }
        }
    }

    #[test]
    fn bits_are_put_together() {
        for item in 1..20 {
            for n in [0, 7, 8, 64, 120, 256] {
                for rest in [0, item - 1] {
                    let elements = random(n * item + rest);
                    let mut shuffled = elements.clone();
                    if n % 8 == 0 {
                        shuffled[..n * item].fill(0);
                        for bit in 0..8 * n * item {
                            let (element, place) = (bit / (8 * item), bit % (8 * item));
                            let to = place * n + element;
                            shuffled[to / 8] |= (elements[bit / 8] >> (bit % 8) & 1) << (to % 8);
                        }
                    }
                    let (mut scratch, mut out) = (vec![0; shuffled.len()], vec![0; shuffled.len()]);
                    bits(item, &shuffled, &mut scratch, &mut out);
                    assert_eq!(out, elements, "{n} of {item} bytes and {rest}");
                }
            }
        }
    }
}
