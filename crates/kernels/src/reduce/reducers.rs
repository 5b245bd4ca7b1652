//! What is accumulated: one type for each reduction and element type.
//!
//! A reducer has three states. A *part* is what one pass over a run of memory keeps in registers or in a small row of
//! temporaries; an *accumulator* is what lives as long as the fold; `emit` makes output elements. Sums of floats are plain
//! `f64` sums in a part (pairwise, so that the error of a part is logarithmic in its length) and compensated in the
//! accumulator (Neumaier 1974): the result is nearly independent of how the input was tiled.

use super::elements::{Element, Ordered, SumState, Wide};
use super::lanes::{RUN, lanes, looped, pairwise, rows_of};
use super::sink::Lines;
use crate::BlockElement;
use chunkwise_types::DType;
use std::marker::PhantomData;

/// A reduction of elements of one type.
pub(crate) trait Reducer: 'static {
    /// The elements of the input.
    type In: BlockElement;
    /// The state of one pass over a run.
    type Part: Copy + Send;
    /// The state of the fold.
    type Acc: Copy + Send;
    /// The elements that come out, before the cast to the dtype of the output.
    type Out: BlockElement;
    /// Output elements for each accumulator.
    const WIDTH: usize = 1;
    /// Elements of a row that are reduced to a part: what [`Reducer::decided`] is asked after.
    const RUN: usize = RUN;
    /// Rows that [`Reducer::columns`] adds to a part.
    const ROWS: usize = usize::MAX;

    fn part() -> Self::Part;
    fn acc() -> Self::Acc;
    /// Takes one element; `pos` is its flat index over the reduced axes.
    fn add(part: &mut Self::Part, x: Self::In, pos: isize);
    /// Reduces a run whose positions are `pos`, `pos + step`, ... This and `columns` are what is compiled for each instruction set.
    #[inline(always)]
    fn row(xs: &[Self::In], pos: isize, step: isize) -> Self::Part {
        let mut part = Self::part();
        for (i, &x) in xs.iter().enumerate() {
            Self::add(&mut part, x, pos + step * i as isize);
        }
        part
    }
    /// As `row`, of which the accumulator may already tell that it changes nothing; then it returns an empty part.
    #[inline(always)]
    fn row_after(acc: &Self::Acc, xs: &[Self::In], pos: isize, step: isize) -> Self::Part {
        let _ = acc;
        Self::row(xs, pos, step)
    }
    /// The part of a row that its first elements decide: what to look at before all the rest is set up.
    #[inline(always)]
    fn glance(xs: &[Self::In], pos: isize, step: isize) -> Option<Self::Part> {
        let _ = (xs, pos, step);
        None
    }
    /// True if no elements at the positions `pos`, `pos + step`, ... can change the accumulator.
    #[inline(always)]
    fn decided(acc: &Self::Acc, pos: isize, step: isize) -> bool {
        let _ = (acc, pos, step);
        false
    }
    /// Reduces `rows` rows column by column into `parts` (initialised, one a column); row `r` has position `pos + r * step`.
    #[inline(always)]
    fn columns(parts: &mut [Self::Part], lines: Lines<'_, Self::In>, rows: usize, pos: isize, step: isize) {
        rows_of(parts, &|r| lines.get(r), rows, |p, x, r| Self::add(p, x, pos + step * r as isize));
    }
    fn merge(acc: &mut Self::Acc, part: Self::Part);
    fn emit(acc: &Self::Acc, out: &mut Vec<Self::Out>);
}

/// The sum. `SKIP` leaves NaN out.
pub(crate) struct Sum<T, const SKIP: bool = false>(PhantomData<T>);

impl<T: Element, const SKIP: bool> Sum<T, SKIP> {
    /// What an element adds.
    #[inline(always)]
    fn value(x: T) -> T::Wide {
        if !SKIP || x.valid() { x.wide() } else { T::Wide::ZERO }
    }
}

