//! Tree reductions through LDS: how they look before a rewrite, and how they look after ours.
//!
//! Two rewrites need this: one replaces the tree, the other must know that a loop's partial result is reduced
//! over the whole workgroup before it may hand elements to other threads.

use hipsmith_syntax::Node;

use super::code::{Code, all, named, sibling};
use super::edit::lay_out;
use super::poly::Poly;

/// What a reduction does with two values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// `a + b`.
    Add,
    /// A two-argument function, such as `fmaxf`.
    Call(String),
}

impl Op {
    /// A statement that joins `other` into `into`.
    pub fn join(&self, into: &str, other: &str) -> String {
        match self {
            Op::Add => format!("{into} += {other};"),
            Op::Call(f) => format!("{into} = {f}({into}, {other});"),
        }
    }

    /// Whether the order of the operands does not matter (but for rounding).
    fn of_call(callee: &str) -> Option<Self> {
        let plain = callee.trim_start_matches("::").trim_start_matches("std::");
        matches!(plain, "max" | "min" | "fmaxf" | "fminf" | "fmax" | "fmin")
            .then(|| Op::Call(callee.to_owned()))
    }

    /// Whether two operations are the same function, whatever its spelling.
    pub fn agrees(&self, other: &Op) -> bool {
        let kind = |op: &Op| match op {
            Op::Add => "add",
            Op::Call(f) if f.contains("max") => "max",
            Op::Call(_) => "min",
        };
        kind(self) == kind(other)
    }
}

/// An update `acc += value` or `acc = f(acc, value)`: the variable, the operation, the value.
pub fn update<'a>(code: &Code<'a>, assignment: Node<'a>) -> Option<(String, Op, Node<'a>)> {
    let left = assignment.child_by_field_name("left")?;
    let right = assignment.child_by_field_name("right")?;
    let target = code.norm(left);
    match code.operator(assignment) {
        "+=" => Some((target, Op::Add, right)),
        "=" => match right.kind() {
            "binary_expression" if code.operator(right) == "+" => {
                let (a, b) = (
                    right.child_by_field_name("left")?,
                    right.child_by_field_name("right")?,
                );
                if code.norm(a) == target {
                    Some((target, Op::Add, b))
                } else if code.norm(b) == target {
                    Some((target, Op::Add, a))
                } else {
                    None
                }
            }
            "call_expression" => {
                let op = Op::of_call(&code.norm(right.child_by_field_name("function")?))?;
                match named(right.child_by_field_name("arguments")?).as_slice() {
                    [a, b] if code.norm(*a) == target => Some((target, op, *b)),
                    [a, b] if code.norm(*b) == target => Some((target, op, *a)),
                    _ => None,
                }
            }
            _ => None,
        },
        _ => None,
    }
}

/// One array of a tree reduction.
#[derive(Clone, Debug)]
pub struct Leaf<'a> {
    /// The LDS array.
    pub array: String,
    /// What joins two of its values.
    pub op: Op,
    /// `array[tid] = value;`
    pub fill: Node<'a>,
    /// `value`.
    pub value: Node<'a>,
}

/// `sh[tid] = value; __syncthreads(); for (s = block / 2; s > 0; s /= 2) { if (tid < s) sh[tid] += sh[tid + s]; __syncthreads(); }`
#[derive(Clone, Debug)]
pub struct Tree<'a> {
    /// The arrays, in the order of their fills.
    pub leaves: Vec<Leaf<'a>>,
    /// The `for` statement.
    pub steps: Node<'a>,
    /// `threadIdx.x` as the source says it.
    pub tid: String,
}

impl Tree<'_> {
    /// From the first fill to the end of the loop.
    pub fn range(&self) -> std::ops::Range<usize> {
        let start = self.leaves.iter().map(|l| l.fill.start_byte()).min();
        start.unwrap_or(self.steps.start_byte())..self.steps.end_byte()
    }
}

/// Every tree reduction of a kernel whose block is proved to be one-dimensional, a power of two and of at least
/// one wavefront.
pub fn trees<'a>(code: &Code<'a>) -> Vec<Tree<'a>> {
    let fits = code.proved_block().is_some_and(|[x, y, z]| {
        y == 1 && z == 1 && x.is_power_of_two() && (64..=1024).contains(&x)
    });
    if !fits {
        return Vec::new();
    }
    all(code.body)
        .filter(|n| n.kind() == "for_statement")
        .filter_map(|n| tree(code, n))
        .collect()
}

/// Whether a statement is a workgroup barrier.
pub fn is_barrier(code: &Code, node: Node) -> bool {
    code.norm(node) == "__syncthreads();"
}

