//! The parser of filter expressions.

use super::token::{Kind as TokenKind, Token, tokens};
use super::{Expression, Mistake, Order, Test, Tree, Wanted};
use crate::column::{Flat, Kind, List, find, flat};
use crate::did_you_mean::similar;
use glob::Pattern;
use rdmascope_analysis::filter::{operation_names, parse_number, status_names};
use rdmascope_analysis::paths::FilePattern;
use rdmascope_analysis::time::{Moment, ParseError, parse_duration};

/// Short names of common columns.
const SHORT: [(&str, &str); 3] = [("op", "operations"), ("conn", "connection"), ("time", "call_time")];

/// The greatest nesting depth of parentheses and `!`.
const DEEPEST: usize = 64;

/// Parses an expression about lines of `list`.
pub fn parse(text: &str, list: &dyn List) -> Result<Expression, Mistake> {
    let columns = flat(list);
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        line: list.name(),
        columns: &columns,
        expression: Expression { names: Vec::new(), tests: Vec::new(), tree: Tree::All(Vec::new()) },
    };
    parser.expression.tree = parser.any()?;
    match parser.tokens.get(parser.at) {
        None => Ok(parser.expression),
        Some(token) => Err(parser.mistake(token.at, "&& or || is expected before this")),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// The name of the kind of line.
    line: &'static str,
    columns: &'a [Flat],
    expression: Expression,
}