impl<T: Element, const SKIP: bool> Reducer for Sum<T, SKIP> {
    type In = T;
    type Part = T::Wide;
    type Acc = T::Sum;
    type Out = T::Wide;
    /// Bounds the rounding error of a plain sum; that of narrower elements is far below their own precision.
    const ROWS: usize = if T::Wide::ROUNDS && size_of::<T>() == size_of::<T::Wide>() { 128 } else { usize::MAX };
    fn part() -> T::Wide {
        T::Wide::ZERO
    }
    fn acc() -> Self::Acc {
        T::Sum::zero()
    }
    #[inline(always)]
    fn add(part: &mut T::Wide, x: T, _: isize) {
        *part = part.plus(Self::value(x));
    }
    #[inline(always)]
    fn row(xs: &[T], _: isize, _: isize) -> T::Wide {
        pairwise(xs, &Self::value)
    }
    #[inline(always)]
    fn columns(parts: &mut [T::Wide], lines: Lines<'_, T>, rows: usize, _: isize, _: isize) {
        if SKIP {
            rows_of(parts, &|r| lines.get(r), rows, |sum, x, _| *sum = sum.plus(Self::value(x)));
        } else {
            T::add_rows(parts, lines, rows);
        }
    }
    #[inline(always)]
    fn merge(acc: &mut Self::Acc, part: T::Wide) {
        acc.take(part);
    }
    fn emit(acc: &Self::Acc, out: &mut Vec<T::Wide>) {
        out.push(acc.value());
    }
}

pub(crate) struct Prod<T>(PhantomData<T>);
impl<T: Element> Reducer for Prod<T> {
    type In = T;
    type Part = T::Wide;
    type Acc = T::Wide;
    type Out = T::Wide;
    fn part() -> T::Wide {
        T::Wide::ONE
    }
    fn acc() -> T::Wide {
        T::Wide::ONE
    }
    #[inline(always)]
    fn add(part: &mut T::Wide, x: T, _: isize) {
        *part = part.times(x.wide());
    }
    #[inline(always)]
    fn row(xs: &[T], _: isize, _: isize) -> T::Wide {
        lanes(xs, T::Wide::ONE, |a, x| a.times(x.wide()), T::Wide::times)
    }
    #[inline(always)]
    fn columns(parts: &mut [T::Wide], lines: Lines<'_, T>, rows: usize, _: isize, _: isize) {
        T::multiply_rows(parts, lines, rows);
    }
    #[inline(always)]
    fn merge(acc: &mut T::Wide, part: T::Wide) {
        *acc = acc.times(part);
    }
    fn emit(acc: &T::Wide, out: &mut Vec<T::Wide>) {
        out.push(*acc);
    }
}

/// The lesser (`MAX = false`) or the greater of two; a NaN wins.
#[inline(always)]
fn extreme<T: Ordered, const MAX: bool>(a: T, b: T) -> T {
    let better = if MAX { b > a } else { b < a };
    if (better & !a.nan()) | b.nan() { b } else { a }
}

/// The better of two; a NaN on the left is lost.
#[inline(always)]
fn pick<T: Ordered, const MAX: bool>(x: T, old: T) -> T {
    if if MAX { x > old } else { x < old } { x } else { old }
}

/// The best of lanes, as integers, because the compiler knows how to reorder those.
#[inline(always)]
fn best_of<T: Ordered, const MAX: bool>(lanes: &[T::Key]) -> T {
    let start = if MAX { T::LOW } else { T::HIGH }.key();
    T::of(lanes.iter().fold(start, |a, &x| if MAX { a.max(x) } else { a.min(x) }))
}

