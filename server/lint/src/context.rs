//! What every rule is given: the file's facts, worked out once.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use hipsmith_syntax::lanes::{Evaluator, Geometry, Names};
use hipsmith_syntax::lex::{Token, tokens};
use hipsmith_syntax::{Document, FunctionKind, Model, Scope};
use hipsmith_target::Target;

use crate::Config;
use crate::facts::{self, Function, Place};
use crate::reach::Reach;
use crate::votes::{TypeNames, VoteMacro};
use crate::waves::{Id, Scheme};

/// A name and the function it is used in.
type NameIn = (String, Option<usize>);

/// Constants from the kernel model, each looked up once.
struct ModelNames<'t> {
    model: &'t Model,
    /// By name and the function it is used in: a name has one meaning there, locals aside.
    memo: RefCell<HashMap<NameIn, Option<i64>>>,
    /// Starts of the functions, in order.
    starts: Vec<usize>,
    /// Names that some function declares: only their meaning depends on the place.
    local: HashSet<&'t str>,
}

impl Names for ModelNames<'_> {
    fn constant(&self, name: &str, at: usize) -> Option<i64> {
        let function = if self.local.contains(name) {
            self.starts.partition_point(|s| *s <= at).checked_sub(1)
        } else {
            None
        };
        let key = (name.to_owned(), function);
        if let Some(known) = self.memo.borrow().get(&key) {
            return *known;
        }
        let value = self.model.eval(name, &Scope::at(at));
        self.memo.borrow_mut().insert(key, value);
        value
    }

    fn size_of(&self, type_text: &str) -> Option<i64> {
        self.model
            .eval(&format!("sizeof({type_text})"), &Scope::file())
    }
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_')
        && text.chars().next().is_some_and(|c| !c.is_ascii_digit())
}

/// Work out the facts of `document` and hand them to `f`.
pub(crate) fn with(document: &Document, config: &Config, f: impl FnOnce(&Context<'_>)) {
    let model: &Model = document.model();
    let places: HashMap<usize, Place> = model
        .functions
        .iter()
        .map(|f| {
            let place = match f.kind {
                FunctionKind::Kernel => Place::Kernel,
                FunctionKind::Device | FunctionKind::HostDevice => Place::Device,
                FunctionKind::Host => Place::Unmarked,
            };
            (f.name_range.start, place)
        })
        .collect();
    let aliases: HashMap<&str, &str> = model
        .macros()
        .filter(|(_, m)| m.parameters.is_none() && is_name(&m.body))
        .map(|(name, m)| (name, m.body.as_str()))
        .collect();
    let macro_names = Rc::new(aliases);
    let functions = facts::functions(document.masked(), document.root(), &places, &macro_names);
    let mut starts: Vec<usize> = model.functions.iter().map(|f| f.range.start).collect();
    starts.sort_unstable();
    let names = ModelNames {
        model,
        memo: RefCell::default(),
        starts,
        local: model
            .variables
            .iter()
            .filter(|v| v.scope.start > 0)
            .map(|v| v.name.as_str())
            .collect(),
    };
    let by_name = facts::by_name(&functions);
    let cx = Context {
        source: document.masked(),
        target: document.target(),
        config,
        model,
        shared_names: model.shared.iter().map(|s| s.name.as_str()).collect(),
        document,
        names: &names,
        macros: model.macros().map(|(name, _)| name.to_owned()).collect(),
        by_name,
        ids: RefCell::default(),
        texts: RefCell::default(),
        schemes: functions.iter().map(|_| OnceCell::new()).collect(),
        callers: functions.iter().map(|_| OnceCell::new()).collect(),
        reach: Reach::new(model, &functions),
        subject: Cell::new(None),
        functions,
        words: OnceCell::new(),
        macro_names,
        types: OnceCell::new(),
        vote_macros: OnceCell::new(),
    };
    f(&cx);
}

/// The file under check.
pub struct Context<'t> {
    /// The masked text: that of the user without the HIP words and the code that is not compiled, at the same offsets.
    pub source: &'t str,
    /// The device checked for.
    pub target: &'t Target,
    /// Settings.
    pub config: &'t Config,
    /// Functions that are compiled for the target.
    pub functions: Vec<Function<'t>>,
    /// The kernel model: arrays, launches, constants.
    pub model: &'t Model,
    /// Names of the `__shared__` arrays.
    pub(crate) shared_names: HashSet<&'t str>,
    pub(crate) document: &'t Document,
    pub(crate) names: &'t dyn Names,
    pub(crate) macros: HashSet<String>,
    pub(crate) by_name: HashMap<String, Vec<usize>>,
    /// What [`Context::has_text`] was asked for.
    pub(crate) texts: RefCell<HashMap<&'static str, bool>>,
    /// Ids that variables hold, by the node of the variable's name.
    pub(crate) ids: RefCell<HashMap<usize, Option<Id>>>,
    pub(crate) schemes: Vec<OnceCell<Vec<Scheme>>>,
    pub(crate) words: OnceCell<Vec<Token>>,
    pub(crate) callers: Vec<OnceCell<Vec<usize>>>,
    /// Which functions mention which.
    pub(crate) reach: Reach,
    /// The function that the rules are to look at now; none while they look at what is outside functions.
    pub(crate) subject: Cell<Option<usize>>,
    /// Macros that only stand for another name.
    pub(crate) macro_names: Rc<HashMap<&'t str, &'t str>>,
    pub(crate) types: OnceCell<TypeNames>,
    pub(crate) vote_macros: OnceCell<HashMap<String, VoteMacro>>,
}

