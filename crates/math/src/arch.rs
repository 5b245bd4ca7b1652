//! Loops over slices, compiled for several instruction sets and chosen at run time.
//!
//! The functions are branch-free scalar code, and the compiler turns the loop over a block of elements into vector code. Each result
//! depends on its argument alone, never on its position in the slice: the elements after the last whole block go through the same code in a
//! padded block.

use crate::out::Out;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// The difference between instruction sets: whether a * b + c is rounded once.
pub(crate) trait Arch: Copy {
    /// `fma` rounds once.
    const FUSED: bool;

    /// a * b + c
    #[inline(always)]
    fn fma(a: f64, b: f64, c: f64) -> f64 {
        if Self::FUSED { a.mul_add(b, c) } else { a * b + c }
    }

    /// a * b + c
    #[inline(always)]
    fn fma32(a: f32, b: f32, c: f32) -> f32 {
        if Self::FUSED { a.mul_add(b, c) } else { a * b + c }
    }
}

/// Fused multiply-add is one instruction.
#[derive(Clone, Copy)]
pub(crate) struct Fused;

impl Arch for Fused {
    const FUSED: bool = true;
}

/// Without fused multiply-add.
#[derive(Clone, Copy)]
pub(crate) struct Plain;

impl Arch for Plain {
    const FUSED: bool = false;
}

/// The instruction sets that loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The instructions that every machine of the target has, without fused multiply-add.
    Portable,
    /// aarch64: NEON, which every such machine has.
    Neon,
    /// x86-64-v3: AVX2 and FMA.
    Avx2,
    /// x86-64-v4: AVX-512 F, BW, CD, DQ and VL.
    Avx512,
}

impl Level {
    /// The levels that this machine can run, the best last.
    ///
    /// ```
    /// # use chunkwise_math::Level;
    /// assert_eq!(Level::available()[0], Level::Portable);
    /// ```
    pub fn available() -> Vec<Level> {
        let mut levels = vec![Level::Portable];
        #[cfg(target_arch = "aarch64")]
        levels.push(Level::Neon);
        #[cfg(target_arch = "x86_64")]
        {
            if pulp::x86::V3::is_available() {
                levels.push(Level::Avx2);
            }
            if pulp::x86::V4::is_available() {
                levels.push(Level::Avx512);
            }
        }
        levels
    }

    /// The best level of this machine. It is determined once.
    #[inline]
    pub fn best() -> Level {
        #[cold]
        fn find() -> Level {
            Level::available().pop().unwrap_or(Level::Portable)
        }
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(find)
    }
}

/// A function of one argument.
pub(crate) trait Unary<T: Copy>: Copy {
    /// Some arguments go to `slow`.
    const RARE: bool = false;
    /// There is a `quick`.
    const QUICK: bool = false;
    /// There are `begin` and `end` instead of `quick`: two loops over a block. The processor looks ahead too few instructions to overlap a
    /// long chain with itself several times.
    const STAGES: bool = false;

    /// Branch-free. Where `rare` is true, the result is arbitrary.
    fn value<A: Arch>(self, x: T) -> T;

    /// `value` without the selections for special arguments, and whether the result is the same. If not, the result is arbitrary.
    #[inline(always)]
    fn quick<A: Arch>(self, x: T) -> (T, bool) {
        (self.value::<A>(x), true)
    }

    /// The first half of a quick form: two numbers for `end`, and whether the result will be that of `value`.
    #[inline(always)]
    fn begin<A: Arch>(self, x: T) -> (T, T, bool) {
        (x, x, false)
    }

    /// The second half.
    #[inline(always)]
    fn end<A: Arch>(self, h: T, _: T) -> T {
        h
    }

    /// True if `value` does not cover x.
    #[inline(always)]
    fn rare(self, _: T) -> bool {
        false
    }

    /// The function for arguments where `rare` is true, one element at a time.
    #[inline(always)]
    fn slow(self, x: T) -> T {
        x
    }
}

/// A function of two arguments.
pub(crate) trait Binary<T: Copy>: Copy {
    /// Some arguments go to `slow`.
    const RARE: bool = false;
    /// There are `begin` and `end`, see [`Unary::STAGES`].
    const STAGES: bool = false;