fn tree<'a>(code: &Code<'a>, steps: Node<'a>) -> Option<Tree<'a>> {
    let (s, ascending) = stride_variable(code, steps)?;
    let body = steps.child_by_field_name("body")?;
    let statements = if body.kind() == "compound_statement" {
        named(body)
    } else {
        return None;
    };
    let mut branch = None;
    let mut barriers = 0;
    for statement in &statements {
        if is_barrier(code, *statement) {
            barriers += 1;
        } else if statement.kind() == "if_statement" && branch.is_none() {
            branch = Some(*statement);
        } else {
            return None;
        }
    }
    let branch = branch.filter(|_| barriers > 0)?;
    if branch.child_by_field_name("alternative").is_some() {
        return None;
    }
    let condition = named(branch.child_by_field_name("condition")?)
        .into_iter()
        .next()?;
    let (left, right) = (
        condition.child_by_field_name("left")?,
        condition.child_by_field_name("right")?,
    );
    let tid_node = match (code.operator(condition), ascending) {
        ("<", false) if code.norm(right) == s => left,
        (">", false) if code.norm(left) == s => right,
        ("==", true) if code.norm(right) == "0" => {
            // Interleaved: tid % (2 * s) == 0.
            let modulo = unparenthesized(left);
            let twice = unparenthesized(modulo.child_by_field_name("right")?);
            let two_s = Poly::int(2).mul(&Poly::atom(&s))?;
            if code.operator(modulo) != "%" || code.poly(twice)? != two_s {
                return None;
            }
            modulo.child_by_field_name("left")?
        }
        _ => return None,
    };
    if !code.is_thread_x(tid_node) {
        return None;
    }
    let tid = code.norm(tid_node);

    let consequence = branch.child_by_field_name("consequence")?;
    let joins = if consequence.kind() == "compound_statement" {
        named(consequence)
    } else {
        vec![consequence]
    };
    let mut ops: Vec<(String, Op)> = Vec::new();
    for join in joins {
        let (array, op) = join_of(code, join, &s)?;
        if ops.iter().any(|(a, _)| *a == array) {
            return None;
        }
        ops.push((array, op));
    }

    // Before the loop: the barrier, and before that one fill for each array.
    let mut at = sibling(steps, false)?;
    let mut before = 0;
    while is_barrier(code, at) || at.kind() == "preproc_call" {
        before += usize::from(is_barrier(code, at));
        at = sibling(at, false)?;
    }
    let first_is_barrier = statements.first().is_some_and(|n| is_barrier(code, *n));
    if before == 0 && !first_is_barrier {
        return None;
    }
    let mut leaves: Vec<Leaf> = Vec::new();
    for _ in 0..ops.len() {
        let (array, value) = fill_of(code, at)?;
        let (_, op) = ops.iter().find(|(a, _)| *a == array)?;
        if leaves.iter().any(|l| l.array == array) {
            return None;
        }
        leaves.insert(
            0,
            Leaf {
                array,
                op: op.clone(),
                fill: at,
                value,
            },
        );
        match sibling(at, false) {
            Some(previous) => at = previous,
            None if leaves.len() == ops.len() => break,
            None => return None,
        }
    }
    // A fill's value must not read what another fill of the same tree wrote.
    let reads_own = leaves.iter().any(|l| {
        all(l.value).any(|n| n.kind() == "identifier" && ops.iter().any(|(a, _)| a == code.str(n)))
    });
    let tree = Tree { leaves, steps, tid };
    let fit = !ops.is_empty() && !reads_own && !code.has_directives(tree.range());
    fit.then_some(tree)
}

/// The stride variable of `for (s = block / 2; s > 0; s /= 2)` (false) or `for (s = 1; s < block; s *= 2)` (true).
fn stride_variable<'a>(code: &Code<'a>, steps: Node<'a>) -> Option<(String, bool)> {
    let init = steps.child_by_field_name("initializer")?;
    let declarator = init.child_by_field_name("declarator")?;
    if init.kind() != "declaration" || declarator.kind() != "init_declarator" {
        return None;
    }
    let s = code.norm(declarator.child_by_field_name("declarator")?);
    let value = declarator.child_by_field_name("value")?;
    let condition = code.norm(steps.child_by_field_name("condition")?);
    let step = code.norm(steps.child_by_field_name("update")?);
    let halves = [
        format!("{s}>>=1"),
        format!("{s}/=2"),
        format!("{s}={s}/2"),
        format!("{s}={s}>>1"),
    ];
    let doubles = [
        format!("{s}*=2"),
        format!("{s}<<=1"),
        format!("{s}={s}*2"),
        format!("{s}={s}<<1"),
    ];
    let body = steps.child_by_field_name("body")?;
    if code.writes_in(body).any(|w| w.name == s) {
        return None;
    }
    let block = i64::from(code.proved_block()?[0]);
    let is_block = |node: Node<'a>| {
        code.poly(node)
            .and_then(|p| code.known(&p))
            .and_then(|p| p.constant())
            == Some(block)
    };
    let until_zero = [
        format!("{s}>0"),
        format!("{s}>=1"),
        format!("{s}!=0"),
        s.clone(),
    ];
    if halves.contains(&step) && until_zero.contains(&condition) {
        let value = unparenthesized(value);
        let (left, right) = (
            value.child_by_field_name("left"),
            value.child_by_field_name("right"),
        );
        let half = matches!(
            (code.operator(value), right.map(|r| code.norm(r)).as_deref()),
            ("/", Some("2")) | (">>", Some("1"))
        ) && left.is_some_and(is_block);
        let literal = code
            .poly(value)
            .and_then(|p| code.known(&p))
            .and_then(|p| p.constant())
            == Some(block / 2);
        return (half || literal).then_some((s, false));
    }
    if doubles.contains(&step) && code.norm(value) == "1" {
        let condition = steps.child_by_field_name("condition")?;
        let is_less = code.operator(condition) == "<"
            && code.norm(condition.child_by_field_name("left")?) == s
            && is_block(condition.child_by_field_name("right")?);
        return is_less.then_some((s, true));
    }
    None
}

