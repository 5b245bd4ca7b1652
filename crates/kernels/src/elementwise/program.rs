//! Fused programs: a group of element-wise functions that is evaluated strip by strip.
//!
//! Every strip goes through the whole program while it is in the first-level cache or, if very many values are alive at once, in the second one.
//! Inputs are read where they are or, if they do not lie densely, gathered into a register. Each function writes into a register that is not needed
//! any more, or straight to the end of an output. So each input element is loaded once and each output element is stored once, whatever the length
//! of the program.

use super::find::find;
use super::op::ElementOp;
use super::operand::{Gathered, MAX_STRIP, Operand, PANEL_BYTES, Walk};
use super::strip::{Buffer, Found, LINE, StripFn, copy};
use crate::{Block, KernelError, with_block, with_dtype};
use chunkwise_types::DType;
use std::collections::HashMap;

/// The fewest, unless there are not so many: a function takes some tens of nanoseconds by itself.
const MIN_STRIP: usize = 1024;
/// Bytes that the registers, inputs and outputs of a strip should have together, if they can: most of a first-level cache.
const STRIP_BYTES: usize = 32 << 10;

/// One function of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FusedOp {
    /// The function; `None` is a cast.
    pub function: Option<ElementOp>,
    /// Where its inputs come from: the program's inputs are counted first, then its functions.
    pub inputs: Vec<usize>,
    /// The dtype of its value.
    pub dtype: DType,
}

/// Where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Input(usize),
    Register(usize),
    Output(usize),
}

/// A value while the program is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Input(usize),
    Op(usize),
}

struct Raw {
    run: StripFn,
    function: Option<ElementOp>,
    args: Vec<Value>,
    dtype: DType,
}

struct Op {
    run: StripFn,
    /// For what is said if it refuses its elements.
    function: Option<ElementOp>,
    args: [Place; 3],
    arity: usize,
    out: Place,
}

/// A program compiled for the dtypes of its inputs.
///
/// ```
/// use chunkwise_kernels::{Block, ElementOp, Fused, FusedOp, Operand, Scratch};
/// use chunkwise_types::DType::Float64;
/// let op = |function, inputs: &[usize]| FusedOp { function: Some(function), inputs: inputs.to_vec(), dtype: Float64 };
/// // exp(x) + x: the input is value 0, exp is value 1, add is value 2.
/// let program = Fused::new(&[Float64], &[op(ElementOp::Exp, &[0]), op(ElementOp::Add, &[1, 0])], &[2])?;
/// let x = Operand::new(Block::zeros(Float64, &[5, 7]));
/// let blocks = program.run(&[x], &[5, 7], false, &mut Scratch::default())?;
/// assert_eq!(blocks[0].shape(), [5, 7]);
/// # Ok::<(), chunkwise_kernels::KernelError>(())
/// ```
pub struct Fused {
    inputs: Vec<DType>,
    ops: Vec<Op>,
    registers: Vec<DType>,
    outputs: Vec<DType>,
    /// Which output each of the values asked for is: two may be the same.
    asked: Vec<usize>,
    strip: usize,
    /// The strip if every input is read in place.
    in_place: usize,
}

/// A buffer that is taken out while it is written. Moving the vector itself would cost more than a short strip: it is loaded in other parts
/// than its length was stored in, for which processors wait.
type Slot = Option<Box<Buffer>>;

/// The registers of a program, kept from one run to the next.
#[derive(Default)]
pub struct Scratch {
    registers: Vec<Slot>,
    gathered: Vec<Gathered>,
    index: Vec<usize>,
    walk: Vec<usize>,
}

/// The one function that refuses values.
const NEGATIVE_POWER: &str = "pow: an exponent is negative, but integers to negative integer powers are not allowed; \
                              astype(x, \"float64\") of the base gives floating-point powers";

fn bug(what: &str) -> KernelError {
    KernelError::Invalid(format!("a fused program: {what}"))
}

