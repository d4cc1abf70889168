//! From the tree and the marks to the model: one walk, no recursion.

use std::ops::Range;
use std::sync::OnceLock;

use crate::tree::{Node, Notable};

use crate::document::Document;
use crate::lex::{TokenKind, matching_close, split_arguments, template_close, tokens};
use crate::mask::{Mark, MarkKind};

use super::{
    Alias, Class, Enumerator, Expr, Function, FunctionKind, Launch, LaunchBounds, LaunchSyntax,
    Model, Param, Scope, SharedArray, TemplateParam, Type, Variable,
};

/// What surrounds the nodes of one level of the tree.
#[derive(Clone, Copy)]
struct Frame {
    /// Bytes from here on are outside.
    end: usize,
    /// Where a name declared here is visible from..to.
    scope: (usize, usize),
    /// Index into the walk's class paths.
    class: usize,
    /// Whether the declarations here are local to a function.
    local: bool,
    /// The last enumerator of this list.
    enumerator: Option<usize>,
    /// Name of the enumeration, as an index into the class paths.
    template: Option<(usize, usize)>,
}

struct Builder<'a> {
    doc: &'a Document,
    model: Model,
    /// Qualified names of the classes walked through; the first is that of no class.
    classes: Vec<String>,
    /// Offsets of the masked text that the marks were made from.
    marks: &'a [Mark],
}

impl Model {
    /// Make the model of a document.
    pub(crate) fn build(doc: &Document) -> Self {
        let model = Model {
            text: doc.shared_text(),
            target: doc.target(),
            pre: doc.preprocessed().clone(),
            functions: Vec::new(),
            shared: Vec::new(),
            launches: Vec::new(),
            variables: Vec::new(),
            enumerators: Vec::new(),
            aliases: Vec::new(),
            classes: Vec::new(),
            index: OnceLock::new(),
        };
        let mut b = Builder {
            doc,
            model,
            classes: vec![String::new()],
            marks: doc.marks(),
        };
        if doc.is_parsed() {
            b.walk();
            super::recover::recover(&mut b.model, doc.masked(), doc.marks());
            b.shared_arrays();
            b.launches();
        }
        b.finish()
    }
}

impl<'a> Builder<'a> {
    fn expr(&self, range: Range<usize>) -> Expr {
        Expr {
            text: self.doc.slice(range.clone()).to_owned(),
            range,
        }
    }

    fn walk(&mut self) {
        let root = self.doc.root();
        let outside = Frame {
            end: usize::MAX,
            scope: (0, self.doc.text().len()),
            class: 0,
            local: false,
            enumerator: None,
            template: None,
        };
        let mut stack = vec![outside];
        for (what, node) in root.notable() {
            while stack.len() > 1 && stack.last().is_some_and(|f| f.end <= node.start_byte()) {
                stack.pop();
            }
            let inner = stack
                .last_mut()
                .and_then(|frame| self.visit(what, node, frame));
            stack.extend(inner);
        }
    }

    /// Take what `node` says; the frame for what is below it, if it makes one.
    fn visit(&mut self, what: Notable, node: Node<'a>, frame: &mut Frame) -> Option<Frame> {
        let range = (node.start_byte(), node.end_byte());
        let inside = Frame {
            end: range.1,
            enumerator: None,
            ..*frame
        };
        match what {
            Notable::Function => {
                self.function(node, frame);
                return Some(Frame {
                    scope: range,
                    local: true,
                    ..inside
                });
            }
            Notable::Lambda => {
                self.parameters_of(node.child_by_field_name("declarator"), range);
                return Some(Frame {
                    scope: range,
                    local: true,
                    ..inside
                });
            }
            Notable::Block
            | Notable::For
            | Notable::ForRange
            | Notable::If
            | Notable::While
            | Notable::Switch => {
                return frame.local.then_some(Frame {
                    scope: range,
                    ..inside
                });
            }
            Notable::Template => {
                return Some(Frame {
                    template: node
                        .child_by_field_name("parameters")
                        .map(|p| (p.start_byte(), p.end_byte())),
                    ..inside
                });
            }
            Notable::Class => {
                let class = self.class(node, frame)?;
                return Some(Frame { class, ..inside });
            }
            Notable::Enum => {
                let name = node.child_by_field_name("name");
                if let Some(name) = name {
                    let base = node.child_by_field_name("base");
                    self.model.aliases.push(Alias {
                        name: self.doc.node_text(name).to_owned(),
                        ty: base.map_or("int", |b| self.doc.node_text(b)).to_owned(),
                        at: node.start_byte(),
                        scope: frame.scope.0..frame.scope.1,
                        template: None,
                    });
                }
                let class = self.enter(frame.class, name.map(|n| self.doc.node_text(n)));
                return Some(Frame { class, ..inside });
            }
            Notable::Enumerator => self.enumerator(node, frame),
            Notable::Declaration | Notable::Field => self.declaration(node, frame),
            Notable::Alias => self.alias(node, frame),
            Notable::Call => self.call(node),
            Notable::Assignment
            | Notable::Update
            | Notable::Pointer
            | Notable::Capture
            | Notable::Subscript
            | Notable::Return
            | Notable::Binary
            | Notable::Asm => {}
        }
        None
    }