/// The extreme of floats, or a NaN. Numbers and NaN are gathered apart: each takes an instruction or two, and does not wait for the other.
#[inline(always)]
fn extreme_or_nan<T: Ordered, const MAX: bool>(xs: &[T]) -> T {
    let start = if MAX { T::LOW } else { T::HIGH };
    let (mut best, mut nan) = ([start; EXTREMES], [start; EXTREMES]);
    let (blocks, rest) = xs.as_chunks::<EXTREMES>();
    let (fours, blocks) = blocks.as_chunks::<4>();
    for [a, b, c, d] in fours {
        for (i, (best, nan)) in best.iter_mut().zip(&mut nan).enumerate() {
            *best = pick::<T, MAX>(of_four::<T, MAX>([a[i], b[i], c[i], d[i]]), *best);
            *nan = if any_nan([a[i], b[i], c[i], d[i]]) { T::NOTHING } else { *nan };
        }
    }
    for xs in blocks.iter().map(|b| &b[..]).chain([rest]) {
        for ((best, nan), &x) in best.iter_mut().zip(&mut nan).zip(xs) {
            (*best, *nan) = (pick::<T, MAX>(x, *best), if x.nan() { x } else { *nan });
        }
    }
    if nan.iter().fold(false, |any, x| any | x.nan()) { T::NOTHING } else { best_of::<T, MAX>(&best.map(T::key)) }
}

/// The best of four elements; a NaN may be lost.
#[inline(always)]
fn of_four<T: Ordered, const MAX: bool>([a, b, c, d]: [T; 4]) -> T {
    pick::<T, MAX>(pick::<T, MAX>(a, b), pick::<T, MAX>(c, d))
}

/// One instruction asks this of two elements.
#[inline(always)]
fn any_nan<T: Ordered>([a, b, c, d]: [T; 4]) -> bool {
    (a.nan() | b.nan()) | (c.nan() | d.nan())
}

/// Lanes of an extreme of floats.
const EXTREMES: usize = 64;

/// Elements of a run of so many bytes of which an extreme is taken. Half of all bools are the best there is.
const fn extremes<T: BlockElement>(bytes: usize) -> usize {
    if matches!(T::DTYPE, DType::Bool) { DECIDED } else { bytes / size_of::<T>() }
}

/// True if nothing is better: NaN, or the bound of a dtype without NaN.
#[inline(always)]
fn best<T: Ordered, const MAX: bool>(x: T) -> bool {
    x.nan() || (!T::NOTHING.nan() && x == if MAX { T::HIGH } else { T::LOW })
}

/// Min or max. The flag of the accumulator tells whether it has met an element.
pub(crate) struct Extreme<T, const MAX: bool>(PhantomData<T>);
impl<T: Ordered, const MAX: bool> Reducer for Extreme<T, MAX> {
    type In = T;
    type Part = T;
    type Acc = (T, bool);
    type Out = T;
    const RUN: usize = extremes::<T>(128 << 10);
    fn part() -> T {
        if MAX { T::LOW } else { T::HIGH }
    }
    fn acc() -> (T, bool) {
        (Self::part(), false)
    }
    #[inline(always)]
    fn add(part: &mut T, x: T, _: isize) {
        *part = extreme::<T, MAX>(*part, x);
    }
    #[inline(always)]
    fn row(xs: &[T], _: isize, _: isize) -> T {
        if T::NOTHING.nan() {
            return extreme_or_nan::<T, MAX>(xs);
        }
        // The compiler knows how to reorder this one; lanes of integers it takes apart again.
        xs.iter().fold(Self::part(), |a, &x| {
            if MAX {
                if x > a { x } else { a }
            } else if x < a {
                x
            } else {
                a
            }
        })
    }
    #[inline(always)]
    fn decided(acc: &(T, bool), _: isize, _: isize) -> bool {
        acc.1 && best::<T, MAX>(acc.0)
    }
    #[inline(always)]
    fn merge(acc: &mut (T, bool), part: T) {
        *acc = (extreme::<T, MAX>(acc.0, part), true);
    }
    fn emit(acc: &(T, bool), out: &mut Vec<T>) {
        out.push(if acc.1 { acc.0 } else { T::NOTHING });
    }
}

/// Elements that are looked at before it is asked whether they decide.
const DECIDED: usize = 512;

