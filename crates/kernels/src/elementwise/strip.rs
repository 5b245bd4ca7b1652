//! Strips: short runs of elements that fit the first-level cache, and the loops over them.

use crate::simd::{Loop, dispatch};
use crate::{Block, BlockElement};
use chunkwise_math::Out;
use chunkwise_types::DType;
use num_complex::{Complex32, Complex64};
use std::mem::MaybeUninit;

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

macro_rules! strips {
    ($($v:ident $t:ty;)*) => {
        /// Elements of an operand.
        #[derive(Clone, Copy)]
        pub(crate) enum Strip<'a> { $($v(&'a [$t]),)* }

        /// Elements that are written: a register, or the output.
        pub(crate) enum Buffer { $($v(Vec<$t>),)* }

        impl Buffer {
            /// An empty buffer with room for `n` elements.
            pub fn with_capacity(dtype: DType, n: usize) -> Option<Buffer> {
                match dtype { $(DType::$v => Some(Buffer::$v(Vec::with_capacity(n))),)* _ => None }
            }
            /// Makes it a buffer of this dtype with room for `n` elements.
            pub fn fit(&mut self, dtype: DType, n: usize) -> Option<()> {
                match (&mut *self, dtype) {
                    $((Buffer::$v(x), DType::$v) => {
                        x.clear();
                        x.reserve_exact(n + LINE / size_of::<$t>());
                    })*
                    _ => *self = Buffer::with_capacity(dtype, n + LINE / dtype.size() as usize)?,
                }
                self.clear();
                Some(())
            }
            /// Forgets the elements of a register and keeps the memory. The next elements begin at a cache line: vectors that cross lines
            /// take twice as long.
            pub fn clear(&mut self) {
                match self { $(Buffer::$v(x) => {
                    x.clear();
                    x.resize(x.as_ptr().align_offset(LINE).min(x.capacity()).min(LINE), <$t>::default());
                })* }
            }
            /// The bytes that it takes.
            #[cfg(test)]
            pub fn bytes(&self) -> u64 {
                match self { $(Buffer::$v(x) => (x.capacity() * size_of::<$t>()) as u64,)* }
            }
            /// Says that `n` more elements are written.
            ///
            /// # Safety
            /// There is room for them, and each is written.
            unsafe fn grow(&mut self, n: usize) {
                // SAFETY: the caller's.
                match self { $(Buffer::$v(x) => unsafe { x.set_len(x.len() + n) },)* }
            }
            /// The number of elements.
            pub fn len(&self) -> usize {
                match self { $(Buffer::$v(x) => x.len(),)* }
            }
            /// `n` elements; none if there are not so many.
            pub fn range(&self, from: usize, n: usize) -> Strip<'_> {
                match self { $(Buffer::$v(x) => Strip::$v(x.get(from..from + n).unwrap_or_default()),)* }
            }
            /// The last `n` elements.
            pub fn tail(&self, n: usize) -> Strip<'_> {
                match self { $(Buffer::$v(x) => Strip::$v(&x[x.len().saturating_sub(n)..]),)* }
            }
        }

        /// Runs `$body` with `$x` the vector of a buffer.
        macro_rules! with_buffer {
            ($buffer:expr, $x:ident => $body:expr) => { match $buffer { $($crate::elementwise::strip::Buffer::$v($x) => $body,)* } };
        }
    };
}
strips! { Bool bool; Int8 i8; Int16 i16; Int32 i32; Int64 i64; UInt8 u8; UInt16 u16; UInt32 u32; UInt64 u64;
Float32 f32; Float64 f64; Complex64 Complex32; Complex128 Complex64; }