    /// The class path of `name` within `class`.
    fn enter(&mut self, class: usize, name: Option<&str>) -> usize {
        let Some(name) = name.filter(|n| !n.is_empty()) else {
            return class;
        };
        let outer = self.classes.get(class).cloned().unwrap_or_default();
        self.classes.push(format!("{outer}{name}::"));
        self.classes.len() - 1
    }

    fn marks_in(&self, range: Range<usize>) -> &'a [Mark] {
        let from = self.marks.partition_point(|m| m.range.start < range.start);
        let to = self.marks.partition_point(|m| m.range.start < range.end);
        self.marks.get(from..to).unwrap_or_default()
    }

    fn function(&mut self, node: Node<'a>, frame: &Frame) {
        let Some(body) = node
            .child_by_field_name("body")
            .filter(|b| b.kind() == "compound_statement")
        else {
            return;
        };
        let Some(declarator) = function_declarator(node) else {
            return;
        };
        let Some(name) = declarator
            .child_by_field_name("declarator")
            .and_then(innermost_name)
        else {
            return;
        };
        let mut start = node.start_byte();
        let head = self.marks_in(previous_end(node)..body.start_byte());
        let mut kinds = (false, false, false);
        let mut launch_bounds = None;
        let mut attributes = Vec::new();
        for mark in head {
            match mark.kind {
                MarkKind::Global => kinds.0 = true,
                MarkKind::Device => kinds.1 = true,
                MarkKind::Host => kinds.2 = true,
                MarkKind::LaunchBounds => launch_bounds = Some(self.launch_bounds(mark)),
                MarkKind::Attribute => {
                    attributes.extend(mark.arguments.clone().map(|a| self.expr(a)))
                }
                MarkKind::ForceInline | MarkKind::NoInline => {}
                _ => continue,
            }
            start = start.min(mark.range.start);
        }
        let is_template = node
            .parent()
            .is_some_and(|p| p.kind() == "template_declaration");
        if let Some((from, _)) = frame.template.filter(|_| is_template) {
            // `template` stands before its parameters.
            let before = self.doc.text().get(..from).unwrap_or_default();
            start = start.min(before.rfind("template").unwrap_or(start));
        }
        let kind = match kinds {
            (true, _, _) => FunctionKind::Kernel,
            (_, true, true) => FunctionKind::HostDevice,
            (_, true, false) => FunctionKind::Device,
            _ => FunctionKind::Host,
        };
        let template_params = frame
            .template
            .and_then(|(from, to)| self.doc.root().descendant_for_byte_range(from, to))
            .map(|list| self.template_params(list))
            .unwrap_or_default();
        let scope = (node.start_byte(), node.end_byte());
        let params = self.parameters_of(Some(declarator), scope);
        self.model.functions.push(Function {
            name: self.doc.node_text(name).to_owned(),
            name_range: name.byte_range(),
            range: start..node.end_byte(),
            body: body.byte_range(),
            kind,
            return_type: node
                .child_by_field_name("type")
                .map(|t| self.doc.node_text(t).to_owned())
                .unwrap_or_default(),
            template_params,
            params,
            launch_bounds,
            attributes,
            has_error: node.has_error(),
        });
    }

    fn launch_bounds(&self, mark: &Mark) -> LaunchBounds {
        let arguments = mark
            .arguments
            .clone()
            .map(|a| split_arguments(self.doc.text(), a))
            .unwrap_or_default()
            .into_iter()
            .map(|r| self.expr(r))
            .collect();
        LaunchBounds {
            range: mark.range.clone(),
            arguments,
            max_threads: None,
            min_blocks: None,
        }
    }

    fn template_params(&self, list: Node<'a>) -> Vec<TemplateParam> {
        list.named_children()
            .filter_map(|p| {
                let (is_type, name, default) = match p.kind() {
                    "parameter_declaration" => (false, p.child_by_field_name("declarator"), None),
                    "optional_parameter_declaration" => (
                        false,
                        p.child_by_field_name("declarator"),
                        p.child_by_field_name("default_value"),
                    ),
                    "type_parameter_declaration" => (true, p.named_child(0), None),
                    "optional_type_parameter_declaration" => (
                        true,
                        p.child_by_field_name("name"),
                        p.child_by_field_name("default_type"),
                    ),
                    "variadic_type_parameter_declaration"
                    | "template_template_parameter_declaration" => (true, None, None),
                    _ => return None,
                };
                Some(TemplateParam {
                    name: name
                        .map(|n| self.doc.node_text(n).to_owned())
                        .unwrap_or_default(),
                    is_type,
                    default: default.map(|d| self.doc.node_text(d).to_owned()),
                })
            })
            .collect()
    }

    /// Parameters of a function declarator; they become variables without a value, visible in `scope`.
    fn parameters_of(&mut self, declarator: Option<Node<'a>>, scope: (usize, usize)) -> Vec<Param> {
        let Some(list) = declarator.and_then(|d| d.child_by_field_name("parameters")) else {
            return Vec::new();
        };
        let mut params = Vec::new();
        for p in list.named_children() {
            if !matches!(
                p.kind(),
                "parameter_declaration" | "optional_parameter_declaration"
            ) {
                continue;
            }
            let declarator = p.child_by_field_name("declarator");
            let name = declarator.and_then(innermost_name);
            let mut ty = self.base_type(p);
            self.declarator_type(declarator, &mut ty);
            ty.is_restrict |= self
                .marks_in(p.byte_range())
                .iter()
                .any(|m| m.kind == MarkKind::Restrict);
            let param = Param {
                name: name
                    .map(|n| self.doc.node_text(n).to_owned())
                    .unwrap_or_default(),
                range: p.byte_range(),
                name_range: name.map_or(p.end_byte()..p.end_byte(), |n| n.byte_range()),
                ty,
            };
            if !param.name.is_empty() {
                self.model.variables.push(Variable {
                    name: param.name.clone(),
                    name_range: param.name_range.clone(),
                    scope: scope.0..scope.1,
                    ty: param.ty.clone(),
                    init: None,
                    is_const: param.ty.is_const && param.ty.pointers == 0,
                    unchanged: OnceLock::new(),
                });
            }
            params.push(param);
        }
        params
    }

    /// The type of a declaration or parameter, without its declarator.
    fn base_type(&self, node: Node<'a>) -> Type {
        let mut ty = Type::default();
        for child in node.children() {
            if child.kind() == "type_qualifier" {
                match self.doc.node_text(child) {
                    "const" | "constexpr" => ty.is_const = true,
                    "volatile" => ty.is_volatile = true,
                    _ => {}
                }
            }
        }
        if let Some(t) = node.child_by_field_name("type") {
            let text = if t.child_by_field_name("body").is_some() {
                t.child_by_field_name("name")
                    .map_or("", |n| self.doc.node_text(n))
            } else {
                self.doc.node_text(t)
            };
            let words: Vec<&str> = text
                .split_whitespace()
                .filter(|w| !matches!(*w, "struct" | "class" | "enum" | "union" | "typename"))
                .collect();
            ty.base = words.join(" ");
        }
        ty
    }

    /// Add what the declarator says to the type.
    fn declarator_type(&self, mut declarator: Option<Node<'a>>, ty: &mut Type) {
        while let Some(d) = declarator {
            match d.kind() {
                "pointer_declarator" | "abstract_pointer_declarator" => {
                    ty.pointers = ty.pointers.saturating_add(1);
                    ty.is_restrict |= d.children().any(|c| {
                        c.kind() == "type_qualifier" && self.doc.node_text(c).contains("restrict")
                    });
                }
                "array_declarator" | "abstract_array_declarator" => {
                    ty.pointers = ty.pointers.saturating_add(1);
                }
                "reference_declarator" | "abstract_reference_declarator" => ty.is_reference = true,
                "init_declarator" | "parenthesized_declarator" | "attributed_declarator" => {}
                _ => return,
            }
            declarator = d.child_by_field_name("declarator").or_else(|| {
                matches!(
                    d.kind(),
                    "reference_declarator"
                        | "parenthesized_declarator"
                        | "abstract_reference_declarator"
                )
                .then(|| d.named_child(0))
                .flatten()
            });
        }
    }

    fn class(&mut self, node: Node<'a>, frame: &Frame) -> Option<usize> {
        node.child_by_field_name("body")?;
        let name = node
            .child_by_field_name("name")
            .map(|n| self.doc.node_text(n).to_owned())
            .unwrap_or_default();
        let class = self.enter(frame.class, Some(&name));
        let template = frame
            .template
            .filter(|_| {
                node.parent()
                    .is_some_and(|p| p.kind() == "template_declaration")
            })
            .map(|(from, to)| from..to);
        self.model.classes.push(Class {
            name,
            range: node.byte_range(),
            template,
        });
        Some(class)
    }

    fn enumerator(&mut self, node: Node<'a>, frame: &mut Frame) {
        let Some(name) = node.child_by_field_name("name") else {
            return;
        };
        let name = self.doc.node_text(name).to_owned();
        let class = self.classes.get(frame.class).map_or("", String::as_str);
        self.model.enumerators.push(Enumerator {
            qualified: format!("{class}{name}"),
            name,
            value: node
                .child_by_field_name("value")
                .map(|v| self.doc.node_text(v).to_owned()),
            previous: frame.enumerator,
            at: node.start_byte(),
        });
        frame.enumerator = Some(self.model.enumerators.len() - 1);
    }

    fn declaration(&mut self, node: Node<'a>, frame: &Frame) {
        if node.is_error() {
            return;
        }
        let base = self.base_type(node);
        let is_field = node.kind() == "field_declaration";
        for d in node.children_by_field_name("declarator") {
            if d.has_error() {
                continue;
            }
            let Some(name) = innermost_name(d) else {
                continue;
            };
            let mut ty = base.clone();
            self.declarator_type(Some(d), &mut ty);
            let init = if is_field {
                node.child_by_field_name("default_value")
                    .map(|v| self.expr(v.byte_range()))
            } else {
                self.initializer(d)
            };
            // A member without a constant value is of no use here, and a function's declaration is no variable.
            if (is_field && init.is_none()) || (init.is_none() && holds_function(d)) {
                continue;
            }
            let class = self.classes.get(frame.class).map_or("", String::as_str);
            let text = self.doc.node_text(name);
            self.model.variables.push(Variable {
                name: if is_field {
                    format!("{class}{text}")
                } else {
                    text.to_owned()
                },
                name_range: name.byte_range(),
                scope: if is_field {
                    0..self.doc.text().len()
                } else {
                    frame.scope.0..frame.scope.1
                },
                // `const int *p` is a variable pointer to constant data.
                is_const: ty.is_const && ty.pointers == 0,
                ty,
                init,
                unchanged: OnceLock::new(),
            });
            if is_field && frame.local {
                // A class inside a function: its constants are seen without qualification too.
                continue;
            }
        }
    }

    /// What a declarator is initialized with. `dim3 b(N, M);` looks like a function's declaration to the grammar.
    fn initializer(&self, d: Node<'a>) -> Option<Expr> {
        if d.kind() == "init_declarator" {
            return d
                .child_by_field_name("value")
                .map(|v| self.expr(v.byte_range()));
        }
        if d.kind() == "function_declarator" {
            let list = d.child_by_field_name("parameters")?;
            return (list.named_child_count() > 0).then(|| self.expr(list.byte_range()));
        }
        None
    }

    fn alias(&mut self, node: Node<'a>, frame: &Frame) {
        let Some(ty) = node.child_by_field_name("type") else {
            return;
        };
        let template = frame
            .template
            .filter(|_| {
                node.parent()
                    .is_some_and(|p| p.kind() == "template_declaration")
            })
            .map(|(from, to)| from..to);
        let alias = |name: String, ty: String| Alias {
            name,
            ty,
            at: node.start_byte(),
            scope: frame.scope.0..frame.scope.1,
            template: template.clone(),
        };
        if ty.child_by_field_name("body").is_some() {
            // `typedef struct { ... } name;`: the class was seen without a name, or with another one.
            if let Some(d) = node
                .child_by_field_name("declarator")
                .and_then(innermost_name)
            {
                let name = self.doc.node_text(d).to_owned();
                let inner = ty
                    .child_by_field_name("name")
                    .map(|n| self.doc.node_text(n).to_owned());
                match inner {
                    Some(inner) if inner == name => {}
                    Some(inner) => self.model.aliases.push(alias(name, inner)),
                    None if ty.kind() == "enum_specifier" => {
                        self.model.aliases.push(alias(name, "int".to_owned()));
                    }
                    None => self.model.classes.push(Class {
                        name,
                        range: ty.byte_range(),
                        template: None,
                    }),
                }
            }
            return;
        }
        let text = self.doc.node_text(ty).to_owned();
        if node.kind() == "alias_declaration" {
            if let Some(name) = node.child_by_field_name("name") {
                let name = self.doc.node_text(name).to_owned();
                self.model.aliases.push(alias(name, text));
            }
            return;
        }
        let found: Vec<Alias> = node
            .children_by_field_name("declarator")
            .filter_map(|d| {
                let name = self.doc.node_text(innermost_name(d)?).to_owned();
                let ty = match d.kind() {
                    "type_identifier" | "primitive_type" => text.clone(),
                    "pointer_declarator" => format!("{text} *"),
                    "array_declarator" => {
                        let (dims, _) = array_dims(d);
                        let dims: Option<String> = dims
                            .into_iter()
                            .map(|d| Some(format!("[{}]", self.doc.node_text(d?))))
                            .collect();
                        format!("{text} {}", dims?)
                    }
                    // Functions: a type that has a name but no size here.
                    _ => return None,
                };
                (name != ty).then(|| alias(name, ty))
            })
            .collect();
        self.model.aliases.extend(found);
    }

    fn call(&mut self, node: Node<'a>) {
        let (Some(function), Some(arguments)) = (
            node.child_by_field_name("function"),
            node.child_by_field_name("arguments"),
        ) else {
            return;
        };
        if function.kind() != "identifier" {
            return;
        }
        let name = self.doc.node_text(function);
        if name == "hipLaunchKernelGGL"
            || name == "hipLaunchKernel" && arguments.named_child_count() > 5
        {
            self.macro_launch(node, arguments);
        }
    }

    /// A bracketed range without its brackets.
    fn inside(&self, range: Range<usize>) -> Range<usize> {
        if range.len() < 2 {
            return range.start..range.start;
        }
        range.start + 1..range.end - 1
    }

    fn arguments(&self, range: Range<usize>) -> Vec<Expr> {
        split_arguments(self.doc.text(), range)
            .into_iter()
            .map(|r| self.expr(r))
            .collect()
    }

    fn macro_launch(&mut self, node: Node<'a>, arguments: Node<'a>) {
        let mut parts = self.arguments(self.inside(arguments.byte_range()));
        if parts.len() < 5 {
            return;
        }
        let args = parts.split_off(5);
        let mut parts = parts.into_iter();
        let (Some(kernel), Some(grid), Some(block), Some(lds), Some(stream)) = (
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
        ) else {
            return;
        };
        let mut range = kernel.range;
        // `HIP_KERNEL_NAME(k<256>)` and `(k<256, float>)` are `k<...>`.
        loop {
            let text = self.doc.slice(range.clone());
            let open = match text.strip_prefix("HIP_KERNEL_NAME") {
                Some(rest) => text.len() - rest.trim_start().len(),
                None => 0,
            };
            if text.get(open..open + 1) == Some("(")
                && matching_close(text, open) == Some(text.len() - 1)
            {
                range = range.start + open + 1..range.end - 1;
            } else {
                break;
            }
        }
        let Some((kernel_range, template)) = self.kernel_name(range) else {
            return;
        };
        self.push_launch(
            LaunchSyntax::Macro,
            node.byte_range(),
            kernel_range,
            template,
            vec![grid, block, lds, stream],
            args,
        );
    }

    /// The name at the end of `range` and the template arguments after it.
    fn kernel_name(&self, range: Range<usize>) -> Option<(Range<usize>, Option<Range<usize>>)> {
        let text = self.doc.slice(range.clone());
        let toks = tokens(text);
        let mut last = toks.len().checked_sub(1)?;
        let mut template = None;
        if toks[last].text(text) == ">" {
            let close = last;
            // Backwards to the `<` that this `>` closes.
            let open = (0..close)
                .rev()
                .filter(|i| toks[*i].text(text) == "<")
                .find(|i| template_close(&toks, *i, text) == Some(close))?;
            template =
                Some(range.start + toks[open].range.end..range.start + toks[close].range.start);
            last = open.checked_sub(1)?;
        }
        let name = toks.get(last).filter(|t| t.kind == TokenKind::Ident)?;
        Some((
            range.start + name.range.start..range.start + name.range.end,
            template,
        ))
    }

    fn push_launch(
        &mut self,
        syntax: LaunchSyntax,
        range: Range<usize>,
        kernel_range: Range<usize>,
        template: Option<Range<usize>>,
        config: Vec<Expr>,
        args: Vec<Expr>,
    ) {
        let mut config = config.into_iter();
        let (Some(grid_expr), Some(block_expr)) = (config.next(), config.next()) else {
            return;
        };
        self.model.launches.push(Launch {
            syntax,
            range,
            kernel: self.doc.slice(kernel_range.clone()).to_owned(),
            kernel_range,
            template_args: template.map(|t| self.arguments(t)).unwrap_or_default(),
            grid_expr,
            block_expr,
            lds_expr: config.next(),
            stream_expr: config.next(),
            args,
            grid: None,
            block: None,
            lds_bytes: None,
            function: None,
        });
    }

    /// The chevron launches, from their marks.
    fn launches(&mut self) {
        let text = self.doc.text();
        for mark in self.marks.iter().filter(|m| m.kind == MarkKind::Launch) {
            let Some(config) = mark.arguments.clone() else {
                continue;
            };
            let before = text.get(..mark.range.start).unwrap_or_default();
            let from = before.rfind([';', '{', '}']).map_or(0, |p| p + 1);
            let Some((kernel_range, template)) = self.kernel_name(from..mark.range.start) else {
                continue;
            };
            let after = text.get(mark.range.end..).unwrap_or_default();
            let Some(open) = tokens_start(after).map(|p| mark.range.end + p) else {
                continue;
            };
            let Some(close) = matching_close(text, open) else {
                continue;
            };
            let config = self.arguments(config);
            let args = self.arguments(open + 1..close);
            self.push_launch(
                LaunchSyntax::Chevron,
                kernel_range.start..close + 1,
                kernel_range,
                template,
                config,
                args,
            );
        }
        self.model.launches.sort_by_key(|l| l.range.start);
    }

    /// `__shared__` declarations, from their marks.
    fn shared_arrays(&mut self) {
        let root = self.doc.root();
        let masked = self.doc.masked();
        let marks: Vec<&Mark> = self
            .marks
            .iter()
            .filter(|m| matches!(m.kind, MarkKind::Shared | MarkKind::DynamicShared))
            .collect();
        for mark in marks {
            // The first thing after the word that the grammar saw; for the macro, its `extern`.
            let from = if mark.kind == MarkKind::Shared {
                mark.range.end
            } else {
                mark.range.start
            };
            let rest = masked.get(from..).unwrap_or_default();
            let Some(at) = rest.find(|c: char| !c.is_whitespace()).map(|p| from + p) else {
                continue;
            };
            let mut node = root.descendant_for_byte_range(at, at);
            while let Some(n) = node {
                match n.kind() {
                    "declaration" => break,
                    "compound_statement"
                    | "function_definition"
                    | "translation_unit"
                    | "parameter_list" => {
                        node = None;
                        break;
                    }
                    _ => node = n.parent(),
                }
            }
            if let Some(declaration) = node
                && declaration.end_byte() > mark.range.start
            {
                self.shared_declaration(declaration, mark);
            }
        }
        super::recover::recover_shared(&mut self.model, self.marks);
        self.model.shared.sort_by_key(|s| s.name_range.start);
        self.model.shared.dedup_by_key(|s| s.name_range.start);
    }

    fn shared_declaration(&mut self, node: Node<'a>, mark: &Mark) {
        let base = self.base_type(node);
        let is_extern = node
            .children()
            .any(|c| c.kind() == "storage_class_specifier" && self.doc.node_text(c) == "extern")
            || mark.kind == MarkKind::DynamicShared;
        let start = node.start_byte().min(mark.range.start);
        let align = self
            .marks_in(start..node.end_byte())
            .iter()
            .filter(|m| matches!(m.kind, MarkKind::Align | MarkKind::Attribute))
            .find_map(|m| self.alignment(m));
        for d in node.children_by_field_name("declarator") {
            if d.has_error() {
                continue;
            }
            let (dims, inner) = array_dims(d);
            let Some(name) = innermost_name(inner) else {
                continue;
            };
            let is_pointer = is_pointer(d, inner);
            let unsized_array = dims.first().is_some_and(Option::is_none);
            self.model.shared.push(SharedArray {
                name: self.doc.node_text(name).to_owned(),
                name_range: name.byte_range(),
                range: start..node.end_byte(),
                element: if is_pointer {
                    format!("{} *", base.base)
                } else {
                    base.base.clone()
                },
                element_size: None,
                dims: dims
                    .into_iter()
                    .flatten()
                    .map(|d| self.expr(d.byte_range()))
                    .collect(),
                dim_values: Vec::new(),
                dynamic: is_extern || unsized_array,
                function: None,
                align,
            });
        }
    }

    /// Bytes of an `__align__(n)` or `__attribute__((aligned(n)))`.
    fn alignment(&self, mark: &Mark) -> Option<u64> {
        let text = self.doc.slice(mark.arguments.clone()?);
        let number = match mark.kind {
            MarkKind::Align => text,
            _ => text
                .split_once("aligned")?
                .1
                .trim_start_matches(['(', '_', ' ']),
        };
        let digits: String = number
            .trim()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().ok().filter(|n: &u64| n.is_power_of_two())
    }

    /// Fill in what needs the whole model: values and surroundings.
    fn finish(self) -> Model {
        let mut model = self.model;
        model.functions.sort_by_key(|f| f.range.start);
        let bounds: Vec<_> = model
            .functions
            .iter()
            .map(|f| {
                f.launch_bounds.as_ref().map(|b| {
                    let scope = Scope::at(f.body.start);
                    let value =
                        |i: usize| b.arguments.get(i).and_then(|a| model.eval(&a.text, &scope));
                    (value(0), value(1))
                })
            })
            .collect();
        for (f, value) in model.functions.iter_mut().zip(bounds) {
            if let (Some(b), Some((threads, blocks))) = (f.launch_bounds.as_mut(), value) {
                b.max_threads = threads;
                b.min_blocks = blocks;
            }
        }
        let shared: Vec<_> = model
            .shared
            .iter()
            .map(|s| {
                let function = model.function_at(s.name_range.start);
                let scope = Scope::at(s.name_range.start);
                let values = s.dims.iter().map(|d| model.eval(&d.text, &scope)).collect();
                (function, model.size_of(&s.element, &scope), values)
            })
            .collect();
        for (s, (function, size, values)) in model.shared.iter_mut().zip(shared) {
            s.function = function;
            s.element_size = size;
            s.dim_values = values;
        }
        let launches: Vec<_> = model
            .launches
            .iter()
            .map(|l| {
                let scope = Scope::at(l.range.start);
                let lds = match &l.lds_expr {
                    None => Some(0),
                    Some(e) => model.eval(&e.text, &scope),
                };
                (
                    model.function_at(l.range.start),
                    model.eval_dims(&l.grid_expr.text, &scope),
                    model.eval_dims(&l.block_expr.text, &scope),
                    lds,
                )
            })
            .collect();
        for (l, (function, grid, block, lds)) in model.launches.iter_mut().zip(launches) {
            l.function = function;
            l.grid = grid;
            l.block = block;
            l.lds_bytes = lds;
        }
        model
    }
}