/// Any (`ALL = false`) or all. NaN is true.
pub(crate) struct Truth<T, const ALL: bool>(PhantomData<T>);
impl<T: Element, const ALL: bool> Reducer for Truth<T, ALL> {
    type In = T;
    type Part = bool;
    type Acc = bool;
    type Out = bool;
    fn part() -> bool {
        ALL
    }
    fn acc() -> bool {
        ALL
    }
    #[inline(always)]
    fn add(part: &mut bool, x: T, _: isize) {
        if ALL { *part &= x.truthy() } else { *part |= x.truthy() }
    }
    #[inline(always)]
    fn row(xs: &[T], _: isize, _: isize) -> bool {
        let piece = |xs: &[T]| xs.iter().fold(ALL, |a, x| if ALL { a & x.truthy() } else { a | x.truthy() });
        if xs.chunks(DECIDED).any(|xs| piece(xs) != ALL) { !ALL } else { ALL }
    }
    #[inline(always)]
    fn decided(acc: &bool, _: isize, _: isize) -> bool {
        *acc != ALL
    }
    #[inline(always)]
    fn merge(acc: &mut bool, part: bool) {
        if ALL { *acc &= part } else { *acc |= part }
    }
    fn emit(acc: &bool, out: &mut Vec<bool>) {
        out.push(*acc);
    }
}

/// Lanes of a count of bytes.
const BYTE_LANES: usize = 256;

pub(crate) struct Count<T>(PhantomData<T>);
impl<T: Element> Reducer for Count<T> {
    type In = T;
    type Part = i64;
    type Acc = i64;
    type Out = i64;
    fn part() -> i64 {
        0
    }
    fn acc() -> i64 {
        0
    }
    #[inline(always)]
    fn add(part: &mut i64, x: T, _: isize) {
        *part += i64::from(x.truthy());
    }
    #[inline(always)]
    fn row(xs: &[T], _: isize, _: isize) -> i64 {
        if size_of::<T>() == 1 {
            // Counts of a lane fit 8 bits, those of a run 16.
            let counted = |xs: &[T]| {
                let mut lane = [0u8; BYTE_LANES];
                let (blocks, rest) = xs.as_chunks::<BYTE_LANES>();
                rows_of(&mut lane, &|r| &blocks[r], blocks.len(), |n, x, _| *n += u8::from(x.truthy()));
                lane.iter().map(|&n| u16::from(n)).sum::<u16>() + rest.iter().map(|x| u16::from(x.truthy())).sum::<u16>()
            };
            return xs.chunks(RUN).map(|xs| i64::from(counted(xs))).sum();
        }
        if size_of::<T>() >= 4 {
            // To narrow what is compared would take longer than to add wide counts.
            return looped::<64, T, i64>(xs, 0, |n, x| n + i64::from(x.truthy()), |a, b| a + b);
        }
        // Counts of a run fit 16 bits, of which a register holds many.
        let count = |xs: &[T]| looped::<64, T, u16>(xs, 0, |n, x| n.wrapping_add(u16::from(x.truthy())), u16::wrapping_add);
        xs.chunks(RUN).map(|xs| i64::from(count(xs))).sum()
    }
    #[inline(always)]
    fn merge(acc: &mut i64, part: i64) {
        *acc += part;
    }
    fn emit(acc: &i64, out: &mut Vec<i64>) {
        out.push(*acc);
    }
}

/// Elements that are compared before it is asked whether one matched, first of a run and then of what matched there.
const SEARCHED: [usize; 2] = [256, 32];

/// The first element that matches, of at most 256 of which one does: without a branch, which would be guessed wrong.
#[inline(always)]
fn spot<T>(xs: &[T], same: impl Fn(&T) -> bool) -> usize {
    let mut at = u8::MAX;
    for (i, x) in xs.iter().enumerate() {
        at = at.min(if same(x) { i as u8 } else { u8::MAX });
    }
    usize::from(at)
}

/// The first element that matches.
#[inline(always)]
fn first<T>(xs: &[T], same: impl Fn(&T) -> bool) -> Option<usize> {
    let any = |xs: &[T]| xs.iter().fold(false, |found, x| found | same(x));
    let mut from = 0;
    for length in SEARCHED {
        let xs = &xs[from..];
        from += length * xs.chunks(length).position(any)?;
    }
    let end = xs.len().min(from + SEARCHED[1]);
    Some(from + spot(&xs[from..end], same))
}