impl<'t> Context<'t> {
    /// The function of this name, when the file has exactly one with a body.
    pub fn only_function(&self, name: &str) -> Option<&Function<'t>> {
        match self.by_name.get(name)?[..] {
            [i] => self.functions.get(i),
            _ => None,
        }
    }

    /// Whether the file defines `name` itself: a function or macro that hides the builtin.
    pub fn redefines(&self, name: &str) -> bool {
        self.macros.contains(name)
            || self.by_name.contains_key(name)
            || self.model.variable_at(name, usize::MAX).is_some()
    }

    /// An evaluator for `f` that supposes only that x of the block is a multiple of 64.
    pub fn wide<'a>(&'a self, f: &'a Function<'t>) -> Evaluator<'a, 't> {
        self.evaluator(f, Geometry::Wide)
    }

    /// An evaluator for `f` in a workgroup of known shape.
    pub fn evaluator<'a>(&'a self, f: &'a Function<'t>, geometry: Geometry) -> Evaluator<'a, 't> {
        Evaluator::new(
            self.source,
            self.names,
            &f.bindings,
            geometry,
            f.place == Place::Kernel,
        )
    }

    /// Whether the host launches only where it found a wave size of 32: by the text of the conditions around it, since
    /// findings are kept by that.
    pub(crate) fn launched_on_32(&self, launch: &hipsmith_syntax::Launch) -> bool {
        let at = launch.range.start;
        let mut node = self.document.root().descendant_for_byte_range(at, at);
        for _ in 0..64 {
            let Some(parent) = node.and_then(|n| n.parent()) else {
                return false;
            };
            let branch = |name: &str| {
                parent
                    .child_by_field_name(name)
                    .is_some_and(|b| b.byte_range().contains(&at))
            };
            if parent.kind() == "if_statement"
                && let Some(c) = parent.child_by_field_name("condition")
            {
                let condition = self.text(c);
                if branch("consequence") && crate::waves::says_32(condition)
                    || branch("alternative") && crate::waves::says_64(condition)
                {
                    return true;
                }
            }
            node = Some(parent);
        }
        false
    }

    /// The functions that a rule of scope [`crate::rule::Scope::Function`] is to look at now.
    pub fn subjects(&self) -> impl Iterator<Item = (usize, &Function<'t>)> {
        let subject = self.subject.get();
        subject
            .and_then(|i| Some((i, self.functions.get(i)?)))
            .into_iter()
    }

    /// Whether the masked text holds `piece` anywhere, comments included: most files lack most of what rules look for.
    pub fn has_text(&self, piece: &'static str) -> bool {
        let mut known = self.texts.borrow_mut();
        *known
            .entry(piece)
            .or_insert_with(|| self.source.contains(piece))
    }

    /// Whether a rule is to look at what is outside functions now.
    pub fn is_outside_functions(&self) -> bool {
        self.subject.get().is_none()
    }

    /// The shuffle schemes of the `index`-th function.
    pub fn schemes_of(&self, index: usize) -> &[Scheme] {
        let (Some(cell), Some(f)) = (self.schemes.get(index), self.functions.get(index)) else {
            return &[];
        };
        cell.get_or_init(|| self.schemes(f))
    }

    /// The functions that call the `index`-th.
    pub fn callers_of(&self, index: usize) -> &[usize] {
        let Some(cell) = self.callers.get(index) else {
            return &[];
        };
        cell.get_or_init(|| {
            let calls = |caller: usize| {
                let mut calls = self.functions[caller].calls.iter();
                calls.any(|c| {
                    self.by_name
                        .get(&c.name)
                        .is_some_and(|all| all.contains(&index))
                })
            };
            let callers = self.reach.mentioned_by(index);
            callers.filter(|c| *c != index && calls(*c)).collect()
        })
    }

    /// The kernels from which the `index`-th function is reached, itself if it is one.
    pub fn kernels_reaching(&self, index: usize) -> Vec<usize> {
        let mut seen = HashSet::from([index]);
        let mut queue = vec![index];
        let mut out = Vec::new();
        while let Some(i) = queue.pop() {
            if self
                .functions
                .get(i)
                .is_some_and(|f| f.place == Place::Kernel)
            {
                out.push(i);
            }
            for c in self.callers_of(i) {
                if seen.insert(*c) {
                    queue.push(*c);
                }
            }
        }
        out.sort_unstable();
        out
    }

    /// Whether every launch that reaches the function has at most 32 threads in its block, or stands in the host's branch
    /// for a wave size of 32: then no upper half of a wavefront runs.
    pub fn at_most_32_threads(&self, index: usize) -> bool {
        let kernels = self.kernels_reaching(index);
        !kernels.is_empty()
            && kernels.iter().all(|k| {
                let name = &self.functions[*k].name;
                let mut any = false;
                let all = self
                    .model
                    .launches
                    .iter()
                    .filter(|l| l.kernel == *name)
                    .all(|l| {
                        any = true;
                        let small = l.block.is_some_and(|b| {
                            b.iter().map(|d| (*d).clamp(0, 1024)).product::<i64>() <= 32
                        });
                        small || self.launched_on_32(l)
                    });
                any && all
            })
    }

    /// Whether the byte at `offset` is in code that the target does not compile.
    pub fn is_inactive(&self, offset: usize) -> bool {
        self.document.is_inactive(offset)
    }

    /// The tokens of the masked text, comments left out: for what stands outside functions and in directives too.
    pub fn words(&self) -> &[Token] {
        self.words.get_or_init(|| tokens(self.source))
    }

    /// Whether the project seems to bring its own names for both platforms: a macro for `word`, or a local header that
    /// is about HIP or compatibility.
    pub fn may_be_mapped(&self, word: &str) -> bool {
        self.redefines(word)
            || self.model.includes().iter().any(|(path, local)| {
                let path = path.to_ascii_lowercase();
                *local
                    && [
                        "hip", "compat", "rocm", "vendor", "portab", "cuda_to", "gpu",
                    ]
                    .iter()
                    .any(|p| path.contains(p))
            })
    }

    /// The text of a node.
    pub fn text(&self, node: hipsmith_syntax::Node<'_>) -> &'t str {
        facts::text(self.source, node)
    }
}