    /// Branch-free. Where `rare` is true, the result is arbitrary.
    fn value<A: Arch>(self, x: T, y: T) -> T;

    /// See [`Unary::begin`].
    #[inline(always)]
    fn begin<A: Arch>(self, x: T, _: T) -> (T, T, bool) {
        (x, x, false)
    }

    /// See [`Unary::end`].
    #[inline(always)]
    fn end<A: Arch>(self, h: T, _: T) -> T {
        h
    }

    /// True if `value` does not cover x, y.
    #[inline(always)]
    fn rare(self, _: T, _: T) -> bool {
        false
    }

    /// The function for arguments where `rare` is true, one element at a time.
    #[inline(always)]
    fn slow(self, x: T, _: T) -> T {
        x
    }
}

/// Elements of a block: several vectors of every kind, so that chains of dependent operations overlap.
const BLOCK: usize = 128;

/// After a block with special arguments, the quick form is not tried for this many blocks: data with many NaN has them everywhere.
const CAREFUL: u32 = 15;

/// Work that runs with the features of an instruction set enabled.
trait Job {
    fn run<A: Arch>(self);
}

/// [`Job`] in the form that pulp wants.
struct Enabled<J>(J);

impl<J: Job> pulp::NullaryFnOnce for Enabled<J> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.run::<Fused>();
    }
}

#[inline]
fn run<J: Job>(level: Level, job: J) {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => match pulp::x86::V4::try_new() {
            Some(v4) => v4.vectorize(Enabled(job)),
            None => job.run::<Plain>(),
        },
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => match pulp::x86::V3::try_new() {
            Some(v3) => v3.vectorize(Enabled(job)),
            None => job.run::<Plain>(),
        },
        #[cfg(target_arch = "aarch64")]
        Level::Neon => job.run::<Fused>(),
        _ => job.run::<Plain>(),
    }
}

struct Map<'a, T, F> {
    f: F,
    xs: &'a [T],
    out: &'a mut [MaybeUninit<T>],
}

impl<T: Copy + Default, F: Unary<T>> Map<'_, T, F> {
    #[inline(always)]
    fn block<A: Arch>(f: F, careful: &mut u32, xs: &[T; BLOCK], out: &mut [MaybeUninit<T>; BLOCK]) {
        if F::STAGES && *careful == 0 {
            let (mut h, mut l, mut all) = ([T::default(); BLOCK], [T::default(); BLOCK], true);
            for ((h, l), &x) in h.iter_mut().zip(&mut l).zip(xs) {
                let (a, b, same) = f.begin::<A>(x);
                (*h, *l) = (a, b);
                all &= same;
            }
            if all {
                for ((o, &h), &l) in out.iter_mut().zip(&h).zip(&l) {
                    o.write(f.end::<A>(h, l));
                }
                return;
            }
            *careful = CAREFUL;
        } else if F::QUICK && *careful == 0 {
            let mut all = true;
            for (o, &x) in out.iter_mut().zip(xs) {
                let (y, same) = f.quick::<A>(x);
                o.write(y);
                all &= same;
            }
            if all {
                return;
            }
            *careful = CAREFUL;
        } else {
            *careful = careful.saturating_sub(1);
        }
        let mut any = false;
        for (o, &x) in out.iter_mut().zip(xs) {
            o.write(f.value::<A>(x));
            any |= F::RARE && f.rare(x);
        }
        if any {
            Self::slow(f, xs, out);
        }
    }

    #[cold]
    #[inline(never)]
    fn slow(f: F, xs: &[T; BLOCK], out: &mut [MaybeUninit<T>; BLOCK]) {
        for (o, &x) in out.iter_mut().zip(xs) {
            if f.rare(x) {
                o.write(f.slow(x));
            }
        }
    }
}

