//! BloscLZ, the compressor that came with Blosc: a format of the LZ77 family, made from FastLZ.
//!
//! Format: c-blosc 1, `blosclz.c`. A control byte below 32 stands before that many literal bytes and one more. Another one has the length
//! of a match in its upper three bits, and the upper bits of its distance in the lower five. A stream begins with literals, so the upper three
//! bits of its first byte are free, and have the version of the format.

/// Distances from this one on take two bytes more.
const FAR: usize = 8191;
/// Matches are copied so many bytes at a time, if they do not overlap within them.
const COPIED: usize = 8;
/// A match of this length is longer: further lengths follow it.
const LONG: usize = 6;

/// Decodes `data`, which must fill `out`. The result is `None` if it does not.
pub(super) fn decode_into(data: &[u8], out: &mut [u8]) -> Option<()> {
    let mut data = Input(data);
    let mut control = data.next()? & 31;
    let mut at = 0;
    loop {
        if control < 32 {
            // A copy of a fixed length is faster. What is too much is overwritten.
            if let (Some(room), Some(most)) = (out[at..].first_chunk_mut::<32>(), data.0.first_chunk()) {
                *room = *most;
                data.take(control + 1)?;
            } else {
                out.get_mut(at..=at + control)?.copy_from_slice(data.take(control + 1)?);
            }
            at += control + 1;
        } else {
            let mut length = (control >> 5) - 1;
            if length == LONG {
                loop {
                    let more = data.next()?;
                    length += more;
                    if more < 255 {
                        break;
                    }
                }
            }
            let upper = (control & 31) << 8;
            let lower = data.next()?;
            let near = upper + lower;
            let farther = if near == FAR { (data.next()? << 8) + data.next()? } else { 0 };
            repeat(out, at, near + farther + 1, length + 3)?;
            at += length + 3;
        }
        match data.next() {
            Some(next) => control = next,
            None => return (at == out.len()).then_some(()),
        }
    }
}

/// Copies `length` bytes to `at` from `distance` bytes before it. What was copied may be copied again.
fn repeat(out: &mut [u8], at: usize, distance: usize, length: usize) -> Option<()> {
    let from = at.checked_sub(distance)?;
    if length > out.len() - at {
        return None;
    }
    if distance == 1 {
        let byte = out[from];
        out[at..at + length].fill(byte);
        return Some(());
    }
    if length <= 4 * COPIED && distance >= COPIED && out.len() - at >= 5 * COPIED {
        for i in (0..length).step_by(COPIED) {
            let bytes: [u8; COPIED] = *out[from + i..].first_chunk()?;
            *out[at + i..].first_chunk_mut()? = bytes;
        }
        return Some(());
    }
    let mut done = 0;
    while done < length {
        let n = (distance + done).min(length - done);
        out.copy_within(from..from + n, at + done);
        done += n;
    }
    Some(())
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn next(&mut self) -> Option<usize> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some((*first).into())
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }
}