/// A type of elements of strips.
///
/// Unsigned integers also see the bits of other numbers of their width. Where a function does the same to the bits of both, one loop
/// serves both, which halves what is compiled.
pub(crate) trait Element: BlockElement {
    /// The elements of a strip of this type.
    fn of(strip: Strip<'_>) -> Option<&[Self]>;
    /// A strip of these elements.
    fn strip(elements: &[Self]) -> Strip<'_>;
    /// The vector of a buffer of this very type.
    fn vec(buffer: &mut Buffer) -> Option<&mut Vec<Self>>;
    /// Room for `n` more elements in a buffer.
    fn room(buffer: &mut Buffer, n: usize) -> Option<&mut [MaybeUninit<Self>]>;
}

/// Room for `n` more elements.
fn room_of<T>(x: &mut Vec<T>, n: usize) -> &mut [MaybeUninit<T>] {
    x.reserve(n);
    &mut x.spare_capacity_mut()[..n]
}

/// Room for numbers as room for other numbers of the same width.
fn as_bits<A: bytemuck::Pod, B: bytemuck::Pod>(room: &mut [MaybeUninit<A>]) -> &mut [MaybeUninit<B>] {
    const { assert!(size_of::<A>() == size_of::<B>() && align_of::<A>() == align_of::<B>()) };
    // SAFETY: both have the same size and alignment, and no bits that are not allowed.
    unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), room.len()) }
}

macro_rules! elements {
    ($($v:ident $t:ty $(, $bits:ident)*;)*) => {$(
        impl Element for $t {
            fn of(strip: Strip<'_>) -> Option<&[Self]> {
                match strip {
                    Strip::$v(x) => Some(x),
                    $(Strip::$bits(x) => Some(bytemuck::cast_slice(x)),)*
                    _ => None,
                }
            }
            fn strip(elements: &[Self]) -> Strip<'_> {
                Strip::$v(elements)
            }
            fn vec(buffer: &mut Buffer) -> Option<&mut Vec<Self>> {
                match buffer {
                    Buffer::$v(x) => Some(x),
                    _ => None,
                }
            }
            fn room(buffer: &mut Buffer, n: usize) -> Option<&mut [MaybeUninit<Self>]> {
                match buffer {
                    Buffer::$v(x) => Some(room_of(x, n)),
                    $(Buffer::$bits(x) => Some(as_bits(room_of(x, n))),)*
                    _ => None,
                }
            }
        }
    )*};
}
elements! { Bool bool; Int8 i8; Int16 i16; Int32 i32; Int64 i64; UInt8 u8, Int8; UInt16 u16, Int16; UInt32 u32, Int32, Float32;
UInt64 u64, Int64, Float64; Float32 f32; Float64 f64; Complex64 Complex32; Complex128 Complex64; }

impl Default for Buffer {
    fn default() -> Self {
        Buffer::Bool(Vec::new())
    }
}

impl Buffer {
    /// The elements as a block of this shape.
    pub fn into_block(self, shape: &[u64]) -> Block {
        fn go<T: BlockElement>(data: Vec<T>, shape: &[u64]) -> Block {
            T::wrap(crate::block::from_vec(shape, data))
        }
        with_buffer!(self, x => go(x, shape))
    }
}