/// The first of eight bools that is `want`: of most runs, one is. They are one number, of which the compiler would not think by itself.
#[inline(always)]
fn of_eight<T: Ordered>(xs: &[T], want: bool) -> Option<usize> {
    let eight = u64::from_le_bytes(*bytemuck::cast_slice(xs).first_chunk()?);
    let matches = eight ^ if want { 0 } else { u64::from_le_bytes([1; 8]) };
    (matches != 0).then(|| matches.trailing_zeros() as usize / 8)
}

/// The last element that matches.
#[inline(always)]
fn last<T>(xs: &[T], same: impl Fn(&T) -> bool) -> Option<usize> {
    let mut end = xs.len();
    for length in SEARCHED {
        let block = xs[..end].chunks(length).rposition(|xs| xs.iter().fold(false, |found, x| found | same(x)))?;
        end = end.min((block + 1) * length);
    }
    xs[..end].iter().rposition(same)
}

/// The first element that matches, or the last.
#[inline(always)]
fn nearest<T>(xs: &[T], front: bool, same: impl Fn(&T) -> bool) -> Option<usize> {
    if front { first(xs, same) } else { last(xs, same) }
}

/// The extreme of a run and the first element that is it, by one pass without branches: each lane keeps its own, and how many pieces ago it
/// met it. A piece is four or eight times as many elements, 256 at most; there are fewer than 255. With a NaN among the elements, NaN and
/// nowhere.
#[inline(always)]
fn located<T: Ordered, const MAX: bool, const LANES: usize, const PIECE: usize>(xs: &[T]) -> (T, usize) {
    let start = if MAX { T::LOW } else { T::HIGH }.key();
    let (mut best, mut ages, mut nan) = ([start; LANES], [T::NEW; LANES], false);
    // As integers, and with an age where a number would do: a choice between a number and what is there becomes a masked store, for which
    // the next load waits.
    let put = |best: &mut T::Key, age: &mut T::Age, x: T, older: T::Age| {
        let key = x.key();
        *age = if if MAX { key > *best } else { key < *best } { T::NEW } else { older };
        *best = if MAX { key.max(*best) } else { key.min(*best) };
    };
    let (pieces, rest) = xs.as_chunks::<PIECE>();
    for piece in pieces {
        for (i, (best, age)) in best.iter_mut().zip(&mut ages).enumerate() {
            let at = |j: usize| piece[j * LANES + i];
            let four = |q: usize| [at(4 * q), at(4 * q + 1), at(4 * q + 2), at(4 * q + 3)];
            let mut x = of_four::<T, MAX>(four(0));
            for q in 1..PIECE / LANES / 4 {
                x = pick::<T, MAX>(of_four::<T, MAX>(four(q)), x);
            }
            let older = T::older(*age);
            put(best, age, x, older);
            for q in 0..PIECE / LANES / 4 {
                nan |= any_nan(four(q));
            }
        }
    }
    if !rest.is_empty() {
        ages = ages.map(T::older);
        for xs in rest.chunks(LANES) {
            for ((best, age), &x) in best.iter_mut().zip(&mut ages).zip(xs) {
                let same = *age;
                put(best, age, x, same);
                nan |= x.nan();
            }
        }
    }
    if nan {
        return (T::NOTHING, usize::MAX);
    }
    let value = best_of::<T, MAX>(&best);
    let mut oldest = 0;
    for (&key, &age) in best.iter().zip(&ages) {
        oldest = oldest.max(if T::of(key) == value { T::age(age) as u8 } else { 0 });
    }
    // Where all are the worst there is, nothing was better than the start.
    let first = (pieces.len() + usize::from(!rest.is_empty())).saturating_sub(1 + usize::from(oldest));
    let same = |x: &T| *x == value;
    (value, first * PIECE + pieces.get(first).map_or_else(|| spot(rest, same), |piece| spot(piece, same)))
}

