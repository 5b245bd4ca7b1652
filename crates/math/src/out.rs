//! The destination of results.

use std::mem::MaybeUninit;

/// A slice that is written and not read, so it need not be initialised. With results cleared first, functions took up to a third longer.
///
/// ```
/// # use chunkwise_math::{Elementary, Out};
/// let (mut slice, mut vector) = ([9.0, 9.0], Vec::with_capacity(2));
/// <f64 as Elementary>::exp2(&[1.0, 3.0], Out::from(&mut slice[..]));
/// <f64 as Elementary>::exp2(&[1.0, 3.0], Out::from(&mut vector.spare_capacity_mut()[..2]));
/// assert_eq!(slice, [2.0, 8.0]);
/// ```
pub struct Out<'a, T>(&'a mut [MaybeUninit<T>]);

impl<'a, T> Out<'a, T> {
    pub(crate) fn room(self) -> &'a mut [MaybeUninit<T>] {
        self.0
    }
}

impl<'a, T> From<&'a mut [MaybeUninit<T>]> for Out<'a, T> {
    fn from(out: &'a mut [MaybeUninit<T>]) -> Self {
        Out(out)
    }
}

impl<'a, T: Copy> From<&'a mut [T]> for Out<'a, T> {
    fn from(out: &'a mut [T]) -> Self {
        // SAFETY: the layout is the same, and this crate, which alone sees the slice, writes nothing but whole numbers into it.
        Out(unsafe { &mut *(std::ptr::from_mut(out) as *mut [MaybeUninit<T>]) })
    }
}

impl<'a, T: Copy> From<&'a mut Vec<T>> for Out<'a, T> {
    fn from(out: &'a mut Vec<T>) -> Self {
        Out::from(&mut out[..])
    }
}

impl<'a, T: Copy, const N: usize> From<&'a mut [T; N]> for Out<'a, T> {
    fn from(out: &'a mut [T; N]) -> Self {
        Out::from(&mut out[..])
    }
}