impl Parser<'_> {
    fn mistake(&self, at: usize, message: impl Into<String>) -> Mistake {
        Mistake { text: self.text.to_owned(), at, message: message.into() }
    }

    /// The offset of the next token, or of the end.
    fn here(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.len(), |token| token.at)
    }

    fn accepts(&mut self, wanted: &[&str]) -> Option<&'static str> {
        let sign = match &self.tokens.get(self.at)?.kind {
            TokenKind::Sign(sign) if wanted.contains(sign) => *sign,
            _ => return None,
        };
        self.at += 1;
        Some(sign)
    }

    fn accepts_word(&mut self, wanted: &str) -> bool {
        let is_it = matches!(self.tokens.get(self.at), Some(Token { kind: TokenKind::Word(word), .. }) if word == wanted);
        self.at += usize::from(is_it);
        is_it
    }

    fn any(&mut self) -> Result<Tree, Mistake> {
        let mut trees = vec![self.all()?];
        while self.accepts(&["||"]).is_some() || self.accepts_word("or") {
            trees.push(self.all()?);
        }
        Ok(if trees.len() == 1 { trees.remove(0) } else { Tree::Any(trees) })
    }

    fn all(&mut self) -> Result<Tree, Mistake> {
        let mut trees = vec![self.one()?];
        while self.accepts(&["&&"]).is_some() || self.accepts_word("and") {
            trees.push(self.one()?);
        }
        Ok(if trees.len() == 1 { trees.remove(0) } else { Tree::All(trees) })
    }

    fn one(&mut self) -> Result<Tree, Mistake> {
        let start = self.here();
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.mistake(start, "too deep"));
        }
        let tree = if self.accepts(&["!"]).is_some() || self.accepts_word("not") {
            Tree::Not(Box::new(self.one()?))
        } else if self.accepts(&["("]).is_some() {
            let tree = self.any()?;
            if self.accepts(&[")"]).is_none() {
                return Err(self.mistake(self.here(), "a ) is expected"));
            }
            tree
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(tree)
    }

    fn comparison(&mut self) -> Result<Tree, Mistake> {
        let (at, column) = self.column()?;
        let Some(sign) = self.accepts(&["==", "=", "!=", "<", "<=", ">", ">=", "~", "!~"]) else {
            if self.accepts_word("in") {
                return self.among(&column);
            }
            // A boolean column needs no comparison.
            return match column.kind {
                Kind::Boolean => Ok(self.test(&column, Wanted::Boolean(true))),
                _ => {
                    let message = format!("==, !=, <, >, ~ or `in` is expected after {}", column.name);
                    Err(self.mistake(self.here().max(at), message))
                }
            };
        };
        let (value_at, value, is_quoted) = self.value()?;
        let order = match sign {
            "<" => Order::Less,
            "<=" => Order::AtMost,
            ">" => Order::Greater,
            ">=" => Order::AtLeast,
            _ => Order::Equal,
        };
        let tree = match sign {
            "~" | "!~" => {
                let wanted = like(&column, &value).map_err(|message| self.mistake(value_at, message))?;
                self.test(&column, wanted)
            }
            _ => self.compared(&column, order, (value_at, &value, is_quoted))?,
        };
        Ok(if sign.starts_with('!') { Tree::Not(Box::new(tree)) } else { tree })
    }

    /// Parses `(A, B)` after `in`.
    fn among(&mut self, column: &Flat) -> Result<Tree, Mistake> {
        if self.accepts(&["("]).is_none() {
            return Err(self.mistake(self.here(), "values in parentheses are expected: in (READ, WRITE)"));
        }
        let mut trees = Vec::new();
        loop {
            let (at, value, is_quoted) = self.value()?;
            trees.push(self.compared(column, Order::Equal, (at, &value, is_quoted))?);
            if self.accepts(&[","]).is_some() {
                continue;
            }
            if self.accepts(&[")"]).is_some() {
                return Ok(Tree::Any(trees));
            }
            return Err(self.mistake(self.here(), ", or ) is expected"));
        }
    }

    /// Parses the name of a column.
    fn column(&mut self) -> Result<(usize, Flat), Mistake> {
        let at = self.here();
        let Some(Token { kind: TokenKind::Word(name), .. }) = self.tokens.get(self.at) else {
            return Err(self.mistake(at, "the name of a field is expected"));
        };
        let is_short = |(short, _): &&(&str, &str)| name.eq_ignore_ascii_case(short);
        let short = SHORT.iter().find(is_short).and_then(|(_, name)| find(self.columns, name));
        let column = find(self.columns, name).or(short);
        let Some(column) = column.cloned() else {
            let names = self.columns.iter().map(|column| column.name.as_str());
            let message = match similar(name, names).as_slice() {
                [] => format!("{} lines have no field {name}", self.line),
                near => {
                    format!("{} lines have no field {name}: did you mean {}?", self.line, near.join(" or "))
                }
            };
            return Err(self.mistake(at, message));
        };
        if column.is_object() || matches!(column.kind, Kind::Any(..)) {
            return Err(self.mistake(at, format!("{} has fields of its own: name one of them", column.name)));
        }
        self.at += 1;
        Ok((at, column))
    }

    fn value(&mut self) -> Result<(usize, String, bool), Mistake> {
        let at = self.here();
        let (value, is_quoted) = match self.tokens.get(self.at).map(|token| &token.kind) {
            Some(TokenKind::Word(word)) => (word.clone(), false),
            Some(TokenKind::Quoted(text)) => (text.clone(), true),
            _ => return Err(self.mistake(at, "a value is expected")),
        };
        self.at += 1;
        Ok((at, value, is_quoted))
    }

    /// Creates the comparison of a column with a value.
    fn compared(
        &mut self,
        column: &Flat,
        order: Order,
        (at, value, is_quoted): (usize, &str, bool),
    ) -> Result<Tree, Mistake> {
        // A status may be given as a number or by name.
        let of_names = format!("{}_name", column.name);
        let is_name = !is_quoted && value.starts_with(|first: char| first.is_ascii_alphabetic());
        if let (Kind::U32, Order::Equal, true, Some(names)) =
            (column.kind, order, is_name, find(self.columns, &of_names).cloned())
        {
            check("status", value, &status_names()).map_err(|message| self.mistake(at, message))?;
            let other = status_of_another_column(value)
                .and_then(|(name, wanted)| Some((find(self.columns, name)?.clone(), wanted)));
            let (column, wanted) = other.unwrap_or((names, Wanted::Status(value.to_owned())));
            return Ok(self.test(&column, wanted));
        }
        let wanted = wanted(column, order, value).map_err(|message| self.mistake(at, message))?;
        Ok(self.test(column, wanted))
    }

    fn test(&mut self, column: &Flat, wanted: Wanted) -> Tree {
        let Expression { names, tests, .. } = &mut self.expression;
        let place = names.iter().position(|name| *name == column.name).unwrap_or_else(|| {
            names.push(column.name.clone());
            names.len() - 1
        });
        tests.push(Test { place, wanted });
        Tree::Test(tests.len() - 1)
    }
}

