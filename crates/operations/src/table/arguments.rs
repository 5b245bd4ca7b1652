//! The values of a call, put to the parameters that they are for.

use super::call::Arguments;
use super::{Kind, Operation, Parameter};
use crate::value::fail;
use crate::{Array, CallError, Place, Value, suggest};

/// What each parameter of a call was given.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    /// For each parameter.
    pub given: Vec<Option<(Value, Place)>>,
    /// Arguments that are named after dimensions.
    pub dimensions: Vec<(String, Value, Place)>,
    /// Arguments of [`Kind::Rest`].
    pub rest: Vec<(Value, Place)>,
}

impl Operation {
    fn takes(&self, wanted: impl Fn(Kind) -> bool) -> bool {
        self.parameters.iter().any(|p| wanted(p.kind))
    }

    /// Puts each value to its parameter.
    pub(super) fn bind(&self, arguments: &Arguments) -> Result<Bound, CallError> {
        let by_dimension = self.takes(|k| matches!(k, Kind::ByDimension(_)));
        let twice = |p: &Parameter| {
            fail(format!("{}() was given its argument '{}' twice; it is called as {}", self.name, p.name, self.signature()))
        };
        let mut out = Bound { given: vec![None; self.parameters.len()], dimensions: Vec::new(), rest: Vec::new() };
        let positions: Vec<usize> = (0..self.parameters.len()).filter(|&k| self.parameters[k].positional).collect();
        let mut more = 0;
        for (i, v) in arguments.positional.iter().enumerate() {
            let place = Place::Position(i);
            match positions.get(i) {
                Some(&k) => out.given[k] = Some((v.clone(), place)),
                None if self.takes(|k| k == Kind::Rest) => out.rest.push((v.clone(), place)),
                None => more += usize::from(!v.is_none()),
            }
        }
        for (name, v) in &arguments.named {
            let place = Place::Name(name.clone());
            let k = self.parameters.iter().position(|p| p.answers_to(name));
            // An argument that is given by position leaves its name to a dimension: isel(t, x=0).
            let free = |k: &usize| out.given[*k].as_ref().is_none_or(|(v, place)| v.is_none() && matches!(place, Place::Position(_)));
            match (k, k.filter(free)) {
                (_, Some(k)) => out.given[k] = Some((v.clone(), place)),
                _ if by_dimension => out.dimensions.push((name.clone(), v.clone(), place)),
                (Some(k), None) => return twice(&self.parameters[k]),
                (None, None) => return Err(self.unknown(name)),
            }
        }
        if self.element.is_some() {
            let n = arguments.positional.len() + arguments.named.len();
            let all = self.parameters.len();
            if n != all {
                let many = if all == 1 { "1 argument".into() } else { format!("{all} arguments") };
                return fail(format!("{}() takes {many}, not {n}; it is called as {}", self.name, self.signature()));
            }
        }
        if more > 0 {
            return fail(format!("{}() was given too many arguments; it is called as {}", self.name, self.signature()));
        }
        for (p, given) in self.parameters.iter().zip(&out.given) {
            self.check_given(p, given.as_ref(), &out)?;
        }
        Ok(out)
    }

    fn check_given(&self, p: &Parameter, given: Option<&(Value, Place)>, all: &Bound) -> Result<(), CallError> {
        let there = match p.kind {
            Kind::ByDimension(_) => p.form != 0 || !all.dimensions.is_empty(),
            Kind::Rest => true,
            _ => given.is_some_and(|(v, _)| p.missing.is_none() || !v.is_none()) || p.default.is_some(),
        };
        match (&p.missing, there) {
            (_, true) => Ok(()),
            (Some(message), false) => fail(message.clone()),
            (None, false) => fail(format!("{}() needs its argument '{}'; it is called as {}", self.name, p.name, self.signature())),
        }
    }

    /// There is no parameter of this name.
    pub(super) fn unknown(&self, name: &str) -> CallError {
        let message = format!("{}() has no argument '{name}'; it is called as {}", self.name, self.signature());
        let named = || self.parameters.iter().filter(|p| p.kind != Kind::Rest);
        let near = match name {
            "axes" | "dims" | "dimension" | "dimensions" => named().find(|p| p.is_dims()).map(|p| p.name.to_string()),
            _ => suggest(name, named().map(|p| p.name)),
        };
        CallError { help: near.map(|n| format!("did you mean '{n}'?")), ..CallError::new(message) }
    }

    /// The dimensions of the input that the arguments name.
    pub(super) fn dims_of<'a>(&self, bound: &'a Bound) -> Vec<&'a str> {
        let mut out: Vec<&str> = Vec::new();
        for (p, (v, _)) in self.parameters.iter().zip(&bound.given).filter_map(|(p, g)| Some((p, g.as_ref()?))) {
            match (p.kind, v) {
                _ if p.is_dims() => out.extend(v.texts()),
                (Kind::Groups, Value::Str(t)) => out.extend(t.split_once('.').map(|(dim, _)| dim)),
                _ => {}
            }
        }
        out.extend(bound.dimensions.iter().map(|(n, _, _)| n.as_str()));
        out
    }

    /// Leaves those dimensions out of the arguments that a variable of a dataset does not have. False if it has none of them: such a
    /// variable stays as it is.
    pub(super) fn restrict(&self, bound: &mut Bound, a: &Array) -> bool {
        let has = |d: &str| a.axis_named(d).is_some();
        let wanted = self.dims_of(bound);
        if wanted.is_empty() {
            return true;
        }
        if !wanted.into_iter().any(has) {
            return false;
        }
        bound.dimensions.retain(|(n, _, _)| has(n));
        for (p, given) in self.parameters.iter().zip(&mut bound.given) {
            if let (true, Some((Value::List(items), _))) = (p.is_dims(), given) {
                items.retain(|v| if let Value::Str(d) = v { has(d) } else { true });
            }
        }
        true
    }
}

impl Bound {
    /// Every value.
    pub(super) fn values(&self) -> impl Iterator<Item = &Value> {
        let given = self.given.iter().flatten().map(|(v, _)| v);
        given.chain(self.dimensions.iter().map(|(_, v, _)| v)).chain(self.rest.iter().map(|(v, _)| v))
    }

    /// The same with other values, in the order of [`Bound::values`].
    pub(super) fn with_values(&self, values: &[Value]) -> Bound {
        let mut out = self.clone();
        let given = out.given.iter_mut().flatten().map(|(v, _)| v);
        let slots = given.chain(out.dimensions.iter_mut().map(|(_, v, _)| v)).chain(out.rest.iter_mut().map(|(v, _)| v));
        for (slot, v) in slots.zip(values) {
            *slot = v.clone();
        }
        out
    }
}