impl Fused {
    /// Compiles functions, each of which takes inputs or functions before it, for inputs of these dtypes. `outputs` are the values that are
    /// wanted, counted as in [`FusedOp::inputs`].
    ///
    /// # Errors
    /// If a function is not defined for the dtypes of its inputs, or a value is used before it is there.
    pub fn new(inputs: &[DType], ops: &[FusedOp], outputs: &[usize]) -> Result<Fused, KernelError> {
        let mut values: Vec<(Value, DType)> = inputs.iter().enumerate().map(|(i, &d)| (Value::Input(i), d)).collect();
        let mut raw: Vec<Raw> = Vec::new();
        let push = |raw: &mut Vec<Raw>, run, function, args, dtype| {
            raw.push(Raw { run, function, args, dtype });
            Value::Op(raw.len() - 1)
        };
        for op in ops {
            let args: Vec<(Value, DType)> = op
                .inputs
                .iter()
                .map(|&i| values.get(i).copied().ok_or_else(|| bug("a value that is not there")))
                .collect::<Result<_, _>>()?;
            let (places, dtypes): (Vec<Value>, Vec<DType>) = args.iter().copied().unzip();
            let (mut value, mut made) = *args.first().ok_or_else(|| bug("a function without inputs"))?;
            if let Some(function) = op.function {
                if args.len() != function.arity() {
                    return Err(bug(&format!("{} of {} inputs", function.name(), args.len())));
                }
                let refused = || KernelError::DType { op: function.name().into(), dtype: dtypes[dtypes.len() - 1] };
                if let Found::Run(run, dtype) = find(function, &dtypes).ok_or_else(refused)? {
                    (value, made) = (push(&mut raw, run, op.function, places, dtype), dtype);
                }
            }
            if made != op.dtype {
                value = push(&mut raw, crate::cast::strips(made, op.dtype), None, vec![value], op.dtype);
            }
            values.push((value, op.dtype));
        }
        // Outputs that are inputs are copied; those that are one value are one block.
        let mut wanted: Vec<usize> = Vec::new();
        let mut output_of: HashMap<usize, usize> = HashMap::new();
        let mut asked = Vec::new();
        for &o in outputs {
            let k = match *values.get(o).ok_or_else(|| bug("an output that is not there"))? {
                (Value::Op(k), _) => k,
                (Value::Input(i), dtype) => {
                    let run: StripFn = with_dtype!(dtype, T => copy::<T>);
                    push(&mut raw, run, None, vec![Value::Input(i)], dtype);
                    raw.len() - 1
                }
            };
            asked.push(*output_of.entry(k).or_insert_with(|| {
                wanted.push(k);
                wanted.len() - 1
            }));
        }
        let (ops, registers) = place(&raw, &wanted);
        let outputs: Vec<DType> = wanted.iter().map(|&k| raw[k].dtype).collect();
        let bytes: u64 = inputs.iter().chain(&registers).chain(&outputs).map(|d| d.size()).sum();
        let strip = (STRIP_BYTES / bytes.max(1) as usize).clamp(MIN_STRIP, MAX_STRIP) / 128 * 128;
        // A single function without registers reads nothing twice: its strip need not stay in a cache, and every strip costs a little by itself.
        let in_place = if ops.len() == 1 { usize::MAX } else { strip };
        Ok(Fused { inputs: inputs.to_vec(), ops, registers, outputs, asked, strip, in_place })
    }

    /// An upper bound of the bytes that [`Scratch`] takes for outputs of so many elements, if so many of the inputs may lie in another order
    /// than the outputs.
    pub fn scratch(&self, volume: u64, turned: usize) -> u64 {
        let strip = volume.min(self.strip as u64);
        let registers = self.registers.iter().chain(&self.inputs).map(|d| strip * d.size() + LINE as u64).fold(0, u64::saturating_add);
        // Some rows of each of those; there are two rows at least.
        let panel = (PANEL_BYTES as u64).min(volume.saturating_mul(LINE as u64 / 2));
        registers.saturating_add(panel.saturating_mul(turned as u64))
    }