/// The column and the condition for a status that is not one of the procedure: any error, a status
/// of the RPC, or an RDMA_ERROR.
fn status_of_another_column(value: &str) -> Option<(&'static str, Wanted)> {
    let beginning = |name: String| Pattern::new(&name).ok().map(Wanted::Like);
    let value = value.to_ascii_uppercase();
    match &value[..] {
        "ERROR" => Some(("failed", Wanted::Boolean(true))),
        "RDMA_ERROR" => Some(("error", beginning("*".to_owned())?)),
        "ERR_VERS" | "ERR_CHUNK" => Some(("error", beginning(value + "*")?)),
        "SUCCESS" | "PROG_UNAVAIL" | "PROG_MISMATCH" | "PROC_UNAVAIL" | "GARBAGE_ARGS" | "SYSTEM_ERR"
        | "RPC_MISMATCH" | "AUTH_ERROR" => Some(("rpc_status", beginning(value + "*")?)),
        _ => None,
    }
}

/// Creates the condition of a comparison with a value.
fn wanted(column: &Flat, order: Order, value: &str) -> Result<Wanted, String> {
    let message = |ParseError(text): ParseError| text.to_owned();
    let text = |wanted: Wanted| match order {
        Order::Equal => Ok(wanted),
        _ => Err(format!("{} is not a number: compare it with ==, !=, ~ or !~", column.name)),
    };
    match column.kind {
        Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Frame | Kind::Frames => {
            Ok(Wanted::Number(order, number(value)?))
        }
        Kind::Xid | Kind::Key | Kind::Qpn => {
            Ok(Wanted::Number(order, parse_number(value).map_err(message)?.into()))
        }
        Kind::Offset => Ok(Wanted::Number(order, number(value)?)),
        Kind::Nanoseconds => Ok(Wanted::Number(order, parse_duration(value).map_err(message)?.into())),
        Kind::Time => Ok(Wanted::Time(order, Moment::parse(value).map_err(message)?)),
        Kind::Fraction => match value.parse() {
            Ok(number) => Ok(Wanted::Fraction(order, number)),
            Err(_) => Err("a number is expected, such as 0.5".to_owned()),
        },
        Kind::Boolean => match value {
            "true" | "yes" => text(Wanted::Boolean(true)),
            "false" | "no" => text(Wanted::Boolean(false)),
            _ => Err("true or false is expected".to_owned()),
        },
        Kind::Word(words) if !words.is_empty() => {
            let words: Vec<_> = words.iter().map(|word| word.word).collect();
            check(&column.name, value, &words)?;
            text(Wanted::Word(value.to_owned()))
        }
        _ if matches!(column.name.as_str(), "operations" | "operation" | "name") => {
            check("operation", value, &operation_names())?;
            text(Wanted::Word(value.to_owned()))
        }
        _ if column.name.ends_with("status_name") => {
            check("status", value, &status_names())?;
            text(Wanted::Status(value.to_owned()))
        }
        Kind::Word(_) => text(Wanted::Word(value.to_owned())),
        _ => text(Wanted::Text(value.to_owned())),
    }
}

/// Creates the condition of a comparison with a pattern.
fn like(column: &Flat, pattern: &str) -> Result<Wanted, String> {
    match column.kind {
        Kind::Word(_) | Kind::Text | Kind::Texts | Kind::Bytes => {}
        _ => return Err(format!("{} is not text: compare it with ==, !=, < or >", column.name)),
    }
    if matches!(column.name.rsplit('.').next(), Some("file" | "other_file")) {
        return FilePattern::parse(pattern).map(Wanted::File).map_err(|ParseError(text)| text.to_owned());
    }
    let read = Pattern::new(pattern).map(Wanted::Like);
    read.map_err(|_| "invalid pattern: use *, ? and [...]".to_owned())
}

/// Checks that a value is one of the names. The error suggests similar names.
fn check(kind: &str, value: &str, names: &[&'static str]) -> Result<(), String> {
    if names.iter().any(|name| name.eq_ignore_ascii_case(value)) {
        return Ok(());
    }
    Err(match similar(value, names.iter().copied()).as_slice() {
        [] if names.len() <= 8 => format!("{kind} is one of {}", names.join(", ")),
        [] => format!("no {kind} is called {value}"),
        near => format!("no {kind} is called {value}: did you mean {}?", near.join(" or ")),
    })
}

/// Parses a 64-bit number, decimal or hexadecimal with `0x`, with an optional unit of bytes: 64KiB.
fn number(text: &str) -> Result<i128, String> {
    const UNITS: [(&str, i128); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];
    let read = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(i128::from),
        None => {
            let unit = UNITS.into_iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
            let (digits, scale) = unit.unwrap_or((text, 1));
            digits.parse::<u64>().ok().map(|number| i128::from(number) * scale)
        }
    };
    read.ok_or_else(|| "a number is expected, such as 12, 0x1f or 64KiB".to_owned())
}