/// Offset of the first `(` of `text` if nothing but white space and comments stands before it.
fn tokens_start(text: &str) -> Option<usize> {
    let s = text.as_bytes();
    let mut i = 0;
    while i < s.len() {
        if let Some(end) = crate::lex::comment_end(s, i) {
            i = end;
        } else if s[i].is_ascii_whitespace() || s[i] == b'\\' {
            i += 1;
        } else {
            return (s[i] == b'(').then_some(i);
        }
    }
    None
}

/// End of the sibling before a node, comments left out: what stands between belongs to the node.
fn previous_end(node: Node<'_>) -> usize {
    std::iter::successors(node.prev_sibling(), |n| n.prev_sibling())
        .find(|n| !n.is_extra())
        .or_else(|| node.parent().filter(|p| p.parent().is_some()))
        .map_or(0, |before| {
            if before.end_byte() <= node.start_byte() {
                before.end_byte()
            } else {
                before.start_byte()
            }
        })
}

/// The function declarator of a function definition, through pointers and references of the return type.
fn function_declarator(node: Node<'_>) -> Option<Node<'_>> {
    let mut d = node.child_by_field_name("declarator")?;
    for _ in 0..8 {
        match d.kind() {
            "function_declarator" => return Some(d),
            "reference_declarator" | "parenthesized_declarator" | "attributed_declarator" => {
                d = d.named_child(0)?;
            }
            _ => d = d.child_by_field_name("declarator")?,
        }
    }
    None
}

/// The identifier in a declarator or qualified name.
fn innermost_name(node: Node<'_>) -> Option<Node<'_>> {
    let mut n = node;
    for _ in 0..32 {
        match n.kind() {
            "identifier" | "field_identifier" | "type_identifier" | "operator_name"
            | "destructor_name" | "primitive_type" => return Some(n),
            "qualified_identifier" | "template_function" | "template_type" | "template_method" => {
                n = n.child_by_field_name("name")?;
            }
            "reference_declarator"
            | "parenthesized_declarator"
            | "attributed_declarator"
            | "variadic_declarator" => n = n.named_child(0)?,
            _ => n = n.child_by_field_name("declarator")?,
        }
    }
    None
}

/// Whether a declarator declares a function.
fn holds_function(node: Node<'_>) -> bool {
    let mut n = Some(node);
    for _ in 0..16 {
        match n {
            Some(d) if d.kind() == "function_declarator" => return true,
            Some(d) => n = d.child_by_field_name("declarator"),
            None => return false,
        }
    }
    false
}

/// Dimensions of an array declarator, outermost first (`None` for empty brackets), and what they stand on.
fn array_dims(node: Node<'_>) -> (Vec<Option<Node<'_>>>, Node<'_>) {
    let mut dims = Vec::new();
    let mut n = node;
    for _ in 0..16 {
        match n.kind() {
            "array_declarator" => dims.push(n.child_by_field_name("size")),
            "init_declarator" | "pointer_declarator" => {}
            _ => break,
        }
        match n.child_by_field_name("declarator") {
            Some(inner) => n = inner,
            None => break,
        }
    }
    dims.reverse();
    (dims, n)
}

/// Whether a star or reference stands between a declarator and the innermost one of its arrays.
fn is_pointer(declarator: Node<'_>, inner: Node<'_>) -> bool {
    let mut n = declarator;
    for _ in 0..17 {
        if matches!(
            n.kind(),
            "pointer_declarator" | "reference_declarator" | "parenthesized_declarator"
        ) {
            return true;
        }
        match n.child_by_field_name("declarator") {
            Some(next) if n.id() != inner.id() => n = next,
            _ => return false,
        }
    }
    true
}