/// The position of the extreme; the first one in C order, whatever order the tiles come in.
pub(crate) struct Arg<T, const MAX: bool>(PhantomData<T>);
impl<T: Ordered, const MAX: bool> Reducer for Arg<T, MAX> {
    type In = T;
    /// The value and its position; `isize::MAX` is none yet.
    type Part = (T, isize);
    type Acc = (T, isize);
    type Out = i64;
    /// Few enough for an age to fit a byte.
    const RUN: usize = extremes::<T>(if size_of::<T>() == 1 { 32 << 10 } else { 64 << 10 });
    fn part() -> (T, isize) {
        (Extreme::<T, MAX>::part(), isize::MAX)
    }
    fn acc() -> (T, isize) {
        Self::part()
    }
    #[inline(always)]
    fn add(part: &mut (T, isize), x: T, pos: isize) {
        let (old, at) = *part;
        let better = if MAX { x > old } else { x < old };
        let equal = x == old || (x.nan() && old.nan());
        if (better && !old.nan()) || (x.nan() && !old.nan()) || (equal && pos < at) {
            *part = (x, pos);
        }
    }
    #[inline(always)]
    fn row(xs: &[T], pos: isize, step: isize) -> (T, isize) {
        Self::row_after(&Self::acc(), xs, pos, step)
    }
    #[inline(always)]
    fn row_after(&(old, old_at): &(T, isize), xs: &[T], pos: isize, step: isize) -> (T, isize) {
        if T::DTYPE == DType::Bool {
            // There are two values: the first of the better ones is the result.
            let (want, other) = if MAX { (T::HIGH, T::LOW) } else { (T::LOW, T::HIGH) };
            return match nearest(xs, step >= 0, |x| *x == want) {
                Some(i) => (want, pos + step * i as isize),
                None => (other, if step >= 0 { pos } else { pos + step * (xs.len() as isize - 1) }),
            };
        }
        let front = step >= 0;
        if old_at != isize::MAX {
            // The value alone first: there may be a better one already, or the same further in front.
            let value = Extreme::<T, MAX>::row(xs, 0, 0);
            let worse = if MAX { value < old } else { value > old } | (old.nan() & !value.nan());
            if worse | ((value == old) & front & (pos > old_at)) {
                return Self::part();
            }
        }
        // As many lanes as took the least time.
        let (value, at) = match (size_of::<T>(), T::NOTHING.nan()) {
            (8, false) => located::<T, MAX, 8, 64>(xs),
            (8, true) => located::<T, MAX, 16, 64>(xs),
            (4, false) => located::<T, MAX, 16, 128>(xs),
            (4, true) => located::<T, MAX, 32, 128>(xs),
            _ => located::<T, MAX, 64, 256>(xs),
        };
        let at = if value.nan() {
            nearest(xs, front, |x| x.nan())
        } else if front {
            Some(at)
        } else {
            last(xs, |x| *x == value)
        };
        (value, at.map_or(isize::MAX, |i| pos + step * i as isize))
    }
    #[inline(always)]
    fn glance(xs: &[T], pos: isize, step: isize) -> Option<(T, isize)> {
        if T::DTYPE != DType::Bool || step < 0 {
            return None;
        }
        let i = of_eight(xs, MAX)?;
        Some((if MAX { T::HIGH } else { T::LOW }, pos + step * i as isize))
    }
    #[inline(always)]
    fn decided(acc: &(T, isize), pos: isize, step: isize) -> bool {
        acc.1 != isize::MAX && step >= 0 && pos > acc.1 && best::<T, MAX>(acc.0)
    }
    #[inline(always)]
    fn merge(acc: &mut (T, isize), part: (T, isize)) {
        if part.1 != isize::MAX {
            Self::add(acc, part.0, part.1);
        }
    }
    fn emit(acc: &(T, isize), out: &mut Vec<i64>) {
        out.push(if acc.1 == isize::MAX { 0 } else { acc.1 as i64 });
    }
}