/// A function of strips: appends `n` elements to the buffer. `None` if a strip or the buffer has another dtype than the function was
/// looked up for.
pub(crate) type StripFn = fn(&[Strip<'_>], usize, &mut Buffer) -> Option<()>;

/// The function of some dtypes.
#[derive(Clone, Copy)]
pub(crate) enum Found {
    /// The first input as it is.
    Same,
    /// A loop, and the dtype that it makes.
    Run(StripFn, DType),
}

/// A loop over strips of elements of these types with its functions, and the type that it makes.
macro_rules! found {
    ($run:ident::<$t:ty> -> $made:ty) => { Some(Found::Run($run::<$t>, <$made as $crate::BlockElement>::DTYPE)) };
    ($run:ident::<$($t:ty),*> -> $made:ty: $($f:expr),+) => {
        Some(Found::Run(|ins, n, out| $run::<$($t),*>(ins, n, out, $($f),+), <$made as $crate::BlockElement>::DTYPE))
    };
}
pub(super) use found;

/// What the functions `of_*` of a module find for a dtype.
macro_rules! of_dtype {
    ($dtype:expr, $op:expr) => {
        match $dtype {
            DType::Bool => of_bool($op),
            DType::Int8 => of_i8($op),
            DType::Int16 => of_i16($op),
            DType::Int32 => of_i32($op),
            DType::Int64 => of_i64($op),
            DType::UInt8 => of_u8($op),
            DType::UInt16 => of_u16($op),
            DType::UInt32 => of_u32($op),
            DType::UInt64 => of_u64($op),
            DType::Float32 => of_f32($op),
            DType::Float64 => of_f64($op),
            DType::Complex64 => of_c32($op),
            DType::Complex128 => of_c64($op),
            _ => None,
        }
    };
}
pub(super) use of_dtype;

/// Appends `n` elements that `write` writes, all of them.
#[inline(always)]
pub(super) fn append<T: Element>(out: &mut Buffer, n: usize, write: impl FnOnce(&mut [MaybeUninit<T>])) -> Option<()> {
    write(T::room(out, n)?);
    // SAFETY: there is room for `n` more elements, and `write` (the maps below, the functions of `chunkwise_math` and the gather of a
    // program) goes over the whole slice and writes each. Zeroing first would write every output twice: a sum of two blocks in the
    // second-level cache took 1.3 times as long.
    unsafe { out.grow(n) };
    Some(())
}

struct Map1<'a, A, B, F> {
    a: &'a [A],
    out: &'a mut [MaybeUninit<B>],
    f: F,
}

impl<A: Copy, B: Copy, F: Fn(A) -> B> Loop for Map1<'_, A, B, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let a = &self.a[..self.out.len()];
        for (o, &x) in self.out.iter_mut().zip(a) {
            o.write((self.f)(x));
        }
    }
}

struct Map2<'a, A, B, C, F> {
    a: &'a [A],
    b: &'a [B],
    out: &'a mut [MaybeUninit<C>],
    f: F,
}

impl<A: Copy, B: Copy, C: Copy, F: Fn(A, B) -> C> Loop for Map2<'_, A, B, C, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let n = self.out.len();
        let (a, b) = (&self.a[..n], &self.b[..n]);
        for ((o, &x), &y) in self.out.iter_mut().zip(a).zip(b) {
            o.write((self.f)(x, y));
        }
    }
}

/// Elements that are computed before it is asked whether a rare one was among them.
const CHECKED: usize = 64;

/// As [`Map2`] of `f`, which also tells which elements are rare; those are computed by `rare`.
struct Checked2<'a, A, C, F, G> {
    a: &'a [A],
    b: &'a [A],
    out: &'a mut [MaybeUninit<C>],
    f: F,
    rare: G,
}

impl<A: Copy, C: Copy, F: Fn(A, A) -> (C, bool), G: Fn(A, A) -> C> Loop for Checked2<'_, A, C, F, G> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let n = self.out.len();
        let (a, b) = (&self.a[..n], &self.b[..n]);
        for ((out, a), b) in self.out.chunks_mut(CHECKED).zip(a.chunks(CHECKED)).zip(b.chunks(CHECKED)) {
            let mut any = false;
            for ((o, &x), &y) in out.iter_mut().zip(a).zip(b) {
                let (value, rare) = (self.f)(x, y);
                o.write(value);
                any |= rare;
            }
            if any {
                for ((o, &x), &y) in out.iter_mut().zip(a).zip(b).filter(|((_, x), y)| (self.f)(**x, **y).1) {
                    o.write((self.rare)(x, y));
                }
            }
        }
    }
}

/// The values of `a` where the condition is true, else those of `b`.
struct Select<'a, T> {
    c: &'a [bool],
    a: &'a [T],
    b: &'a [T],
    out: &'a mut [MaybeUninit<T>],
}

impl<T: Copy> Loop for Select<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let n = self.out.len();
        let (c, a, b) = (&self.c[..n], &self.a[..n], &self.b[..n]);
        for (((o, &c), &x), &y) in self.out.iter_mut().zip(c).zip(a).zip(b) {
            o.write(if c { x } else { y });
        }
    }
}

