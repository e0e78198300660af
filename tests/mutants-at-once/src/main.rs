//! Rewrites Rust sources so that they contain each mutation next to the original, and a number
//! selects the one that runs.
//!
//!     mutants-at-once PROJECT TREE WITHOUT PATH...
//!
//! TREE is a copy of PROJECT. WITHOUT is a file of mutation numbers to leave out because they do
//! not compile, one per line. Each PATH of PROJECT is written to TREE if it differs, because cargo
//! compares modification times. Standard output has a line for each mutation: its number, the
//! number of its site, path, line, the range of its text in the new file (from, to), the range of
//! its site (from, to), and a description.
//!
//! The mutations are those of cargo-mutants: another comparison, operator or condition; a match arm
//! or guard removed; a function that does nothing or returns a constant. `const` functions, macros,
//! tests and code outside of functions are not changed.

#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::env;
use std::fs;

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, GenericArgument, Pat, PathArguments, ReturnType, Type, UnOp};

fn main() {
    let mut arguments = env::args().skip(1);
    let project = arguments.next().expect("PROJECT");
    let tree = arguments.next().expect("TREE");
    let without = fs::read_to_string(arguments.next().expect("WITHOUT")).unwrap_or_default();
    let without: HashSet<u32> = without.lines().map(|line| line.parse().expect("a number")).collect();
    let mut next: u32 = 1;
    for path in arguments {
        let text = fs::read_to_string(format!("{project}/{path}")).expect("a source");
        let file = syn::parse_file(&text).expect("Rust");
        let mut sites = Sites { text: &text, found: Vec::new(), function: String::new() };
        sites.visit_file(&file);
        let mut found = sites.found;
        // An empty range precedes the sites that begin there.
        found.sort_by_key(|site| (site.from, site.to > site.from, std::cmp::Reverse(site.to)));
        for site in &mut found {
            site.first = next;
            next += site.changes.len() as u32;
        }
        let mut written =
            Written { text: &text, out: String::new(), lines: Vec::new(), without: &without, path: &path };
        written.range(0, text.len(), &found);
        let name = format!("{tree}/{path}");
        if fs::read_to_string(&name).is_ok_and(|before| before != written.out) {
            fs::write(&name, &written.out).expect("the source can be written");
        }
        for line in written.lines {
            println!("{line}");
        }
    }
}

/// A range of the source, and its alternatives.
struct Site {
    first: u32,
    line: usize,
    from: usize,
    to: usize,
    form: Form,
    /// The text of each, and its description.
    changes: Vec<(String, String)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// The changes replace an expression.
    Expression,
    /// A guard that disables a match arm. The range is empty.
    Arm,
    /// The changes are values that a function returns. The range is empty.
    Return,
}

struct Sites<'a> {
    text: &'a str,
    found: Vec<Site>,
    function: String,
}

impl Sites<'_> {
    fn of(&self, span: Span) -> &str {
        &self.text[span.byte_range()]
    }

    fn add(&mut self, span: Span, form: Form, changes: Vec<(String, String)>) {
        let range = span.byte_range();
        self.add_at(range.start, range.end, span.start().line, form, changes);
    }

    fn add_at(&mut self, from: usize, to: usize, line: usize, form: Form, changes: Vec<(String, String)>) {
        if !changes.is_empty() {
            let changes = changes
                .into_iter()
                .map(|(text, change)| (text, format!("{change} in {}", self.function)))
                .collect();
            self.found.push(Site { first: 0, line, from, to, form, changes });
        }
    }

    fn function(&mut self, attributes: &[syn::Attribute], signature: &syn::Signature, block: &syn::Block) {
        if is_for_tests(attributes) || signature.constness.is_some() {
            return;
        }
        let outer = std::mem::replace(&mut self.function, signature.ident.to_string());
        if !block.stmts.is_empty() && !matches!(&*self.function, "new" | "default" | "footprint") {
            let values = match &signature.output {
                ReturnType::Default => vec!["()".to_owned()],
                ReturnType::Type(_, kind) => values(kind),
            };
            let body: String =
                block.stmts.iter().map(|statement| statement.to_token_stream().to_string()).collect();
            let changes = values
                .into_iter()
                .filter(|value| *value != body)
                .map(|value| (format!("return {value}"), format!("return {value}")))
                .collect();
            let open = block.brace_token.span.open();
            let at = open.byte_range().end;
            self.add_at(at, at, signature.ident.span().start().line, Form::Return, changes);
        }
        visit::visit_block(self, block);
        self.function = outer;
    }
}

impl<'ast> Visit<'ast> for Sites<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block);
        }
    }

    // Constant expressions cannot read the selected number at compile time.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_generic_argument(&mut self, _: &'ast GenericArgument) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, expression: &'ast syn::ExprRepeat) {
        self.visit_expr(&expression.expr);
    }

    fn visit_expr_binary(&mut self, expression: &'ast syn::ExprBinary) {
        if !(has_let(&expression.left) || has_let(&expression.right)) {
            let (left, right) =
                (self.of(expression.left.span()).to_owned(), self.of(expression.right.span()).to_owned());
            let is = self.of(expression.op.span()).to_owned();
            let changes = others(&expression.op)
                .iter()
                .map(|other| (format!("{left} {other} {right}"), format!("`{other}` for `{is}`")))
                .collect();
            self.add(expression.span(), Form::Expression, changes);
        }
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'ast syn::ExprUnary) {
        if matches!(expression.op, UnOp::Not(_) | UnOp::Neg(_)) {
            let inner = self.of(expression.expr.span()).to_owned();
            let is = self.of(expression.op.span()).to_owned();
            self.add(expression.span(), Form::Expression, vec![(inner, format!("without `{is}`"))]);
        }
        visit::visit_expr_unary(self, expression);
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        let has_rest =
            expression.arms.iter().any(|arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none());
        for arm in &expression.arms {
            let pattern = self.of(arm.pat.span()).split_whitespace().collect::<Vec<_>>().join(" ");
            if let Some((_, guard)) = &arm.guard {
                if !has_let(guard) {
                    let changes = ["true", "false"]
                        .map(|value| (value.to_owned(), format!("guard {value} of `{pattern}`")))
                        .to_vec();
                    self.add(guard.span(), Form::Expression, changes);
                }
            } else if has_rest && !matches!(arm.pat, Pat::Wild(_)) {
                let range = arm.pat.span().byte_range();
                let changes = vec![(String::new(), format!("without arm `{pattern}`"))];
                self.add_at(range.end, range.end, arm.pat.span().start().line, Form::Arm, changes);
            }
        }
        visit::visit_expr_match(self, expression);
    }
}