    /// Evaluates the program on operands of one shape. The outputs are dense: in C order or, with `any_order`, in the order of the inputs
    /// if all of them lie in the same one.
    ///
    /// # Errors
    /// If the operands are not those that the program was compiled for, or have other shapes.
    pub fn run(&self, operands: &[Operand], shape: &[u64], any_order: bool, scratch: &mut Scratch) -> Result<Vec<Block>, KernelError> {
        if operands.len() != self.inputs.len() || operands.iter().zip(&self.inputs).any(|(o, d)| o.block().dtype() != *d) {
            return Err(bug("other inputs than it was compiled for"));
        }
        if let Some(o) = operands.iter().find(|o| !o.has_shape(shape)) {
            return Err(bug(&format!("an input of {:?} for an output of shape {shape:?}", o.block().shape())));
        }
        let walk = Walk::new(shape, operands, any_order);
        let total = walk.total();
        let gathers = (0..operands.len()).any(|i| !walk.in_place(i));
        let strip = if gathers { self.strip } else { self.in_place }.min(total);
        scratch.fit(&self.registers, operands, &walk, strip)?;
        let Scratch { registers, gathered, index, walk: indices } = scratch;
        let room = |d: &DType| Buffer::with_capacity(*d, total).ok_or_else(|| bug("a dtype without blocks"));
        let mut outputs: Vec<Slot> = self.outputs.iter().map(|d| room(d).map(|b| Some(Box::new(b)))).collect::<Result<_, _>>()?;
        let broken = || bug("a function got another dtype than it was compiled for");
        let mut at = 0;
        while at < total {
            let n = walk.strip(at, strip);
            walk.index(at, index);
            for (i, (operand, register)) in operands.iter().zip(gathered.iter_mut()).enumerate() {
                if !walk.in_place(i) {
                    walk.gather(i, operand, index, n, indices, register).ok_or_else(broken)?;
                }
            }
            for op in &self.ops {
                // What is written is taken out meanwhile.
                let mut out = match op.out {
                    Place::Output(o) => outputs[o].take(),
                    Place::Register(r) => registers[r].take().map(|mut register| {
                        register.clear();
                        register
                    }),
                    Place::Input(_) => None,
                };
                let arg = |p: Place| match p {
                    Place::Input(i) => walk.strip_of(i, &operands[i], index, n).or_else(|| Some(gathered[i].strip(n))),
                    Place::Register(r) => Some(registers[r].as_ref()?.tail(n)),
                    Place::Output(o) => Some(outputs[o].as_ref()?.tail(n)),
                };
                let done = out.as_mut().and_then(|out| match *op {
                    Op { args: [a, ..], arity: 1, .. } => (op.run)(&[arg(a)?], n, out),
                    Op { args: [a, b, _], arity: 2, .. } => (op.run)(&[arg(a)?, arg(b)?], n, out),
                    Op { args: [a, b, c], .. } => (op.run)(&[arg(a)?, arg(b)?, arg(c)?], n, out),
                });
                match op.out {
                    Place::Output(o) => outputs[o] = out,
                    Place::Register(r) => registers[r] = out,
                    Place::Input(_) => {}
                }
                done.ok_or_else(|| match op.function {
                    Some(ElementOp::Pow) => KernelError::Invalid(NEGATIVE_POWER.into()),
                    _ => broken(),
                })?;
            }
            at += n;
        }
        let blocks: Vec<Block> = outputs.into_iter().flatten().map(|o| arranged(*o, shape, &walk.order)).collect();
        Ok(self.asked.iter().map(|&o| blocks[o].clone()).collect())
    }
}