/// `f` of every element.
#[inline(always)]
pub(crate) fn map1<A: Element, B: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer, f: impl Fn(A) -> B) -> Option<()> {
    let a = A::of(*ins.first()?)?.get(..n)?;
    append(out, n, |out: &mut [MaybeUninit<B>]| dispatch(Map1 { a, out, f }))
}

/// `f` of every element, compiled for the baseline only: for functions that call the standard library.
pub(crate) fn plain1<A: Element, B: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer, f: impl Fn(A) -> B) -> Option<()> {
    let a = A::of(*ins.first()?)?.get(..n)?;
    append(out, n, |out: &mut [MaybeUninit<B>]| Map1 { a, out, f }.run())
}

/// The strips of a function of two inputs.
fn two<'a, A: Element, B: Element>(ins: &[Strip<'a>], n: usize) -> Option<(&'a [A], &'a [B])> {
    let &[a, b] = ins else { return None };
    Some((A::of(a)?.get(..n)?, B::of(b)?.get(..n)?))
}

/// `f` of every pair of elements.
#[inline(always)]
pub(super) fn map2<A: Element, B: Element, C: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer, f: impl Fn(A, B) -> C) -> Option<()> {
    let (a, b) = two(ins, n)?;
    append(out, n, |out: &mut [MaybeUninit<C>]| dispatch(Map2 { a, b, out, f }))
}

/// `f` of every pair of elements, and `rare` where `f` says that it does not hold.
#[inline(always)]
pub(super) fn checked2<A: Element, C: Element>(
    ins: &[Strip<'_>],
    n: usize,
    out: &mut Buffer,
    f: impl Fn(A, A) -> (C, bool),
    rare: impl Fn(A, A) -> C,
) -> Option<()> {
    let (a, b) = two(ins, n)?;
    append(out, n, |out: &mut [MaybeUninit<C>]| dispatch(Checked2 { a, b, out, f, rare }))
}

/// `f` of every element, and `rare` where `f` says that it does not hold.
#[inline(always)]
pub(super) fn checked1<A: Element, C: Element>(
    ins: &[Strip<'_>],
    n: usize,
    out: &mut Buffer,
    f: impl Fn(A) -> (C, bool),
    rare: impl Fn(A) -> C,
) -> Option<()> {
    let a = A::of(*ins.first()?)?.get(..n)?;
    append(out, n, |out: &mut [MaybeUninit<C>]| dispatch(Checked2 { a, b: a, out, f: |x, _| f(x), rare: |x, _| rare(x) }))
}

/// As [`map2`], compiled for the baseline only.
pub(super) fn plain2<A: Element, B: Element, C: Element>(
    ins: &[Strip<'_>],
    n: usize,
    out: &mut Buffer,
    f: impl Fn(A, B) -> C,
) -> Option<()> {
    let (a, b) = two(ins, n)?;
    append(out, n, |out: &mut [MaybeUninit<C>]| Map2 { a, b, out, f }.run())
}

/// The second input where the first is true, else the third.
pub(super) fn select<T: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    let &[c, a, b] = ins else { return None };
    let (c, a, b) = (bool::of(c)?.get(..n)?, T::of(a)?.get(..n)?, T::of(b)?.get(..n)?);
    append(out, n, |out| dispatch(Select { c, a, b, out }))
}

/// The same function with its two inputs exchanged.
#[inline(always)]
pub(super) fn exchanged(run: StripFn, ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    let &[a, b] = ins else { return None };
    run(&[b, a], n, out)
}

/// The first input.
pub(crate) fn copy<T: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    let a = T::of(*ins.first()?)?.get(..n)?;
    append(out, n, |out| {
        out.write_copy_of_slice(a);
    })
}

/// A function over slices.
pub(super) fn slices1<T: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer, f: fn(&[T], Out<'_, T>)) -> Option<()> {
    let a = T::of(*ins.first()?)?.get(..n)?;
    append(out, n, |out| f(a, Out::from(out)))
}

/// A function over pairs of slices.
pub(super) fn slices2<T: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer, f: fn(&[T], &[T], Out<'_, T>)) -> Option<()> {
    let (a, b) = two(ins, n)?;
    append(out, n, |out| f(a, b, Out::from(out)))
}
