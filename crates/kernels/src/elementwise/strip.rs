//! Strips: short runs of elements that fit the first-level cache, and the loops over them.

use crate::simd::{Loop, dispatch};
use crate::{Block, BlockElement};
use chunkwise_types::DType;
use num_complex::{Complex32, Complex64};
use std::mem::MaybeUninit;

macro_rules! strips {
    ($($v:ident $t:ty;)*) => {
        /// Elements of an operand: as many as the strip is long, or a single one that stands for all of them.
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
                        x.reserve_exact(n);
                    })*
                    _ => *self = Buffer::with_capacity(dtype, n)?,
                }
                Some(())
            }
            /// Forgets the elements and keeps the memory.
            pub fn clear(&mut self) {
                match self { $(Buffer::$v(x) => x.clear(),)* }
            }
            /// The last `n` elements.
            pub fn tail(&self, n: usize) -> Strip<'_> {
                match self { $(Buffer::$v(x) => Strip::$v(&x[x.len().saturating_sub(n)..]),)* }
            }
        }

        $(impl Element for $t {
            fn of<'a>(strip: Strip<'a>) -> Option<&'a [Self]> { match strip { Strip::$v(x) => Some(x), _ => None } }
            fn strip(elements: &[Self]) -> Strip<'_> { Strip::$v(elements) }
            fn vec(buffer: &mut Buffer) -> Option<&mut Vec<Self>> { match buffer { Buffer::$v(x) => Some(x), _ => None } }
        })*

        /// Runs `$body` with `$x` the vector of a buffer.
        macro_rules! with_buffer {
            ($buffer:expr, $x:ident => $body:expr) => { match $buffer { $($crate::elementwise::strip::Buffer::$v($x) => $body,)* } };
        }
    };
}
strips! { Bool bool; Int8 i8; Int16 i16; Int32 i32; Int64 i64; UInt8 u8; UInt16 u16; UInt32 u32; UInt64 u64;
Float32 f32; Float64 f64; Complex64 Complex32; Complex128 Complex64; }
pub(crate) use with_buffer;

/// A type of elements of strips.
pub(crate) trait Element: BlockElement {
    /// The elements of a strip of this type.
    fn of(strip: Strip<'_>) -> Option<&[Self]>;
    /// A strip of these elements.
    fn strip(elements: &[Self]) -> Strip<'_>;
    /// The vector of a buffer of this type.
    fn vec(buffer: &mut Buffer) -> Option<&mut Vec<Self>>;
}

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

/// Appends `n` elements that `write` writes, all of them.
#[inline(always)]
pub(super) fn append<T: Element>(out: &mut Vec<T>, n: usize, write: impl FnOnce(&mut [MaybeUninit<T>])) {
    out.reserve(n);
    let room = &mut out.spare_capacity_mut()[..n];
    write(room);
    let len = out.len() + n;
    // SAFETY: there is room for `n` more elements, and `write` (the three maps below and the gather of a program) goes over the whole
    // slice and writes each. Zeroing first would write every output twice: a sum of two blocks in the second-level cache took 1.3 times
    // as long.
    unsafe { out.set_len(len) };
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

/// The values of `a` where the condition is true, else those of `b`.
struct Select<'a, T, X, Y> {
    c: &'a [bool],
    a: X,
    b: Y,
    out: &'a mut [MaybeUninit<T>],
}

/// An operand of a choice.
trait At<T>: Copy {
    fn cut(self, n: usize) -> Self;
    fn at(self, i: usize) -> T;
}
impl<T: Copy> At<T> for &[T] {
    #[inline(always)]
    fn cut(self, n: usize) -> Self {
        &self[..n]
    }
    #[inline(always)]
    fn at(self, i: usize) -> T {
        self[i]
    }
}
/// The same element everywhere.
#[derive(Clone, Copy)]
struct One<T>(T);
impl<T: Copy> At<T> for One<T> {
    #[inline(always)]
    fn cut(self, _: usize) -> Self {
        self
    }
    #[inline(always)]
    fn at(self, _: usize) -> T {
        self.0
    }
}

impl<T: Copy, X: At<T>, Y: At<T>> Loop for Select<'_, T, X, Y> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let n = self.out.len();
        let (c, a, b) = (&self.c[..n], self.a.cut(n), self.b.cut(n));
        for i in 0..n {
            let (x, y) = (a.at(i), b.at(i));
            self.out[i].write(if c[i] { x } else { y });
        }
    }
}

#[inline(always)]
fn fill<T: Copy>(out: &mut [MaybeUninit<T>], value: T) {
    out.iter_mut().for_each(|o| {
        o.write(value);
    });
}

/// `f` of every element.
#[inline(always)]
pub(crate) fn map1<A: Element, B: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer, f: impl Fn(A) -> B) -> Option<()> {
    let (a, out) = (A::of(*ins.first()?)?, B::vec(out)?);
    append(out, n, |out| match a {
        &[x] if n > 1 => fill(out, f(x)),
        _ => dispatch(Map1 { a, out, f }),
    });
    Some(())
}