/// A block of this shape from elements in the order of these axes.
fn arranged(elements: Buffer, shape: &[u64], order: &[usize]) -> Block {
    let stored: Vec<u64> = order.iter().map(|&i| shape[i]).collect();
    let block = elements.into_block(&stored);
    if order.windows(2).all(|w| w[0] < w[1]) {
        return block;
    }
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(k, &i)| back[i] = k);
    fn go<T: crate::BlockElement>(a: ndarray::ArcArray<T, ndarray::IxDyn>, back: &[usize]) -> Block {
        T::wrap(a.permuted_axes(ndarray::IxDyn(back)))
    }
    with_block!(block, a => go(a, &back))
}

/// Gives every function that is needed its place: outputs theirs, the others registers, which are used again after their last reader.
fn place(raw: &[Raw], wanted: &[usize]) -> (Vec<Op>, Vec<DType>) {
    let mut last: Vec<Option<usize>> = vec![None; raw.len()];
    wanted.iter().for_each(|&k| last[k] = Some(usize::MAX));
    for k in (0..raw.len()).rev() {
        if last[k].is_some() {
            for arg in &raw[k].args {
                if let Value::Op(a) = *arg {
                    last[a] = last[a].or(Some(k));
                }
            }
        }
    }
    let (mut registers, mut free): (Vec<DType>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut places: Vec<Place> = vec![Place::Input(0); raw.len()];
    let mut output_of: Vec<Option<usize>> = vec![None; raw.len()];
    wanted.iter().enumerate().for_each(|(o, &k)| output_of[k] = Some(o));
    let mut ops = Vec::new();
    for (k, op) in raw.iter().enumerate().filter(|(k, _)| last[*k].is_some()) {
        places[k] = match output_of[k] {
            Some(o) => Place::Output(o),
            None => Place::Register(match free.iter().rposition(|&r| registers[r] == op.dtype) {
                Some(i) => free.swap_remove(i),
                None => {
                    registers.push(op.dtype);
                    registers.len() - 1
                }
            }),
        };
        let mut args = [Place::Input(0); 3];
        for (to, arg) in args.iter_mut().zip(&op.args) {
            *to = match *arg {
                Value::Input(i) => Place::Input(i),
                Value::Op(a) => places[a],
            };
        }
        for (i, arg) in op.args.iter().enumerate() {
            if let (Value::Op(a), Place::Register(r)) = (*arg, args[i.min(2)])
                && last[a] == Some(k)
                && !free.contains(&r)
            {
                free.push(r);
            }
        }
        ops.push(Op { run: op.run, function: op.function, args, arity: op.args.len(), out: places[k] });
    }
    (ops, registers)
}

impl Scratch {
    /// The bytes that it takes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        let registers = self.registers.iter().flatten().map(|register| register.bytes());
        registers.chain(self.gathered.iter().map(|g| g.register.bytes())).sum()
    }

    /// Makes room for strips of `n` elements: in registers of these dtypes, and for the operands that are gathered.
    fn fit(&mut self, registers: &[DType], operands: &[Operand], walk: &Walk, n: usize) -> Result<(), KernelError> {
        let missing = || bug("a dtype without blocks");
        self.registers.resize_with(registers.len(), Slot::default);
        self.gathered.resize_with(operands.len(), Gathered::default);
        for (register, &dtype) in self.registers.iter_mut().zip(registers) {
            register.get_or_insert_default().fit(dtype, n).ok_or_else(missing)?;
        }
        for (i, (to, operand)) in self.gathered.iter_mut().zip(operands).enumerate() {
            to.forget();
            if !walk.in_place(i) {
                to.register.fit(operand.block().dtype(), n).ok_or_else(missing)?;
            }
        }
        Ok(())
    }
}

/// One function of blocks of one shape.
pub(crate) fn single(dtypes: &[DType], op: FusedOp, blocks: &[&Block]) -> Result<Block, KernelError> {
    let program = Fused::new(dtypes, &[op], &[dtypes.len()])?;
    let operands: Vec<Operand> = blocks.iter().map(|b| Operand::new((*b).clone())).collect();
    let made = program.run(&operands, &blocks[0].shape(), true, &mut Scratch::default())?;
    made.into_iter().next().ok_or_else(|| bug("no output"))
}