impl<T: Copy + Default, F: Unary<T>> Job for Map<'_, T, F> {
    #[inline(always)]
    fn run<A: Arch>(self) {
        let Map { f, xs, out } = self;
        let mut careful = 0;
        let n = xs.len().min(out.len());
        let (blocks, rest) = xs[..n].as_chunks::<BLOCK>();
        let (out_blocks, out_rest) = out[..n].as_chunks_mut::<BLOCK>();
        for (x, o) in blocks.iter().zip(out_blocks) {
            Self::block::<A>(f, &mut careful, x, o);
        }
        if !rest.is_empty() {
            let (mut x, mut o) = ([T::default(); BLOCK], [MaybeUninit::uninit(); BLOCK]);
            x[..rest.len()].copy_from_slice(rest);
            Self::block::<A>(f, &mut careful, &x, &mut o);
            out_rest.copy_from_slice(&o[..rest.len()]);
        }
    }
}

struct Map2<'a, T, F> {
    f: F,
    xs: &'a [T],
    ys: &'a [T],
    out: &'a mut [MaybeUninit<T>],
}

impl<T: Copy + Default, F: Binary<T>> Map2<'_, T, F> {
    #[inline(always)]
    fn block<A: Arch>(f: F, careful: &mut u32, xs: &[T; BLOCK], ys: &[T; BLOCK], out: &mut [MaybeUninit<T>; BLOCK]) {
        if F::STAGES && *careful == 0 {
            let (mut h, mut l, mut all) = ([T::default(); BLOCK], [T::default(); BLOCK], true);
            for (((h, l), &x), &y) in h.iter_mut().zip(&mut l).zip(xs).zip(ys) {
                let (a, b, same) = f.begin::<A>(x, y);
                (*h, *l) = (a, b);
                all &= same;
            }
            if all {
                for ((o, &h), &l) in out.iter_mut().zip(&h).zip(&l) {
                    o.write(f.end::<A>(h, l));
                }
                return;
            }
            *careful = CAREFUL;
        } else {
            *careful = careful.saturating_sub(1);
        }
        let mut any = false;
        for ((o, &x), &y) in out.iter_mut().zip(xs).zip(ys) {
            o.write(f.value::<A>(x, y));
            any |= F::RARE && f.rare(x, y);
        }
        if any {
            Self::slow(f, xs, ys, out);
        }
    }

    #[cold]
    #[inline(never)]
    fn slow(f: F, xs: &[T; BLOCK], ys: &[T; BLOCK], out: &mut [MaybeUninit<T>; BLOCK]) {
        for ((o, &x), &y) in out.iter_mut().zip(xs).zip(ys) {
            if f.rare(x, y) {
                o.write(f.slow(x, y));
            }
        }
    }
}

impl<T: Copy + Default, F: Binary<T>> Job for Map2<'_, T, F> {
    #[inline(always)]
    fn run<A: Arch>(self) {
        let Map2 { f, xs, ys, out } = self;
        let mut careful = 0;
        let n = xs.len().min(ys.len()).min(out.len());
        let (x_blocks, x_rest) = xs[..n].as_chunks::<BLOCK>();
        let (y_blocks, y_rest) = ys[..n].as_chunks::<BLOCK>();
        let (out_blocks, out_rest) = out[..n].as_chunks_mut::<BLOCK>();
        for ((x, y), o) in x_blocks.iter().zip(y_blocks).zip(out_blocks) {
            Self::block::<A>(f, &mut careful, x, y, o);
        }
        if !x_rest.is_empty() {
            let (mut x, mut y, mut o) = ([T::default(); BLOCK], [T::default(); BLOCK], [MaybeUninit::uninit(); BLOCK]);
            x[..x_rest.len()].copy_from_slice(x_rest);
            y[..y_rest.len()].copy_from_slice(y_rest);
            Self::block::<A>(f, &mut careful, &x, &y, &mut o);
            out_rest.copy_from_slice(&o[..x_rest.len()]);
        }
    }
}

/// out[i] = f(xs[i]) for as many elements as both have.
pub(crate) fn map<T: Copy + Default, F: Unary<T>>(level: Level, f: F, xs: &[T], out: Out<'_, T>) {
    run(level, Map { f, xs, out: out.room() });
}

/// out[i] = f(xs[i], ys[i]) for as many elements as all three have.
pub(crate) fn map2<T: Copy + Default, F: Binary<T>>(level: Level, f: F, xs: &[T], ys: &[T], out: Out<'_, T>) {
    run(level, Map2 { f, xs, ys, out: out.room() });
}