/// `f` of every element, compiled for the baseline only: for functions that call the standard library.
pub(super) fn plain1<A: Element, B: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer, f: impl Fn(A) -> B) -> Option<()> {
    let (a, out) = (A::of(*ins.first()?)?, B::vec(out)?);
    append(out, n, |out| match a {
        &[x] if n > 1 => fill(out, f(x)),
        _ => Map1 { a, out, f }.run(),
    });
    Some(())
}

/// `f` of every pair of elements.
#[inline(always)]
pub(super) fn map2<A: Element, B: Element, C: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer, f: impl Fn(A, B) -> C) -> Option<()> {
    let (a, b, out) = (A::of(*ins.first()?)?, B::of(*ins.get(1)?)?, C::vec(out)?);
    append(out, n, |out| match (a, b) {
        (&[x], &[y]) if n > 1 => fill(out, f(x, y)),
        (_, &[y]) if n > 1 => dispatch(Map1 { a, out, f: |x| f(x, y) }),
        (&[x], _) if n > 1 => dispatch(Map1 { a: b, out, f: |y| f(x, y) }),
        _ => dispatch(Map2 { a, b, out, f }),
    });
    Some(())
}

/// As [`map2`], compiled for the baseline only.
pub(super) fn plain2<A: Element, B: Element, C: Element>(
    ins: &[Strip<'_>],
    n: usize,
    out: &mut Buffer,
    f: impl Fn(A, B) -> C,
) -> Option<()> {
    let (a, b, out) = (A::of(*ins.first()?)?, B::of(*ins.get(1)?)?, C::vec(out)?);
    append(out, n, |out| match (a, b) {
        (&[x], &[y]) if n > 1 => fill(out, f(x, y)),
        (_, &[y]) if n > 1 => Map1 { a, out, f: |x| f(x, y) }.run(),
        (&[x], _) if n > 1 => Map1 { a: b, out, f: |y| f(x, y) }.run(),
        _ => Map2 { a, b, out, f }.run(),
    });
    Some(())
}

/// The second input where the first is true, else the third.
pub(super) fn select<T: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    let &[c, a, b] = ins else { return None };
    let (c, a, b, out) = (bool::of(c)?, T::of(a)?, T::of(b)?, T::vec(out)?);
    append(out, n, |out| match (c, a, b) {
        (&[c], _, _) if n > 1 => match if c { a } else { b } {
            &[x] => fill(out, x),
            from => dispatch(Map1 { a: from, out, f: |x: T| x }),
        },
        (_, &[x], &[y]) if n > 1 => dispatch(Select { c, a: One(x), b: One(y), out }),
        (_, &[x], _) if n > 1 => dispatch(Select { c, a: One(x), b, out }),
        (_, _, &[y]) if n > 1 => dispatch(Select { c, a, b: One(y), out }),
        _ => dispatch(Select { c, a, b, out }),
    });
    Some(())
}

/// The first input.
pub(super) fn copy<T: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    let (a, out) = (T::of(*ins.first()?)?, T::vec(out)?);
    match a {
        &[x] if n > 1 => out.resize(out.len() + n, x),
        _ => out.extend_from_slice(a.get(..n)?),
    }
    Some(())
}

/// Elements of a splat operand of a function over slices.
const SPLAT: usize = 256;

/// A function over slices.
pub(super) fn slices1<T: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer, f: fn(&[T], &mut [T])) -> Option<()> {
    let (a, out) = (T::of(*ins.first()?)?, T::vec(out)?);
    let from = out.len();
    if let (&[x], true) = (a, n > 1) {
        let mut y = [T::default()];
        f(&[x], &mut y);
        out.resize(from + n, y[0]);
        return Some(());
    }
    out.resize(from + n, T::default());
    f(a.get(..n)?, &mut out[from..]);
    Some(())
}

/// A function over pairs of slices.
pub(super) fn slices2<T: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer, f: fn(&[T], &[T], &mut [T])) -> Option<()> {
    let (a, b, out) = (T::of(*ins.first()?)?, T::of(*ins.get(1)?)?, T::vec(out)?);
    let from = out.len();
    out.resize(from + n, T::default());
    let out = &mut out[from..];
    match (a, b) {
        (&[x], _) if n > 1 => {
            let x = [x; SPLAT];
            if let &[y] = b {
                let mut one = [T::default()];
                f(&x[..1], &[y], &mut one);
                out.fill(one[0]);
            } else {
                b.get(..n)?.chunks(SPLAT).zip(out.chunks_mut(SPLAT)).for_each(|(b, out)| f(&x[..b.len()], b, out));
            }
        }
        (_, &[y]) if n > 1 => {
            let y = [y; SPLAT];
            a.get(..n)?.chunks(SPLAT).zip(out.chunks_mut(SPLAT)).for_each(|(a, out)| f(a, &y[..a.len()], out));
        }
        _ => f(a.get(..n)?, b.get(..n)?, out),
    }
    Some(())
}
