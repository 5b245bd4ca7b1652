//! A result depends on its argument alone.

use super::*;
use crate::Out;

fn check<T: Real>(ones: Table1<T>, twos: Table2<T>, mut draw: impl FnMut() -> T) {
    let xs: Vec<T> = (0..200).map(|_| draw()).collect();
    let ys: Vec<T> = (0..200).map(|_| draw()).collect();
    let bits = |out: &[T]| out.iter().map(|&y| y.bits()).collect::<Vec<_>>();
    let mut of_fused: Option<Vec<Vec<u64>>> = None;
    for level in Level::available() {
        let mut all = Vec::new();
        for (name, f, ..) in &ones {
            let mut whole = vec![T::default(); 200];
            f(level, &xs, &mut whole);
            for n in 0..=70 {
                for start in [0, 1, 64, 130] {
                    let mut part = vec![T::default(); n];
                    f(level, &xs[start..start + n], &mut part);
                    assert_eq!(bits(&part), bits(&whole[start..start + n]), "{name} {level:?}: {n} from {start}");
                }
            }
            all.push(bits(&whole));
        }
        for (name, f, ..) in &twos {
            let mut whole = vec![T::default(); 200];
            f(level, &xs, &ys, &mut whole);
            for n in 0..=70 {
                let mut part = vec![T::default(); n];
                f(level, &xs[3..3 + n], &ys[3..3 + n], &mut part);
                assert_eq!(bits(&part), bits(&whole[3..3 + n]), "{name} {level:?}: {n}");
            }
            all.push(bits(&whole));
        }
        if level != Level::Portable {
            let first = of_fused.get_or_insert_with(|| all.clone());
            assert_eq!(*first, all, "{level:?}");
        }
    }
}

#[test]
fn doubles_are_the_same_everywhere() {
    let mut random = Random(1);
    check(ones64(), twos64(), || random.f64());
}

#[test]
fn singles_are_the_same_everywhere() {
    let mut random = Random(2);
    check(ones32(), twos32(), || random.f32());
}

#[test]
fn the_shortest_slice_counts() {
    let mut out = [9.0; 3];
    map(Level::best(), Exp, &[0.0; 2], Out::from(&mut out));
    assert_eq!(out, [1.0, 1.0, 9.0]);
    map2(Level::best(), Hypot, &[3.0_f32; 5], &[4.0; 1], Out::from(&mut [0.0; 0]));
}

#[test]
fn one_exponent_is_the_same_as_many() {
    use crate::Elementary;
    let mut random = Random(3);
    let xs: Vec<f64> = (0..300).map(|_| random.f64()).collect();
    for y in [0.0, -0.0, 0.5, 2.0, 3.0, -1.5, 1e300, f64::INFINITY, f64::NAN] {
        let (mut a, mut b) = (vec![0.0; 300], vec![0.0; 300]);
        f64::pow_scalar(&xs, y, Out::from(&mut a));
        f64::pow(&xs, &[y; 300], Out::from(&mut b));
        assert!(a.iter().zip(&b).all(|(a, b)| a.bits() == b.bits()));
    }
}

/// A block of ordinary arguments takes the quick form. With a special argument among them, it takes the careful form.
fn check_quick<T: Real>(ones: Table1<T>, twos: Table2<T>, cast: fn(f64) -> T) {
    let mut random = Random(4);
    let mut draw =
        |scale: f64| -> Vec<T> { (0..64 * 400).map(|_| cast((random.next() >> 11) as f64 / 2.0_f64.powi(53) * scale)).collect() };
    let (xs, ys) = (draw(9.0), draw(40.0));
    let spoilt = |v: &[T]| -> Vec<T> { v.iter().enumerate().map(|(i, &x)| if i % 64 == 0 { cast(f64::NAN) } else { x }).collect() };
    let (bad_xs, bad_ys) = (spoilt(&xs), spoilt(&ys));
    let same = |name: &str, level: Level, a: &[T], b: &[T]| {
        for (i, (&y, &z)) in a.iter().zip(b).enumerate() {
            assert!(i % 64 == 0 || y.bits() == z.bits(), "{name} {level:?}: {y:?}, {z:?} of {:?}, {:?}", xs[i], ys[i]);
        }
    };
    for level in Level::available() {
        let (mut quick, mut careful) = (vec![T::default(); xs.len()], vec![T::default(); xs.len()]);
        for (name, f, ..) in &ones {
            f(level, &xs, &mut quick);
            f(level, &bad_xs, &mut careful);
            same(name, level, &quick, &careful);
        }
        for (name, f, ..) in &twos {
            f(level, &xs, &ys, &mut quick);
            f(level, &bad_xs, &bad_ys, &mut careful);
            same(name, level, &quick, &careful);
        }
    }
}

#[test]
fn quick_forms_give_the_same() {
    check_quick(ones64(), twos64(), |x| x);
    check_quick(ones32(), twos32(), |x| x as f32);
}