fn join_of<'a>(code: &Code<'a>, statement: Node<'a>, s: &str) -> Option<(String, Op)> {
    // `A[tid]` and `A[tid + s]`.
    let slot = |node: Node<'a>| -> Option<(String, Poly)> {
        if node.kind() != "subscript_expression" {
            return None;
        }
        let base = code.subscript_base(node)?;
        let name = code.str(base);
        code.shared(name)?;
        Some((name.to_owned(), code.poly(code.subscript_index(node)?)?))
    };
    let own = Poly::atom("threadIdx.x");
    let other = own.add(&Poly::atom(s))?;
    if statement.kind() == "if_statement" {
        // if (A[tid] < A[tid + s]) A[tid] = A[tid + s];
        if statement.child_by_field_name("alternative").is_some() {
            return None;
        }
        let condition = named(statement.child_by_field_name("condition")?)
            .into_iter()
            .next()?;
        let (left, right) = (
            condition.child_by_field_name("left")?,
            condition.child_by_field_name("right")?,
        );
        let (mine, theirs, sign) = (slot(left)?, slot(right)?, code.operator(condition));
        let (mine, theirs, max) = if mine.1 == own {
            (mine, theirs, matches!(sign, "<" | "<="))
        } else {
            (theirs, mine, matches!(sign, ">" | ">="))
        };
        let mut inner = statement.child_by_field_name("consequence")?;
        if let ("compound_statement", [one]) = (inner.kind(), named(inner).as_slice()) {
            inner = *one;
        }
        let assignment = named(inner).into_iter().next()?;
        let target = slot(assignment.child_by_field_name("left")?)?;
        let value = slot(assignment.child_by_field_name("right")?)?;
        let ok = matches!(sign, "<" | "<=" | ">" | ">=")
            && code.operator(assignment) == "="
            && mine == (target.0.clone(), own)
            && theirs.1 == other
            && theirs.0 == mine.0
            && target == mine
            && value == theirs;
        return ok.then(|| (mine.0, Op::Call(if max { "max" } else { "min" }.to_owned())));
    }
    if statement.kind() != "expression_statement" {
        return None;
    }
    let assignment = named(statement).into_iter().next()?;
    let (_, op, value) = update(code, assignment)?;
    let target = slot(assignment.child_by_field_name("left")?)?;
    let value = slot(value)?;
    (target.1 == own && value.1 == other && target.0 == value.0).then_some((target.0, op))
}

fn fill_of<'a>(code: &Code<'a>, statement: Node<'a>) -> Option<(String, Node<'a>)> {
    if statement.kind() != "expression_statement" {
        return None;
    }
    let assignment = named(statement).into_iter().next()?;
    let left = assignment.child_by_field_name("left")?;
    if code.operator(assignment) != "=" || left.kind() != "subscript_expression" {
        return None;
    }
    let array = code.str(code.subscript_base(left)?);
    code.shared(array)?;
    let own = code.is_thread_x(code.subscript_index(left)?);
    own.then_some((array.to_owned(), assignment.child_by_field_name("right")?))
}