/// Whether an expression is part of a chain of conditions with `let`.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            has_let(&binary.left) || has_let(&binary.right)
        }
        _ => false,
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.meta.to_token_stream().to_string();
        text == "test" || text.starts_with("cfg (test")
    })
}

fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["==", ">", "<="],
        BinOp::Le(_) => &[">"],
        BinOp::Gt(_) => &["==", "<", ">="],
        BinOp::Ge(_) => &["<"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+", "/"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["%", "*"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::BitXor(_) => &["|", "&"],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) => &["+=", "/="],
        BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::DivAssign(_) => &["%=", "*="],
        BinOp::RemAssign(_) => &["/=", "+="],
        BinOp::BitAndAssign(_) => &["|=", "^="],
        BinOp::BitOrAssign(_) => &["&=", "^="],
        BinOp::BitXorAssign(_) => &["|=", "&="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        _ => &[],
    }
}

/// Constant return values of a type.
fn values(kind: &Type) -> Vec<String> {
    let strings = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    match kind {
        Type::Tuple(tuple) if tuple.elems.is_empty() => strings(&["()"]),
        Type::Tuple(tuple) => {
            let firsts: Option<Vec<String>> =
                tuple.elems.iter().map(|element| values(element).into_iter().next()).collect();
            firsts.map(|firsts| format!("({})", firsts.join(", "))).into_iter().collect()
        }
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => strings(&["\"\"", "\"xyzzy\""]),
            Type::Slice(_) => strings(&["&[]"]),
            _ => Vec::new(),
        },
        Type::Path(path) => {
            let last = path.path.segments.last().expect("a path has a segment");
            let inner = |n: usize| match &last.arguments {
                PathArguments::AngleBracketed(arguments) => {
                    arguments.args.iter().nth(n).and_then(|argument| match argument {
                        GenericArgument::Type(kind) => Some(values(kind)),
                        _ => None,
                    })
                }
                _ => None,
            };
            match &*last.ident.to_string() {
                "bool" => strings(&["true", "false"]),
                "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => strings(&["0", "1"]),
                "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => strings(&["0", "1", "-1"]),
                "Option" => {
                    let some = inner(0).unwrap_or_default().into_iter().map(|value| format!("Some({value})"));
                    std::iter::once("None".to_owned()).chain(some).collect()
                }
                "Result" => {
                    inner(0).unwrap_or_default().into_iter().map(|value| format!("Ok({value})")).collect()
                }
                _ => strings(&["Default::default()"]),
            }
        }
        _ => Vec::new(),
    }
}

/// The new text of a file under construction.
struct Written<'a> {
    text: &'a str,
    out: String,
    lines: Vec<String>,
    without: &'a HashSet<u32>,
    path: &'a str,
}

impl Written<'_> {
    /// Writes a range. `sites` are in it, in order; one that encloses others precedes them.
    fn range(&mut self, from: usize, to: usize, sites: &[Site]) {
        let (mut at, mut rest) = (from, sites);
        while let Some((site, others)) = rest.split_first() {
            let inner = others.iter().take_while(|other| other.from < site.to).count();
            self.out.push_str(&self.text[at..site.from]);
            self.site(site, &others[..inner]);
            at = site.to;
            rest = &others[inner..];
        }
        self.out.push_str(&self.text[at..to]);
    }

    fn site(&mut self, site: &Site, inner: &[Site]) {
        let kept: Vec<usize> =
            (0..site.changes.len()).filter(|n| !self.without.contains(&(site.first + *n as u32))).collect();
        if kept.is_empty() {
            return self.range(site.from, site.to, inner);
        }
        let start = self.out.len();
        let call = format!("crate::mutant::at({})", site.first);
        let mut ranges = Vec::new();
        match site.form {
            Form::Arm => {
                self.out.push_str(&format!(" if {call} != 0 "));
                ranges.push((0, start, self.out.len()));
            }
            Form::Expression | Form::Return => {
                self.out.push_str(if site.form == Form::Expression { "(match " } else { " match " });
                self.out.push_str(&call);
                self.out.push_str(" { ");
                for n in kept {
                    self.out.push_str(&format!("{n} => {{ "));
                    let from = self.out.len();
                    self.out.push_str(&site.changes[n].0);
                    ranges.push((n, from, self.out.len()));
                    self.out.push_str(" } ");
                }
                self.out.push_str("_ => { ");
                self.range(site.from, site.to, inner);
                self.out.push_str(if site.form == Form::Expression { " } })" } else { "} }; " });
            }
        }
        let end = self.out.len();
        for (n, from, to) in ranges {
            let (number, description) = (site.first + n as u32, &site.changes[n].1);
            self.lines.push(format!(
                "{number}\t{}\t{}\t{}\t{from}\t{to}\t{start}\t{end}\t{description}",
                site.first, self.path, site.line
            ));
        }
    }
}