fn unparenthesized(node: Node<'_>) -> Node<'_> {
    match (node.kind(), named(node).as_slice()) {
        ("parenthesized_expression", [inner]) => unparenthesized(*inner),
        _ => node,
    }
}

/// One array's part of the replacement.
#[derive(Clone, Debug)]
pub struct WavePart {
    /// The LDS array; its first slots take one value a wavefront.
    pub array: String,
    /// Its element type.
    pub element: String,
    /// What joins two values.
    pub op: Op,
    /// What each thread brings.
    pub value: String,
    /// Which reduction over this array it is; `""` for the first, then `"2"`, `"3"`.
    pub nth: String,
}

impl WavePart {
    /// The name of the lane's own value.
    pub fn lane(&self) -> String {
        format!("{}_lane{}", self.array, self.nth)
    }
    /// The name of the result, which every thread has.
    pub fn total(&self) -> String {
        format!("{}_total{}", self.array, self.nth)
    }
}

/// The replacement of a tree: shuffles inside a wavefront, one LDS slot a wavefront, one barrier, and every
/// thread joins the slots. In the notation of [`lay_out`].
pub fn wave_code(parts: &[WavePart], tid: &str, waves: &str) -> String {
    let mut code = String::new();
    let tid = if tid
        .chars()
        .all(|c| c.is_alphanumeric() || c == '_' || c == '.')
    {
        tid.to_owned()
    } else {
        format!("({tid})")
    };
    let mut line = |depth: usize, text: String| {
        code.push_str(&"\t".repeat(depth));
        code.push_str(&text);
        code.push('\n');
    };
    for p in parts {
        line(0, format!("{} {} = {};", p.element, p.lane(), p.value));
    }
    line(
        0,
        "for (int offset = 32; offset > 0; offset >>= 1) {".into(),
    );
    for p in parts {
        let other = format!("__shfl_xor({}, offset, 64)", p.lane());
        line(1, p.op.join(&p.lane(), &other));
    }
    line(0, "}".into());
    line(0, format!("if ({tid} % 64 == 0) {{"));
    for p in parts {
        line(1, format!("{}[{tid} / 64] = {};", p.array, p.lane()));
    }
    line(0, "}".into());
    line(0, "__syncthreads();".into());
    for p in parts {
        line(0, format!("{} {} = {}[0];", p.element, p.total(), p.array));
    }
    line(
        0,
        format!("for (unsigned wave = 1; wave < {waves}; ++wave) {{"),
    );
    for p in parts {
        line(1, p.op.join(&p.total(), &format!("{}[wave]", p.array)));
    }
    line(0, "}".into());
    code
}

/// Whether the statements from `first` on are what [`wave_code`] writes, so that the value it begins with is
/// reduced over the whole workgroup. Gives that value's operation.
pub fn is_wave_code<'a>(code: &Code<'a>, first: Node<'a>, value: &str) -> Option<Op> {
    // Read the parts off the declarations, write the code again, and compare.
    let mut parts = Vec::new();
    let mut at = Some(first);
    while let Some(node) = at.filter(|n| n.kind() == "declaration") {
        let declarator = node.child_by_field_name("declarator")?;
        let lane = code.norm(declarator.child_by_field_name("declarator")?);
        let (array, nth) = lane.rsplit_once("_lane")?;
        parts.push(WavePart {
            array: array.to_owned(),
            nth: nth.to_owned(),
            element: code.norm(node.child_by_field_name("type")?),
            op: Op::Add,
            value: code.norm(declarator.child_by_field_name("value")?),
        });
        at = sibling(node, true);
    }
    let ladder = at.filter(|n| n.kind() == "for_statement")?;
    let joins = named(ladder.child_by_field_name("body")?);
    for (part, join) in parts.iter_mut().zip(&joins) {
        let (target, op, _) = update(code, named(*join).into_iter().next()?)?;
        if target != part.lane() {
            return None;
        }
        part.op = op;
    }
    let branch = sibling(ladder, true)?;
    let slot = all(branch).find(|n| n.kind() == "binary_expression" && code.operator(*n) == "%")?;
    let tid = slot.child_by_field_name("left")?;
    if !code.is_thread_x(tid) {
        return None;
    }
    let mut text = String::new();
    let mut waves = None;
    let mut at = Some(first);
    for _ in 0..parts.len() * 2 + 4 {
        let node = at?;
        text.push_str(&code.norm(node));
        if node.kind() == "for_statement" {
            waves = node
                .child_by_field_name("condition")
                .and_then(|c| c.child_by_field_name("right"));
        }
        at = sibling(node, true);
    }
    let expected = lay_out(&wave_code(&parts, code.str(tid), code.str(waves?)), "", "");
    let squeeze = |t: &str| t.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let block = i64::from(code.proved_block()?[0]);
    let slots = unparenthesized(waves?);
    let all_waves = code.operator(slots) == "/"
        && code.norm(slots.child_by_field_name("right")?) == "64"
        && code
            .known(&code.poly(slots.child_by_field_name("left")?)?)?
            .constant()
            == Some(block);
    let part = parts.iter().find(|p| p.value == value)?;
    (all_waves && squeeze(&expected) == squeeze(&text)).then(|| part.op.clone())
}
